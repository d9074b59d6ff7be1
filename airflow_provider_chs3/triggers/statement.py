"""Wait for a statement of a user's own that runs without a worker."""

from __future__ import annotations

from dataclasses import dataclass

from airflow.triggers.base import TriggerEvent

from airflow_provider_chs3.client.detached_runner import DetachedQuery
from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
from airflow_provider_chs3.triggers.running_query import RunningQueryTrigger
from airflow_provider_chs3.triggers.servers import run_blocking


@dataclass(kw_only=True, eq=False, repr=False)
class StatementTrigger(RunningQueryTrigger):
    """Wait until no node runs a statement, and log progress. The task finds out how it ended.

    If a person fails or clears the task meanwhile, it ends the statement on every node.

    Args:
        number: Its place among the statements of the task, from 0.
    """

    number: int

    async def on_kill(self) -> None:
        """End the statement when a person ends the task."""
        self.log.info("Ending query %s.", self.query_id)
        await run_blocking(self.clickhouse_conn_id, self._end)

    def _event(self, *, is_late: bool) -> TriggerEvent:
        """Return the statement, as `RunningStatement` takes it, and whether the time is up."""
        # Here, and not in arguments of the task's method: `dag.test()` of Airflow 3.3 loses those.
        running = {"number": self.number, "query_id": self.query_id, "address": self.address}
        return TriggerEvent({"running": running, "is_late": is_late})

    def _end(self, hook: ClickHouseHook) -> None:
        DetachedQuery(session=hook, query_id=self.query_id, cluster=self.cluster, address=self.address).end()
