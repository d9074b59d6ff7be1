"""The end of the time of what waits for servers."""

from __future__ import annotations

import time


class Deadline:
    """The moment at which a wait must stop.

    Args:
        at: When it is, by `time.monotonic()`. Default: never.
    """

    def __init__(self, at: float | None = None) -> None:
        self.at = at

    def check(self) -> None:
        """Raise if the time is over; a wait without a task has no such time."""

    def within(self, seconds: float) -> float:
        """Return how long to wait: these seconds, or what is left if that is less."""
        return seconds if self.at is None else max(0.0, min(seconds, self.at - time.monotonic()))

    def sleep(self, seconds: float) -> None:
        """Sleep so long, and check."""
        time.sleep(self.within(seconds))
        self.check()


#: For everything that is not a task, or has no `execution_timeout`.
NEVER = Deadline()
