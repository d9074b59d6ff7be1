"""The wait before a retry of a load, chosen by its error if Airflow supports that."""

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
    """Return retry arguments for loads: for the `default_args` of a DAG or group, or for a task.

    From Airflow 3.3 on the wait depends on the error: long for objects that are not there yet, minutes for a server
    that is down or busy. In older versions waits start at `when_busy` and double up to `when_not_ready`. In all
    versions, an error that no retry can fix fails the task at once.

    Args:
        retries: Maximum number of retries, whatever the errors. Default: 20.
        when_not_ready: Wait for objects that are missing or too young. Default: 30 minutes.
        when_busy: Wait after other errors, such as too many parts, no memory, no connection. Default: 5 minutes.

    Returns:
        A task's arguments: `retries`, `retry_delay`, and a retry policy or exponential backoff.
    """
    if not hasattr(sdk, "ExceptionRetryPolicy"):
        growing = {"retry_exponential_backoff": True, "max_retry_delay": when_not_ready}
        return {"retries": retries, "retry_delay": when_busy, **growing}
    rules = [
        sdk.RetryRule(
            exception=f"{_ERRORS}.NotReadyError", retry_delay=when_not_ready, reason="The objects are not there yet"
        ),
        sdk.RetryRule(exception=f"{_ERRORS}.TerminalError", action=sdk.RetryAction.FAIL, reason="No retry can fix it"),
    ]
    return {"retries": retries, "retry_delay": when_busy, "retry_policy": sdk.ExceptionRetryPolicy(rules=rules)}
