"""Wait for the merges after a load, on request."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.client.deadline import Deadline
from airflow_provider_chs3.client.runner import ProgressLog
from airflow_provider_chs3.core.arguments.merge_arguments import merge_health
from airflow_provider_chs3.core.load.decision import LoadResult
from airflow_provider_chs3.core.watch.health import as_json
from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
from airflow_provider_chs3.hooks.running_task import airflow_errors
from airflow_provider_chs3.triggers.merge_health import MergeWait

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_chs3.operators._support.tasks import LoadTask


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
