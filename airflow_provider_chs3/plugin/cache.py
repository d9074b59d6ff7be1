"""Looks that are shared: a crowd asks once, and waits without holding a thread."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class _Look(Generic[T]):
    answer: Future[T]
    begun_at: float


class SharedLooks(Generic[T]):
    """One answer for each name, kept for a few seconds in this process.

    Args:
        look: Finds the answer; it may block, and runs in the pool.
        pool: Where looks run.
        seconds: How long an answer is good, from the moment on that it was asked for.
    """

    def __init__(self, look: Callable[[str], T], *, pool: Executor, seconds: float) -> None:
        self._look = look
        self._pool = pool
        self._seconds = seconds
        self._lock = threading.Lock()
        self._looks: dict[str, _Look[T]] = {}

    async def get(self, name: str) -> T:
        """The answer: the one that is there, the one that is on its way, or a new one."""
        # Whoever goes away must not end the look of the others.
        return await asyncio.shield(asyncio.wrap_future(self._answer(name)))

    def _answer(self, name: str) -> Future[T]:
        now = time.monotonic()
        with self._lock:
            # Names come from outside: what nobody asks for any more is forgotten.
            self._looks = {each: look for each, look in self._looks.items() if self._is_good(look, now)}
            found = self._looks.get(name)
            if found is None:
                found = self._looks[name] = _Look(self._pool.submit(self._look, name), now)
            return found.answer

    def _is_good(self, look: _Look[T], now: float) -> bool:
        return not look.answer.done() or now - look.begun_at < self._seconds
