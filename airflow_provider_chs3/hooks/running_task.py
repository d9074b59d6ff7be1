"""The task that runs, as hooks know it: its name for servers, the end of its time, and which errors a retry may fix."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import AirflowFailException, get_current_context

from airflow_provider_chs3.client.deadline import Deadline
from airflow_provider_chs3.exceptions import Chs3Error, ClickHouseServerError

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context


_LOG = logging.getLogger(__name__)


def airflow_errors(*, hints: bool = True) -> AbstractContextManager[None]:
    """Tell Airflow which errors a retry cannot fix, and the user what to do, in one paragraph.

    Airflow logs an error with all that led to it, which for an error of a server would be pages. Where it was raised is
    in the log at level DEBUG.

    Raises:
        AirflowFailException: Instead of an error that a retry would meet again.
        ClickHouseServerError: If a retry may help.
    """
    return _AirflowErrors(hints)


# Not a generator: contextlib gives an error that passes through one its traceback back.
class _AirflowErrors(AbstractContextManager[None]):
    def __init__(self, hints: bool) -> None:
        self._hints = hints

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if isinstance(error, Chs3Error):
            _LOG.debug("Where it was raised:", exc_info=error)
            raise _airflow_error(error, self._hints).with_traceback(None) from None


def _airflow_error(error: Chs3Error, hints: bool) -> Exception:
    from airflow_provider_chs3.core.model.error_codes import is_terminal, with_hint

    if is_terminal(error):
        return AirflowFailException(with_hint(error, str(error)) if hints else str(error))
    if isinstance(error, ClickHouseServerError) and hints:
        # The class stays the same: retry policies go by it.
        message = with_hint(error, error.message)
        return ClickHouseServerError(error.code, error.name, message, error.host, error.query_id)
    return error


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


_CONTEXT_FIELDS = ("dag_id", "task_id", "run_id", "try_number", "map_index")


def airflow_log_comment() -> str:
    """Return the running task as JSON, for the setting `log_comment`.

    Returns:
        An object with `dag_id`, `task_id`, `run_id`, `try_number` and `map_index`, as far as they are known: all of
        them in a task, all but the last in a process that a task started, none elsewhere (`{}`).
    """
    try:
        task_instance = get_current_context()["ti"]
    except RuntimeError:  # Airflow's way to say: not in a task.
        from airflow_provider_chs3.client.session import process_log_comment

        return process_log_comment()
    return json.dumps({name: getattr(task_instance, name) for name in _CONTEXT_FIELDS})


def owner_of(context: Context) -> str:
    """Return the name of the task instance, whatever its try; empty outside of a run."""
    ti = context.get("ti")
    return "" if ti is None else json.dumps([ti.dag_id, ti.run_id, ti.task_id, ti.map_index])
