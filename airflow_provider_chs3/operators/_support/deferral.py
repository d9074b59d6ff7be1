"""Wait for the end of a load's insert and, on request, of the merges after it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.client.deadline import Deadline
from airflow_provider_chs3.client.runner import ProgressLog
from airflow_provider_chs3.core.arguments.merge_arguments import merge_health
from airflow_provider_chs3.core.load.cancel import StopRequest
from airflow_provider_chs3.core.load.decision import LoadResult
from airflow_provider_chs3.core.load.load_request import LoadRequest
from airflow_provider_chs3.core.steps.operations import Insert
from airflow_provider_chs3.core.watch.health import as_json
from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
from airflow_provider_chs3.hooks.running_task import airflow_errors
from airflow_provider_chs3.triggers.load import InsertTrigger
from airflow_provider_chs3.triggers.merge_health import MergeWait

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_chs3.operators._support.tasks import LoadTask


def insert_trigger(task: LoadTask, context: Context, step: Insert, request: LoadRequest) -> InsertTrigger:
    """Return the trigger that waits for an insert, until the task's `execution_timeout` is over."""
    return InsertTrigger(
        query_id=step.query_id,
        cluster=step.cluster,
        total_rows=step.total_rows,
        **InsertTrigger.times_of(task, context),
        # The attempt that is waited for may be another process's.
        load=replace(StopRequest.of(request, [request.period]), nonce=step.attempt).as_json(),
        clickhouse_conn_id=task.clickhouse_conn_id,
        poll_interval_seconds=task.progress_interval_seconds,
        cancel_on_kill=task.cancel_on_kill,
    )


def settle(
    task: LoadTask,
    context: Context,
    results: Sequence[LoadResult],
    values: Sequence[dict[str, object]],
    deadline: Deadline,
) -> Any:
    """Wait until the merges of loaded periods have settled; a deferrable task leaves its worker for it."""
    since, hook = time.time(), task.hook()
    hook.deadline = deadline
    with airflow_errors():
        thresholds, reactions = merge_health(task.merge_health)
        wait = MergeWait(
            merges=task.merges(),
            periods=tuple(result.period for result in results),
            thresholds=thresholds,
            reactions=reactions,
            poll_interval_seconds=task.progress_interval_seconds,
        )
        merges = _outcome(wait, hook, task.log, is_patient=not task.deferrable)
    if merges is not None:
        return task.done(context, values, merges, since=since)
    return task.defer(
        trigger=wait.trigger(),
        method_name="merges_complete",
        kwargs={"results": values, "since": since},
        timeout=task.execution_timeout,
    )


def _outcome(wait: MergeWait, hook: ClickHouseHook, log: ProgressLog, *, is_patient: bool) -> dict[str, Any] | None:
    """Return the verdicts of `ClickHouseMergeHealthSensor`; None if the wait is not over, and this is not to wait."""
    watch = wait.watch()
    while True:
        log.info("%s %s", wait.merges.table, watch.judge(wait.merges.look(hook, wait.periods)))
        if watch.is_over():
            return as_json(watch.verdicts)
        if not is_patient:
            return None
        hook.deadline.sleep(watch.interval_seconds)
