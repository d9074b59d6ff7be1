"""What a load waits for: the end of its insert, and, if it is asked to, of the merges after it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.core.load.cancel import StopRequest
from airflow_provider_chs3.core.merges.health import as_json
from airflow_provider_chs3.core.merges.watch import MergeWatch
from airflow_provider_chs3.core.request.load_request import LoadRequest
from airflow_provider_chs3.core.values.load_result import LoadResult
from airflow_provider_chs3.core.values.merge_arguments import Reactions, Thresholds, merge_health
from airflow_provider_chs3.core.values.period import Period
from airflow_provider_chs3.core.workflow.operations import Insert
from airflow_provider_chs3.hooks.airflow_errors import airflow_errors
from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
from airflow_provider_chs3.hooks.deadline import Deadline
from airflow_provider_chs3.runners.insert import ProgressLog
from airflow_provider_chs3.triggers.load import InsertTrigger
from airflow_provider_chs3.triggers.merge_health import MergeHealthTrigger, Merges

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_chs3.operators._support.tasks import LoadTask


def insert_trigger(task: LoadTask, context: Context, step: Insert, request: LoadRequest) -> InsertTrigger:
    """Return the trigger that waits for an insert, until the task's `execution_timeout` is over.

    Args:
        task: The task that started it.
        context: Airflow's context.
        step: The insert.
        request: The load.
    """
    started_at, timeout = context["ti"].start_date, task.execution_timeout
    return InsertTrigger(
        query_id=step.query_id,
        cluster=step.cluster,
        total_rows=step.total_rows,
        started_at=time.time(),
        ends_at=(started_at + timeout).timestamp() if started_at and timeout else None,
        # The attempt that is waited for may be another process's.
        load=replace(StopRequest.of(request, [request.period]), nonce=step.attempt).as_json(),
        clickhouse_conn_id=task.clickhouse_conn_id,
        poll_interval_seconds=task.progress_interval_seconds,
        cancel_on_kill=task.cancel_on_kill,
    )


def settle(task: LoadTask, context: Context, results: Sequence[LoadResult], deadline: Deadline) -> Any:
    """Wait until the merges of loaded periods have settled; a deferrable task leaves its worker for it.

    Args:
        task: The task that has loaded them.
        context: Airflow's.
        results: What the load has done.
        deadline: The end of the task's time.
    """
    since, hook, found = time.time(), task.hook(), [each.as_json() for each in results]
    hook.deadline = deadline
    with airflow_errors():
        wait = MergeWait.after(task, tuple(each.period for each in results))
        merges = wait.outcome(hook, task.log, is_patient=not task.deferrable)
    if merges is not None:
        return task.done(context, found, merges, since=since)
    return task.defer(
        trigger=wait.trigger(),
        method_name="merges_complete",
        kwargs={"results": found, "since": since},
        timeout=task.execution_timeout,
    )


@dataclass(frozen=True, kw_only=True)
class MergeWait:
    """The merges of periods, and when they are over.

    Args:
        merges: Those of the table.
        periods: The periods.
        thresholds: What counts as few, many and long.
        reactions: What to do where merges are stuck, or leave too many parts.
        poll_interval_seconds: Time between two looks while things change; it grows while they don't.
    """

    merges: Merges
    periods: tuple[Period, ...]
    thresholds: Thresholds
    reactions: Reactions
    poll_interval_seconds: float

    @classmethod
    def after(cls, task: LoadTask, periods: tuple[Period, ...]) -> MergeWait:
        """Return what a load waits for after it has published periods.

        Raises:
            ConfigurationError: If an argument in its `merge_health` is not known, or wrong.
        """
        thresholds, reactions = merge_health(task.merge_health)
        merges = Merges(
            conn_id=task.clickhouse_conn_id, table=task.table, database=task.database, cluster=task.cluster or None
        )
        return cls(
            merges=merges,
            periods=periods,
            thresholds=thresholds,
            reactions=reactions,
            poll_interval_seconds=task.progress_interval_seconds,
        )

    def outcome(self, hook: ClickHouseHook, log: ProgressLog, *, is_patient: bool) -> dict[str, Any] | None:
        """Return the outcome of the wait: the verdicts of `ClickHouseMergeHealthSensor`.

        Args:
            hook: The connection to ClickHouse.
            log: The log of verdicts.
            is_patient: Whether to wait here; otherwise look once, and return None if it is not over.

        Raises:
            MergeHealthError: If a person must act.
        """
        watch = MergeWatch(self.thresholds, self.reactions, poll_interval_seconds=self.poll_interval_seconds)
        while True:
            log.info("%s %s", self.merges.table, watch.judge(self.merges.look(hook, self.periods)))
            if watch.is_over():
                return as_json(watch.verdicts)
            if not is_patient:
                return None
            hook.deadline.sleep(watch.interval_seconds)

    def trigger(self) -> MergeHealthTrigger:
        """Return the trigger that waits."""
        return MergeHealthTrigger(
            clickhouse_conn_id=self.merges.conn_id,
            table=self.merges.table,
            database=self.merges.database,
            cluster=self.merges.cluster,
            periods=[str(period) for period in self.periods],
            thresholds=asdict(self.thresholds),
            reactions=asdict(self.reactions),
            poll_interval_seconds=self.poll_interval_seconds,
        )
