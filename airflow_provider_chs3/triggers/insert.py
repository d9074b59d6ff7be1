"""Wait for an insert that runs without a worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from airflow.triggers.base import TriggerEvent

from airflow_provider_chs3.client.runner import Runner
from airflow_provider_chs3.core.load.end_on_request import StopRequest, stop_load
from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
from airflow_provider_chs3.triggers.running_query import RunningQueryTrigger
from airflow_provider_chs3.triggers.servers import run_blocking


@dataclass(kw_only=True, eq=False, repr=False)
class InsertTrigger(RunningQueryTrigger):
    """Wait until no node runs an insert, and log progress. The task finds out how the insert ended.

    If a person fails or clears the task meanwhile, it ends the load: queries on every node, then staging.

    Args:
        cancel_on_kill: Whether to end the load if a person ends the task.
        load: The load, as `StopRequest.as_json` gives it.
    """

    cancel_on_kill: bool
    load: Mapping[str, Any]

    async def on_kill(self) -> None:
        """End the load when a person ends the task."""
        if not self.cancel_on_kill:
            self.log.info("Insert %s continues, as cancel_on_kill is False.", self.query_id)
            return
        self.log.info("Ending insert %s, and dropping its staging.", self.query_id)
        await run_blocking(self.clickhouse_conn_id, self._stop)

    def _event(self, *, is_late: bool) -> TriggerEvent:
        """Return the attempt, and whether the time is up."""
        return TriggerEvent({"attempt": self.load["nonce"], "is_late": is_late})

    def _stop(self, hook: ClickHouseHook) -> None:
        # Only this attempt: a cleared task may have started another.
        request = replace(StopRequest.of_json(self.load, default_cluster=hook.options.cluster), owner="")
        Runner(session=hook, log=self.log).run(stop_load(request))
