"""A poll shared by all triggers that wait for the same subject.

A trigger gives a `Subject`, an item of it, and the time of the next poll:

    while True:
        state = await shared_poll.answer(subject, item, after_seconds=30, log=self.log)
        if is_over(state):
            break

All triggers of a triggerer that wait for equal subjects share one poller. It queries once for the items of all waiters
that are due, or at least half-way there: a thousand sensors on one table cost as many queries as one. Queries block, so
they run in threads (`triggers.servers`). The poller ends when nobody waits.
"""

from __future__ import annotations

import asyncio
import contextvars
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from airflow_provider_chs3.core.model.error_codes import is_terminal
from airflow_provider_chs3.exceptions import Chs3Error
from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
from airflow_provider_chs3.triggers.servers import Server, server

if TYPE_CHECKING:
    from airflow_provider_chs3.client.runner import ProgressLog

_Item = TypeVar("_Item", bound=Hashable)
_Answer = TypeVar("_Answer")

#: A trigger that fires sooner after deferring may find its task not yet deferred, which fails the task (Airflow 3.3).
FIRST_POLL_SECONDS = 10.0

#: Seconds to wait after the first, second … failed poll in a row; the last value applies to all further ones.
_RETRY_SECONDS = (5.0, 10.0, 20.0, 40.0, 60.0)

#: Seconds to keep a poller without waiters: those that it answered come back with their next question.
_LINGER_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class Subject(ABC, Generic[_Item, _Answer]):
    """The subject of a poll. Derive a frozen dataclass: waiters with equal subjects share one poller.

    Args:
        conn_id: Id of an Airflow connection of type `chs3`.
    """

    conn_id: str

    @abstractmethod
    def asker(self, hook: ClickHouseHook) -> Callable[[frozenset[_Item]], Mapping[_Item, _Answer]]:
        """Return the function that polls. It is created again after an error, and may keep state between polls.

        Args:
            hook: The connection.

        Returns:
            A function from the waiters' items to an answer for each. It is called in a thread, may block, and raises
            the errors that `core.model.error_codes` classifies: after transient ones it is called again.
        """


async def answer(
    subject: Subject[_Item, _Answer],
    item: _Item,
    *,
    after_seconds: float,
    at_least_seconds: float | None = None,
    log: ProgressLog,
) -> _Answer:
    """Wait, then poll.

    Args:
        subject: The subject.
        item: The part of it that this waiter waits for.
        after_seconds: Seconds until the poll. It may be half as much later, or sooner if others poll.
        at_least_seconds: Minimum seconds until the poll. Default: half of `after_seconds`.
        log: Log for transient errors, after which the poll is repeated in 5 to 60 seconds.

    Returns:
        The answer.

    Raises:
        Chs3Error: If a terminal error occurs, which every further poll would repeat.
        AirflowNotFoundException: If there is no such connection.
    """
    soonest_seconds = after_seconds / 2 if at_least_seconds is None else at_least_seconds
    while True:
        outcome = await _poller(subject).wait(item, after_seconds=after_seconds, soonest_seconds=soonest_seconds)
        if not isinstance(outcome, _Trouble):
            return outcome  # type: ignore[no-any-return]
        log.warning("%s Asking again in %g s.", outcome.error, outcome.retry_seconds)
        after_seconds = soonest_seconds = 0


@dataclass(frozen=True)
class _Trouble:
    """A transient error in place of an answer."""

    error: Exception
    retry_seconds: float


