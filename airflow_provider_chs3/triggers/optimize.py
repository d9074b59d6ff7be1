"""Merge the parts of closed periods in the triggerer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from airflow.triggers.base import TriggerEvent

from airflow_provider_chs3.client.runner import Runner
from airflow_provider_chs3.core.model.error_codes import is_terminal, with_hint
from airflow_provider_chs3.core.steps.driving import drive_async
from airflow_provider_chs3.core.steps.operations import AnyStep, Log, Sleep, Steps
from airflow_provider_chs3.core.watch.optimize import merge, stop_merging
from airflow_provider_chs3.core.watch.optimize_request import OptimizeRequest
from airflow_provider_chs3.exceptions import Chs3Error, ClickHouseConnectionError
from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
from airflow_provider_chs3.triggers.servers import Server, ServerTrigger, server
from airflow_provider_chs3.triggers.shared_poll import FIRST_POLL_SECONDS

_T = TypeVar("_T")

#: Seconds to wait after the first, second … time in a row without an answer; then the task fails, for its retries.
_RETRY_SECONDS = (5.0, 10.0, 20.0, 40.0, 60.0, 60.0, 60.0, 60.0)


@dataclass(kw_only=True, eq=False, repr=False)
class OptimizeTrigger(ServerTrigger):
    """Merge periods, and report the result. Restarted elsewhere, it resumes from the servers' state.

    Args:
        request: The request, as returned by `OptimizeRequest.as_json`.
        work: The result of `find_work`.
        cancel_on_kill: Whether to end the OPTIMIZEs if a person ends the task.
    """

    request: Mapping[str, Any]
    work: Mapping[str, Any]
    cancel_on_kill: bool

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Merge the periods, and wait for the merges."""
        # No event may come sooner, and the merges are the same in any case.
        await asyncio.sleep(FIRST_POLL_SECONDS)
        try:
            with server(self.clickhouse_conn_id) as shared:
                request = await shared.run(self._request)
                result = await self._drive(merge(request, self.work), shared)
        except Chs3Error as error:
            yield TriggerEvent({"error": with_hint(error, str(error)), "is_terminal": is_terminal(error)})
        else:
            yield TriggerEvent({"result": result})

    async def on_kill(self) -> None:
        """End the OPTIMIZEs when a person ends the task."""
        if not self.cancel_on_kill:
            self.log.info("The OPTIMIZEs continue, as cancel_on_kill is False.")
            return
        self.log.info("Ending the OPTIMIZEs of this task.")
        with server(self.clickhouse_conn_id) as shared:
            request = await shared.run(self._request)
            await self._drive(stop_merging(request, self.work), shared)

    def _request(self, hook: ClickHouseHook) -> OptimizeRequest:
        return OptimizeRequest.of_json(self.request, default_cluster=hook.options.cluster)

    async def _drive(self, steps: Steps[_T], shared: Server) -> _T:
        """Run a workflow to completion; its pauses hold no thread."""
        return await drive_async(steps, lambda step: self._perform(step, shared))

    async def _perform(self, step: AnyStep, shared: Server) -> Any:
        if isinstance(step, Sleep):
            await asyncio.sleep(step.seconds)
            return None
        if isinstance(step, Log):
            # Here, because log lines from a thread do not reach the task's log.
            self.log.info("%s", step.name)
            return None

        def perform(hook: ClickHouseHook) -> Any:
            return Runner(session=hook, log=self.log).perform(step)

        # A node that is down for a moment must not end the merges of others. All these steps may be repeated.
        for wait_seconds in _RETRY_SECONDS:
            try:
                return await shared.run(perform)
            except ClickHouseConnectionError as error:
                self.log.warning("%s Asking again in %g s.", error, wait_seconds)
                await asyncio.sleep(wait_seconds)
        return await shared.run(perform)
