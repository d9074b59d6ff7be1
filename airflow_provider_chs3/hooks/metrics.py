"""Metrics of loads, sent as Airflow's own: StatsD, Datadog or OpenTelemetry, set in `[metrics]` of its configuration.

docs/metrics.md lists them. Variants of a metric (status, step, cause) are part of its name, because plain StatsD has no
tags; the table is a tag.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from airflow.providers.common.compat.sdk import AirflowSkipException, AirflowTaskTimeout, Stats

from airflow_provider_chs3.exceptions import Chs3Error, ClickHouseServerError

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_chs3.core.load.decision import LoadResult
    from airflow_provider_chs3.core.model.freshness import FreshBy
    from airflow_provider_chs3.core.model.period import Period

F = TypeVar("F", bound=Callable[..., Any])

_log = logging.getLogger(__name__)


class Task(Protocol):
    """A task about one table."""

    table: str
    database: str | None
    clickhouse_conn_id: str


def count_loads(task: Task, *results: LoadResult) -> None:
    """Count loads that have ended, with their results."""
    table = _table_of(task)
    for result in results:
        _send(Stats.incr, f"loads.{result.status}", 1, table)
        if result.status == "published":
            for name, count in (("rows", result.loaded_rows), ("bytes", result.loaded_bytes), ("parts", result.parts)):
                _send(Stats.incr, name, count, table)
        for step, seconds in result.seconds_by_step.items():
            _send(Stats.timing, f"step.{step}", timedelta(seconds=seconds), table)


def gauge_freshness(task: Task, fresh_by: FreshBy | None, periods: Iterable[Period]) -> None:
    """Send until when a table is fresh, if the newest of its periods that are due is among those that are complete."""
    at = datetime.now(UTC)
    completed = [complete for period in periods if fresh_by and (complete := fresh_by.completed_at(period, at))]
    if fresh_by and completed and (until := fresh_by.due_at(max(completed).shifted(1))) > at:
        _send(Stats.gauge, "fresh_until", until.timestamp(), _table_of(task))


def count_merges(task: Task, merges: Mapping[str, Any], *, waited_seconds: float | None) -> None:
    """Count merges that have settled."""
    table = _table_of(task)
    parts = [node["parts"] for nodes in merges["periods"].values() for node in nodes.values()]
    _send(Stats.gauge, "merges.parts", max(parts, default=0), table)
    if waited_seconds is not None:
        _send(Stats.timing, "merges.waited", timedelta(seconds=waited_seconds), table)


def running_seconds(context: Context) -> float | None:
    """Return the seconds since a task started, deferred and rescheduled time included; None if nobody knows."""
    try:
        ti = context["ti"]
        began = ti.get_first_reschedule_date(context) or ti.start_date
    except Exception:
        return None
    return time.time() - began.timestamp() if began else None


def counts_failures(method: F) -> F:
    """Wrap a task's method to count the error that stops it, by its code or class."""

    @wraps(method)
    def counted(self: Task, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except AirflowSkipException:
            raise
        except (Exception, AirflowTaskTimeout) as error:
            _send(Stats.incr, f"failures.{_cause(error)}", 1, _table_of(self))
            raise

    return counted  # type: ignore[return-value]


def _cause(error: BaseException) -> str:
    # Errors that Airflow must not retry are raised as Airflow's: see `airflow_errors`.
    raised = error.__context__ if isinstance(error.__context__, Chs3Error) else error
    return str(raised.code) if isinstance(raised, ClickHouseServerError) else type(raised).__name__


def _table_of(task: Task) -> str:
    """Return the table's name as the task has it, with its database."""
    from airflow_provider_chs3.core.model.models import TableName
    from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook

    try:
        default = task.database or ClickHouseHook(clickhouse_conn_id=task.clickhouse_conn_id).options.database
    except Exception:
        # The connection may be what made the task fail.
        return task.table
    return str(TableName.of(task.table, task.database, default_database=default))


def _send(send: Callable[..., None], name: str, value: object, table: str) -> None:
    try:
        send(f"chs3.{name}", value, tags={"table": table})
    except Exception:
        # A load must not fail because of its metrics.
        _log.warning("Metric chs3.%s could not be sent", name, exc_info=True)
