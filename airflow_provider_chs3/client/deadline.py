"""The end of a task's time, for what waits in its process."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

#: Airflow's own alarm comes first.
_GRACE_SECONDS = 1.0


class Deadline:
    """The moment at which a task must stop: its `execution_timeout`, from now on, or once somebody has ended it.

    Airflow raises `AirflowTaskTimeout` in the main thread, by a signal, once. If Python runs a callback then whose
    errors it ignores, such as that of a weak reference, the task would continue. So what waits also looks here. When
    somebody marks the task, Airflow calls its `on_kill` and lets it run for five more seconds until it kills the
    process.

    Args:
        timeout: The task's `execution_timeout`. Default: none, so that it is never over.
        is_ended: Says whether `on_kill` was called. Default: it never is.

    Attributes:
        at: When it is over, by `time.monotonic()`; None for never.
    """

    def __init__(self, timeout: timedelta | None = None, is_ended: Callable[[], bool] = lambda: False) -> None:
        self._timeout = timeout
        self._is_ended = is_ended
        self.at = None if timeout is None else time.monotonic() + timeout.total_seconds() + _GRACE_SECONDS

    def check(self) -> None:
        """Raise if the task has to stop.

        Raises:
            AirflowTaskTerminated: If it was ended.
            AirflowTaskTimeout: If its time is over, as Airflow does; it then calls the task's `on_kill`.
        """
        if self._is_ended():
            try:
                from airflow.sdk.exceptions import AirflowTaskTerminated
            except ImportError:  # Airflow 3.1
                from airflow.exceptions import AirflowTaskTerminated  # type: ignore[no-redef]

            raise AirflowTaskTerminated("The task was ended, or its worker has to stop.")
        if self.at is not None and time.monotonic() >= self.at:
            from airflow.providers.common.compat.sdk import AirflowTaskTimeout

            raise AirflowTaskTimeout(f"The task took longer than execution_timeout={self._timeout}.")

    def within(self, seconds: float) -> float:
        """Return how long to wait: these seconds, or what is left if that is less."""
        return seconds if self.at is None else max(0.0, min(seconds, self.at - time.monotonic()))

    def sleep(self, seconds: float) -> None:
        """Sleep so long.

        Raises:
            AirflowTaskTimeout: If the time is over by then.
        """
        time.sleep(self.within(seconds))
        self.check()


#: For everything that is not a task, or has no `execution_timeout`.
NEVER = Deadline()
