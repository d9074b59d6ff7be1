"""How long to wait before a load is tried again: by what went wrong, where Airflow can tell."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow import sdk

_ERRORS = "airflow_provider_chs3.exceptions"


def retries_by_error(
    *,
    retries: int = 20,
    when_not_ready: timedelta = timedelta(minutes=30),
    when_busy: timedelta = timedelta(minutes=5),
) -> dict[str, Any]:
    """The retries of tasks that load, for a DAG's or a group's `default_args`, or for a task.

    From Airflow 3.3 on they go by the error: what is not there yet is waited for long, a server that is down or has too
    much to do for minutes, and what no retry can mend fails at once. Older versions don't know of errors: there, waits
    begin with `when_busy` and double up to `when_not_ready`. What no retry can mend fails at once there too.

    Args:
        retries: How often at most, whatever the errors. Default: 20.
        when_not_ready: Wait for objects that are not there yet, or too young. Default: 30 minutes.
        when_busy: Wait after other errors, such as too many parts, no memory, no connection. Default: 5 minutes.

    Returns:
        The arguments of a task: `retries`, `retry_delay`, and a retry policy or an exponential wait.
    """
    if not hasattr(sdk, "ExceptionRetryPolicy"):
        growing = {"retry_exponential_backoff": True, "max_retry_delay": when_not_ready}
        return {"retries": retries, "retry_delay": when_busy, **growing}
    rules = [
        sdk.RetryRule(
            exception=f"{_ERRORS}.NotReadyError", retry_delay=when_not_ready, reason="The objects are not there yet"
        ),
        sdk.RetryRule(exception=f"{_ERRORS}.TerminalError", action=sdk.RetryAction.FAIL, reason="No retry can mend it"),
    ]
    return {"retries": retries, "retry_delay": when_busy, "retry_policy": sdk.ExceptionRetryPolicy(rules=rules)}
