"""Wait for a query that runs without a worker."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import TriggerEvent

from airflow_provider_chs3.client.connection import Address
from airflow_provider_chs3.core.steps.insert_progress import InsertProgress, ProgressLines, progress_of, progress_query
from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
from airflow_provider_chs3.triggers import shared_poll
from airflow_provider_chs3.triggers.servers import ServerTrigger

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import BaseOperator, Context


@dataclass(frozen=True, kw_only=True)
class RunningQueries(shared_poll.Subject[str, InsertProgress]):
    """The queries that run on a cluster.

    Args:
        conn_id: Id of an Airflow connection of type `chs3`.
        cluster: The cluster; None for one server.
        address: That server; None for the one that the connection leads to.
    """

    cluster: str | None
    address: Address | None = None

    def asker(self, hook: ClickHouseHook) -> Callable[[frozenset[str]], Mapping[str, InsertProgress]]:
        """Return the poll of queries by their ids."""

        def ask(query_ids: frozenset[str]) -> Mapping[str, InsertProgress]:
            rows = hook.query(progress_query(query_ids, self.cluster).text, address=self.address)
            return {query_id: progress_of(query_id, rows, self.cluster) for query_id in query_ids}

        return ask


@dataclass(kw_only=True, eq=False, repr=False)
class RunningQueryTrigger(ServerTrigger):
    """The base of triggers that wait until no node runs a query, and log progress. The task finds out how it ended.

    Args:
        query_id: The query.
        cluster: The cluster that it runs on; None for one server.
        started_at: When it was sent, in seconds since 1970, by the clock of the worker.
        ends_at: When to stop waiting, like `started_at`; None: never.
        poll_interval_seconds: Seconds between two polls, each of which logs progress.
        total_rows: Rows that it will read, if known.
        address: Host and native port of the server that runs it; None for all nodes of the cluster, or the server that
            the connection leads to.
    """

    query_id: str
    cluster: str | None
    started_at: float
    ends_at: float | None
    poll_interval_seconds: float
    total_rows: int | None = None
    address: Address | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.address:
            # JSON makes it a list.
            self.address = (self.address[0], self.address[1])

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll until the query has ended, or the time is up."""
        subject = RunningQueries(conn_id=self.clickhouse_conn_id, cluster=self.cluster, address=self.address)
        lines = ProgressLines(self.total_rows)
        after_seconds = shared_poll.FIRST_POLL_SECONDS
        at_least_seconds: float | None = shared_poll.FIRST_POLL_SECONDS
        while True:
            progress = await shared_poll.answer(
                subject, self.query_id, after_seconds=after_seconds, at_least_seconds=at_least_seconds, log=self.log
            )
            if not progress.is_running:
                self.log.info("Query %s no longer runs on any node.", self.query_id)
                yield self._event(is_late=False)
                return
            self.log.info("%s", lines.line(progress, seconds=time.time() - self.started_at))
            if self.ends_at is not None and time.time() > self.ends_at:
                yield self._event(is_late=True)
                return
            after_seconds, at_least_seconds = self.poll_interval_seconds, None

    @staticmethod
    def times_of(task: BaseOperator, context: Context) -> dict[str, Any]:
        """Return the times that a trigger gets from a task which defers now, until its `execution_timeout` is over.

        Args:
            task: The task.
            context: Airflow's.
        """
        started_at, timeout = context["ti"].start_date, task.execution_timeout
        ends_at = (started_at + timeout).timestamp() if started_at and timeout else None
        return {"started_at": time.time(), "ends_at": ends_at}

    @abstractmethod
    def _event(self, *, is_late: bool) -> TriggerEvent:
        """Return the event that the task resumes with."""
