"""Wait for an insert that runs without a worker."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_chs3.core.load.cancel import StopRequest, stop_load
from airflow_provider_chs3.core.workflow.insert_progress import (
    InsertProgress,
    progress_line,
    progress_of,
    progress_query,
)
from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
from airflow_provider_chs3.runners.blocking import Runner
from airflow_provider_chs3.triggers import shared_poll
from airflow_provider_chs3.triggers.servers import run_blocking


@dataclass(frozen=True, kw_only=True)
class RunningInserts(shared_poll.Subject[str, InsertProgress]):
    """The inserts that run on a cluster.

    Args:
        conn_id: Id of an Airflow connection of type `chs3`.
        cluster: The cluster; None for the one server that the connection leads to.
    """

    cluster: str | None

    def asker(self, hook: ClickHouseHook) -> Callable[[frozenset[str]], Mapping[str, InsertProgress]]:
        """Return the poll of inserts by their query ids."""

        def ask(query_ids: frozenset[str]) -> Mapping[str, InsertProgress]:
            rows = hook.query(progress_query(query_ids, self.cluster).text)
            return {query_id: progress_of(query_id, rows, self.cluster) for query_id in query_ids}

        return ask


class InsertTrigger(BaseTrigger):
    """Wait until no node runs an insert, and log progress. The task finds out how the insert ended.

    If a person fails or clears the task meanwhile, it ends the load: queries on every node, then staging.

    Args:
        clickhouse_conn_id: Connection of type `chs3`.
        query_id: The insert.
        cluster: The cluster that it runs on; None for the one server that the connection leads to.
        total_rows: Rows that it will read, if known.
        started_at: When it was sent, in seconds since 1970, by the clock of the worker.
        ends_at: When to stop waiting, like `started_at`; None: never.
        poll_interval_seconds: Seconds between two polls, each of which logs progress.
        cancel_on_kill: Whether to end the load if a person ends the task.
        load: The load, as `StopRequest.as_json` gives it.
    """

    def __init__(
        self,
        *,
        clickhouse_conn_id: str,
        query_id: str,
        cluster: str | None,
        total_rows: int | None,
        started_at: float,
        ends_at: float | None,
        poll_interval_seconds: float,
        cancel_on_kill: bool,
        load: Mapping[str, Any],
    ) -> None:
        super().__init__()
        self.clickhouse_conn_id = clickhouse_conn_id
        self.query_id = query_id
        self.cluster = cluster
        self.total_rows = total_rows
        self.started_at = started_at
        self.ends_at = ends_at
        self.poll_interval_seconds = poll_interval_seconds
        self.cancel_on_kill = cancel_on_kill
        self.load = dict(load)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the path of the class, and its arguments."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "clickhouse_conn_id": self.clickhouse_conn_id,
                "query_id": self.query_id,
                "cluster": self.cluster,
                "total_rows": self.total_rows,
                "started_at": self.started_at,
                "ends_at": self.ends_at,
                "poll_interval_seconds": self.poll_interval_seconds,
                "cancel_on_kill": self.cancel_on_kill,
                "load": self.load,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll until the insert has ended, or the time is up."""
        subject = RunningInserts(conn_id=self.clickhouse_conn_id, cluster=self.cluster)
        after_seconds = shared_poll.FIRST_POLL_SECONDS
        at_least_seconds: float | None = shared_poll.FIRST_POLL_SECONDS
        while True:
            progress = await shared_poll.answer(
                subject, self.query_id, after_seconds=after_seconds, at_least_seconds=at_least_seconds, log=self.log
            )
            if not progress.is_running:
                self.log.info("No node runs insert %s any more.", self.query_id)
                yield self._event(is_late=False)
                return
            self.log.info("%s", self._line(progress))
            if self.ends_at is not None and time.time() > self.ends_at:
                yield self._event(is_late=True)
                return
            after_seconds, at_least_seconds = self.poll_interval_seconds, None

    async def on_kill(self) -> None:
        """End the load when a person ends the task."""
        if not self.cancel_on_kill:
            self.log.info("Insert %s continues, as cancel_on_kill is False.", self.query_id)
            return
        self.log.info("Ending insert %s, and dropping its staging.", self.query_id)
        await run_blocking(self.clickhouse_conn_id, self._stop)

    def _stop(self, hook: ClickHouseHook) -> None:
        # Only this attempt: a cleared task may have started another.
        request = replace(StopRequest.of_json(self.load, default_cluster=hook.options.cluster), owner="")
        runner = Runner(hook=hook, listing=None, log=self.log, progress_interval_seconds=self.poll_interval_seconds)
        runner.run(stop_load(request))

    def _line(self, progress: InsertProgress) -> str:
        return progress_line(progress, total_rows=self.total_rows, seconds=time.time() - self.started_at)

    def _event(self, *, is_late: bool) -> TriggerEvent:
        return TriggerEvent({"attempt": self.load["nonce"], "is_late": is_late})
