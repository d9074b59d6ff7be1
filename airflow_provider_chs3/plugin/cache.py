"""Shared answers: many users share one query, and wait without holding a thread."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from airflow_provider_chs3.client.runner import Runner
from airflow_provider_chs3.core.model.error_codes import with_hint
from airflow_provider_chs3.core.steps.operations import Steps
from airflow_provider_chs3.exceptions import Chs3Error
from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook

T = TypeVar("T")
Question = TypeVar("Question", bound=Hashable)


class SharedAnswers(Generic[Question, T]):
    """One answer to each question, kept for a few seconds in this process."""

    def __init__(self, look: Callable[[Question], T], *, pool: Executor, seconds: float) -> None:
        self._look = look
        self._pool = pool
        self._seconds = seconds
        self._lock = threading.Lock()
        #: With the times at which they began.
        self._looks: dict[Question, tuple[Future[T], float]] = {}

    async def get(self, question: Question) -> T:
        """Return the answer: a valid one, one already on its way, or a new one."""
        # A user who leaves must not cancel the query of the others.
        return await asyncio.shield(asyncio.wrap_future(self._answer(question)))

    def _answer(self, question: Question) -> Future[T]:
        at = time.monotonic()
        with self._lock:
            # Questions come from outside: forget those that nobody asks any more.
            self._looks = {
                other: (answer, begun_at)
                for other, (answer, begun_at) in self._looks.items()
                if not answer.done() or at - begun_at < self._seconds
            }
            if question not in self._looks:
                self._looks[question] = self._pool.submit(self._look, question), at
            return self._looks[question][0]


#: Answers that are remembered of all questions.
_MOST_REMEMBERED = 64
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An answer through a connection."""

    conn_id: str
    error: str = ""
    seen_at: float | None = None
    unread: str = ""

    def _as_json(self) -> dict[str, Any]:
        return {"conn_id": self.conn_id, "error": self.error, "seen_at": self.seen_at, "unread": self.unread}


S = TypeVar("S", bound=Answer)


class LastAnswers(Generic[Question, S]):
    """A memory of the last answer of each connection, which is returned with the error if a new query fails."""

    def __init__(self, look: Callable[[Question], S], *, nothing: Callable[[Question], S]) -> None:
        self._look = look
        self._nothing = nothing
        self._last: dict[Question, S] = {}

    def last(self, question: Question) -> S | None:
        """Return the last answer to a question, if there was one."""
        return self._last.get(question)

    def look(self, question: Question) -> S:
        """Query a connection; the question is its id, or begins with it."""
        last = self._last.pop(question, None)
        try:
            last = answer = self._look(question)
        except Chs3Error as error:
            _LOG.info("The page cannot read the state of %s: %s", question, error)
            answer = replace(last or self._nothing(question), error=with_hint(error, str(error)))
        if last:
            self._last[question] = last
            # Questions come from outside: forget those that nobody has asked for longest.
            for oldest in list(self._last)[:-_MOST_REMEMBERED]:
                self._last.pop(oldest, None)
        return answer


@contextmanager
def without_collections() -> Iterator[None]:
    """Pause Python's search for garbage, where many objects are made that go again by themselves.

    The search goes through all that Airflow has loaded, again and again: nearly half of the time of a look at thousands
    of periods. No thread searches meanwhile.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        # If several run at once, only the first has found it enabled, so exactly one enables it again.
        if was_enabled:
            gc.enable()


def carry_out(steps: Steps[T], hook: ClickHouseHook) -> T:
    """Run a workflow that only reads."""
    return Runner(session=hook, log=_LOG).run(steps)
