"""One poll answers all who wait for the same: how triggers wait.

A trigger says what it waits for (a `Subject` and an item of it), and when it wants to know:

    while True:
        state = await shared_poll.answer(subject, item, after_seconds=30, log=self.log)
        if is_over(state):
            break

All triggers of a triggerer that wait for equal subjects share one poller, which asks once for the items of all who are
due, or were half-way there: a thousand sensors on one table cost as many queries as one. The asking blocks, and is
done in threads (`triggers.servers`). The poller ends when nobody waits any more.
"""

from __future__ import annotations

import asyncio
import contextvars
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from airflow_provider_chs3.core.values.error_codes import is_terminal
from airflow_provider_chs3.exceptions import Chs3Error
from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
from airflow_provider_chs3.triggers.servers import Server, server

_Item = TypeVar("_Item", bound=Hashable)
_Answer = TypeVar("_Answer")

#: A trigger that fires sooner after deferring may find its task not yet deferred, which fails the task (Airflow 3.3).
FIRST_POLL_SECONDS = 10.0

#: Wait after the first, second … poll in a row that failed; the last one goes for all further ones.
_RETRY_SECONDS = (5.0, 10.0, 20.0, 40.0, 60.0)

#: A poller without waiters is kept for so long: those whom it answered come back with their next question.
_LINGER_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class Subject(ABC, Generic[_Item, _Answer]):
    """What is asked for. Derive a frozen dataclass: waiters whose subjects are equal share one poller.

    Args:
        conn_id: Id of an Airflow connection of type `chs3`.
    """

    conn_id: str

    @abstractmethod
    def asker(self, hook: ClickHouseHook) -> Callable[[frozenset[_Item]], Mapping[_Item, _Answer]]:
        """What asks. It is made anew after an error, and may remember things between two polls.

        Args:
            hook: The connection.

        Returns:
            Given the items that waiters want to know of, it gives an answer for each. It is called in a thread, may
            block, and raises what `core.values.error_codes` tells apart: after errors that may pass it is called again.
        """


class _Log(Protocol):
    """A standard logger, or Airflow's."""

    def warning(self, message: str, /, *args: Any) -> None: ...


async def answer(
    subject: Subject[_Item, _Answer],
    item: _Item,
    *,
    after_seconds: float,
    at_least_seconds: float | None = None,
    log: _Log,
) -> _Answer:
    """Wait, and ask.

    Args:
        subject: What is asked for.
        item: The part of it that this waiter wants to know of.
        after_seconds: When to ask. It may become half as much later, and sooner where others ask:
        at_least_seconds: But no sooner than this. Default: half of `after_seconds`.
        log: Where errors go that may pass; the question is asked again then, after 5 to 60 seconds.

    Returns:
        The answer.

    Raises:
        Chs3Error: A terminal one, which every further poll would meet.
        AirflowNotFoundException: There is no such connection.
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
    """Instead of an answer: an error that may pass."""

    error: Exception
    retry_seconds: float


@dataclass(frozen=True, eq=False)
class _Waiter:
    """Somebody who waits. Times are those of the event loop."""

    item: Any
    after_seconds: float
    soonest: float
    due: float
    outcome: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class _Poller:
    """Asks for all who wait for one subject on one event loop."""

    def __init__(self, subject: Subject[Any, Any]) -> None:
        self._subject = subject
        self._loop = asyncio.get_running_loop()
        self._waiters: set[_Waiter] = set()
        self._woken = asyncio.Event()
        self._wakes_at = self._polled_at = self._retry_at = float("-inf")
        self._failures = 0
        self._asker: tuple[ClickHouseHook, Callable[[frozenset[Any]], Mapping[Any, Any]]] | None = None

    async def wait(self, item: object, *, after_seconds: float, soonest_seconds: float) -> Any:
        """Wait for an answer, or for trouble."""
        now = self._loop.time()
        waiter = _Waiter(item, after_seconds, soonest=now + soonest_seconds, due=now + after_seconds)
        self._waiters.add(waiter)
        if self._time_for(waiter) < self._wakes_at:
            self._woken.set()
        try:
            return await waiter.outcome
        finally:
            self._waiters.discard(waiter)

    async def run(self) -> None:
        """Poll until nobody waits any more."""
        try:
            with server(self._subject.conn_id) as shared:
                while await self._sleep():
                    await self._poll(shared)
        finally:
            # Nothing is awaited since the last look at the waiters, so that nobody came whom this would leave behind.
            del _pollers[self._loop, self._subject]
            for waiter in self._waiters:
                waiter.outcome.cancel()

    async def _sleep(self) -> bool:
        """Sleep until somebody is due; false where nobody came for long."""
        has_lingered = False
        while True:
            now = self._loop.time()
            if self._waiters:
                self._wakes_at = min(map(self._time_for, self._waiters))
                if self._wakes_at <= now:
                    return True
            elif has_lingered:
                return False
            else:
                self._wakes_at = now + _LINGER_SECONDS
            has_lingered = not self._waiters
            self._woken.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._wakes_at):
                    await self._woken.wait()

    def _time_for(self, waiter: _Waiter) -> float:
        # Waiters who come one by one must not cause a poll each.
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
        """In a thread."""
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
    """The poller of a subject; started where there is none."""
    loop = asyncio.get_running_loop()
    found = _pollers.get((loop, subject))
    if found is None:
        found = _pollers[loop, subject] = _Poller(subject)
        # Not in the context of the trigger that came first, or its log would have what concerns all.
        task = loop.create_task(found.run(), context=contextvars.Context())
        _tasks.add(task)
        task.add_done_callback(_tasks.discard)
    return found
