"""The end of a task's time."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

from airflow_provider_chs3.client.deadline import Deadline

#: Airflow's own alarm comes first.
_GRACE_SECONDS = 1.0


class TaskDeadline(Deadline):
    """The moment at which a task must stop: its `execution_timeout`, from now on, or once somebody has ended it.

    Airflow raises `AirflowTaskTimeout` in the main thread, by a signal, once. If Python runs a callback then whose
    errors it ignores, such as that of a weak reference, the task would continue. So what waits also looks here. When
    somebody marks the task, Airflow calls its `on_kill` and lets it run for five more seconds until it kills the
    process.

    Args:
        timeout: The task's `execution_timeout`; None if it has none.
        is_ended: Says whether `on_kill` was called. Default: it never is.
    """

    def __init__(self, timeout: timedelta | None, is_ended: Callable[[], bool] = lambda: False) -> None:
        super().__init__(None if timeout is None else time.monotonic() + timeout.total_seconds() + _GRACE_SECONDS)
        self._timeout = timeout
        self._is_ended = is_ended

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
