"""Merge the parts of closed periods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowFailException, BaseOperator

from airflow_provider_chs3.core.arguments import merge_arguments
from airflow_provider_chs3.exceptions import TransientError
from airflow_provider_chs3.hooks.running_task import airflow_errors
from airflow_provider_chs3.operators._support.on_table import OnLoadsPage

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_chs3.core.model.period import Period
    from airflow_provider_chs3.core.watch.optimize_request import OptimizeRequest


class OptimizePartitionOperator(OnLoadsPage, BaseOperator, takes=merge_arguments.OF_MERGING):
    """Merge closed periods that have too many parts, on every node, and wait for the merges.

    OPTIMIZE continues on the servers when the task dies; a retry finds the running ones and starts the missing ones. A
    period is skipped, with a reason in the log and the result, if its parts would merge into one larger than servers
    allow (`max_bytes_to_merge_at_max_space_in_pool`, 150 GiB by default). If a disk has too little space for a period,
    the task fails, for a retry, after all others are merged.

    Returns:
        The number of merged periods, and for each period and node the parts before and after, bytes, seconds and, if it
        was skipped, the reason, as JSON-safe values. Periods with few parts are not listed.
    """

    ui_color = "#d8e4e8"
    periods: Sequence[str] | str | None
    closed_for_days: float | str
    target_parts: int | str
    max_running: int | str
    poll_interval_seconds: float
    cancel_on_kill: bool
    deferrable: bool
    _running: tuple[OptimizeRequest, Mapping[str, Any]] | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        """Merge the periods."""
        from airflow_provider_chs3.core.watch.optimize import find_work, merge

        with airflow_errors():
            request = self._request()
            runner = self.runner()
            self.link_to_page(context, runner, [str(period) for period in request.periods or ()])
            work = runner.run(find_work(request))
            if work and self.deferrable:
                self._defer(request, work)
            self._running = (request, work)
            result = runner.run(merge(request, work))
        self._running = None
        return result

    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> dict[str, Any]:
        """Return the trigger's result.

        Raises:
            AirflowFailException: If the trigger failed with an error that no retry can fix.
            TransientError: If it failed with another error.
        """
        self.link_to_page(context, self.runner(), [str(period) for period in self._periods() or ()])
        if error := event.get("error"):
            raise AirflowFailException(error) if event["is_terminal"] else TransientError(error)
        result: dict[str, Any] = event["result"]
        return result

    def on_kill(self) -> None:
        """End the OPTIMIZEs on every node."""
        self.is_ended = self.cancel_on_kill
        if self._running is None or not self.cancel_on_kill:
            return
        from airflow_provider_chs3.core.watch.optimize import stop_merging

        self.log.info("Ending the OPTIMIZEs of this task.")
        self.runner(in_turns=True).run(stop_merging(*self._running))

    def _defer(self, request: OptimizeRequest, work: Mapping[str, Any]) -> None:
        from airflow_provider_chs3.triggers.optimize import OptimizeTrigger

        self.defer(
            trigger=OptimizeTrigger(
                clickhouse_conn_id=self.clickhouse_conn_id,
                request=request.as_json(),
                work=work,
                cancel_on_kill=self.cancel_on_kill,
            ),
            method_name="execute_complete",
        )

    def _request(self) -> OptimizeRequest:
        from airflow_provider_chs3.core.watch.optimize_request import OptimizeRequest

        closed_by = datetime.now(UTC) - timedelta(days=merge_arguments.CLOSED_FOR_DAYS.checked(self.closed_for_days))
        return OptimizeRequest(
            **self.on_connection(self.hook()).located(),
            periods=self._periods(),
            closed_by=closed_by.replace(tzinfo=None),
            target_parts=merge_arguments.TARGET_PARTS.checked(self.target_parts),
            max_running=merge_arguments.MAX_RUNNING.checked(self.max_running),
            poll_interval_seconds=merge_arguments.POLL_INTERVAL_SECONDS.checked(self.poll_interval_seconds),
        )

    def _periods(self) -> tuple[Period, ...] | None:
        from airflow_provider_chs3.core.model.period import parse_periods

        return parse_periods(self.periods) if self.periods else None