@dataclass(frozen=True, eq=False)
class _Waiter:
    """A waiter. Times are those of the event loop."""

    item: Any
    after_seconds: float
    soonest: float
    due: float
    outcome: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class _Poller:
    """The poller for all waiters of one subject on one event loop."""

    def __init__(self, subject: Subject[Any, Any]) -> None:
        self._subject = subject
        self._loop = asyncio.get_running_loop()
        self._waiters: set[_Waiter] = set()
        self._woken = asyncio.Event()
        self._wakes_at = self._polled_at = self._retry_at = float("-inf")
        self._failures = 0
        self._asker: tuple[ClickHouseHook, Callable[[frozenset[Any]], Mapping[Any, Any]]] | None = None

    async def wait(self, item: object, *, after_seconds: float, soonest_seconds: float) -> Any:
        """Wait for an answer or an error."""
        current = self._loop.time()
        waiter = _Waiter(item, after_seconds, soonest=current + soonest_seconds, due=current + after_seconds)
        self._waiters.add(waiter)
        if self._time_for(waiter) < self._wakes_at:
            self._woken.set()
        try:
            return await waiter.outcome
        finally:
            self._waiters.discard(waiter)

    async def run(self) -> None:
        """Poll until nobody waits."""
        try:
            with server(self._subject.conn_id) as shared:
                while await self._sleep():
                    await self._poll(shared)
        finally:
            # Nothing was awaited since the waiters were checked, so no new waiter is left behind.
            del _pollers[self._loop, self._subject]
            for waiter in self._waiters:
                waiter.outcome.cancel()

    async def _sleep(self) -> bool:
        """Sleep until a waiter is due; return False if none came for long."""
        has_lingered = False
        while True:
            current = self._loop.time()
            if self._waiters:
                self._wakes_at = min(map(self._time_for, self._waiters))
                if self._wakes_at <= current:
                    return True
            elif has_lingered:
                return False
            else:
                self._wakes_at = current + _LINGER_SECONDS
            has_lingered = not self._waiters
            self._woken.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._wakes_at):
                    await self._woken.wait()

    def _time_for(self, waiter: _Waiter) -> float:
        # Waiters that arrive one by one must not each cause a poll.
        return max(waiter.due, self._polled_at + waiter.after_seconds / 2, self._retry_at)

    async def _poll(self, shared: Server) -> None:
        self._polled_at = self._loop.time()
        asked = [waiter for waiter in self._waiters if waiter.soonest <= self._polled_at]
        wanted = frozenset(waiter.item for waiter in asked)
        try:
            answers = await shared.run(partial(self._ask, wanted))
            outcomes = [(waiter, answers[waiter.item]) for waiter in asked]
        except Exception as error:
            self._tell(asked, error)
            return
        self._failures = 0
        for waiter, outcome in outcomes:
            self._waiters.discard(waiter)
            if not waiter.outcome.done():
                waiter.outcome.set_result(outcome)

    def _ask(self, wanted: frozenset[Any], hook: ClickHouseHook) -> Mapping[Any, Any]:
        """Poll, in a thread."""
        if self._asker is None or self._asker[0] is not hook:
            self._asker = hook, self._subject.asker(hook)
        return self._asker[1](wanted)

    def _tell(self, asked: list[_Waiter], error: Exception) -> None:
        retry_seconds = _RETRY_SECONDS[min(self._failures, len(_RETRY_SECONDS) - 1)]
        self._failures += 1
        self._retry_at = self._loop.time() + retry_seconds
        may_pass = isinstance(error, Chs3Error) and not is_terminal(error)
        for waiter in asked:
            self._waiters.discard(waiter)
            if waiter.outcome.done():
                continue
            if may_pass:
                waiter.outcome.set_result(_Trouble(error, retry_seconds))
            else:
                waiter.outcome.set_exception(error)


_pollers: dict[tuple[asyncio.AbstractEventLoop, Subject[Any, Any]], _Poller] = {}
_tasks: set[asyncio.Task[None]] = set()


def _poller(subject: Subject[Any, Any]) -> _Poller:
    """Return the poller of a subject; start one if there is none."""
    loop = asyncio.get_running_loop()
    poller = _pollers.get((loop, subject))
    if poller is None:
        poller = _pollers[loop, subject] = _Poller(subject)
        # Not in the context of the first trigger, or its log would get the lines that concern all.
        task = loop.create_task(poller.run(), context=contextvars.Context())
        _tasks.add(task)
        task.add_done_callback(_tasks.discard)
    return poller
