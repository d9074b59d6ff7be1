"""Merge the parts of closed months."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowFailException, BaseOperator, conf

from airflow_provider_chs3.exceptions import ConfigurationError, TransientError
from airflow_provider_chs3.hooks import DEFAULT_CONN_ID
from airflow_provider_chs3.hooks.airflow_errors import airflow_errors
from airflow_provider_chs3.plugin.links import OnMonthsPage

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_chs3.core.merges.optimize_request import OptimizeRequest
    from airflow_provider_chs3.core.values.models import Month
    from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
    from airflow_provider_chs3.runners.blocking import Runner


class OptimizePartitionOperator(OnMonthsPage, BaseOperator):
    """Merge closed months that have too many parts on a node, on every node, and wait until that is done.

    OPTIMIZE goes on in the servers when the task dies; run again, it finds what is under way and starts what is
    missing. A month is left as it is where its parts would make one larger than servers merge
    (`max_bytes_to_merge_at_max_space_in_pool`, 150 GiB by default), which the log and the result say. One that a disk
    has no room for fails the task, for a retry, once all others are merged.

    Args:
        table: A MergeTree table partitioned by month, on every node of `cluster`; or a Distributed table over it.
        months: The months, `YYYY-MM`, as a list or with commas between them. Default: all closed ones.
        closed_for_days: Without `months`: a month is closed so many days after it ended, in UTC. Default: 7.
        target_parts: Months with more parts than this on a node are merged there, to one part. Default: 1.
        max_running: How many OPTIMIZEs of this operator, whatever task or table, may run in the cluster at a time; no
            node runs more than one for a task. Default: 2.
        poll_interval_seconds: Time between two looks; it grows up to 300 while nothing changes. Default: 10.
        database: The table's database. Default: the connection's.
        cluster: The cluster. Default: the Distributed table's, else the connection's, else none: the one server that
            the connection leads to.
        clickhouse_conn_id: Connection of type `chs3`. Default: `chs3_default`.
        cancel_on_kill: If a person ends the task, end its OPTIMIZEs; False lets them run. Default: True.
        deferrable: Wait in the triggerer, not in a worker's slot. Default: `[operators] default_deferrable`.

    Returns:
        How many were merged, and for each month on each node parts before and after, bytes, seconds, and why it was
        left where it was; as JSON-safe values. Months that had few parts are not in it.
    """

    template_fields: Sequence[str] = (
        "table",
        "months",
        "closed_for_days",
        "target_parts",
        "max_running",
        "database",
        "cluster",
        "clickhouse_conn_id",
    )
    ui_color = "#d8e4e8"

    def __init__(
        self,
        *,
        table: str,
        months: Sequence[str] | str | None = None,
        closed_for_days: float | str = 7,
        target_parts: int | str = 1,
        max_running: int | str = 2,
        poll_interval_seconds: float = 10,
        database: str | None = None,
        cluster: str | None = None,
        clickhouse_conn_id: str = DEFAULT_CONN_ID,
        cancel_on_kill: bool = True,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.months = months
        self.closed_for_days = closed_for_days
        self.target_parts = target_parts
        self.max_running = max_running
        self.poll_interval_seconds = poll_interval_seconds
        self.database = database
        self.cluster = cluster
        self.clickhouse_conn_id = clickhouse_conn_id
        self.cancel_on_kill = cancel_on_kill
        self.deferrable = deferrable
        self._running: tuple[OptimizeRequest, Mapping[str, Any]] | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        """Merge them."""
        from airflow_provider_chs3.core.merges.optimize import find_work, merge
        from airflow_provider_chs3.core.workflow.driving import drive
        from airflow_provider_chs3.runners.background import with_starts

        with airflow_errors():
            request = self._request()
            runner = self._runner()
            self.link_to_page(context, runner, [str(month) for month in request.months or ()])
            work = runner.run(find_work(request))
            if work and self.deferrable:
                self._defer(request, work)
            self._running = (request, work)
            result = drive(merge(request, work), with_starts(runner))
        self._running = None
        return result

    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> dict[str, Any]:
        """What the trigger found."""
        self.link_to_page(context, self._runner(), [str(month) for month in self._months() or ()])
        if error := event.get("error"):
            raise AirflowFailException(error) if event["is_terminal"] else TransientError(error)
        result: dict[str, Any] = event["result"]
        return result

    def on_kill(self) -> None:
        """End the OPTIMIZEs on every node."""
        if self._running is None or not self.cancel_on_kill:
            return
        from airflow_provider_chs3.core.merges.optimize_cancel import stop_merging

        self.log.info("Ending the OPTIMIZEs of this task.")
        self._runner(in_turns=True).run(stop_merging(*self._running))

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
        from airflow_provider_chs3.core.merges.optimize_request import OptimizeRequest
        from airflow_provider_chs3.core.values.models import Month, TableName

        options = self._hook().options
        closed_until = datetime.now(UTC) - timedelta(days=_number("closed_for_days", self.closed_for_days, least=0))
        return OptimizeRequest(
            target=TableName(self.database or options.database, self.table),
            cluster=self.cluster or None,
            default_cluster=options.cluster,
            months=self._months(),
            before=Month(closed_until.year, closed_until.month),
            target_parts=int(_number("target_parts", self.target_parts, least=1)),
            max_running=int(_number("max_running", self.max_running, least=1)),
            poll_interval_seconds=self.poll_interval_seconds,
        )

    def _months(self) -> tuple[Month, ...] | None:
        from airflow_provider_chs3.core.values.run_month import parse_months

        return parse_months(self.months) if self.months else None

    def _hook(self) -> ClickHouseHook:
        from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook

        return ClickHouseHook(clickhouse_conn_id=self.clickhouse_conn_id)

    def _runner(self, *, in_turns: bool = False) -> Runner:
        # Nothing is inserted: there is no progress of inserts to tell.
        from airflow_provider_chs3.runners.blocking import Runner

        return Runner(hook=self._hook(), listing=None, log=self.log, progress_interval_seconds=10, in_turns=in_turns)


def _number(name: str, given: float | str, *, least: int) -> float:
    try:
        number = float(given)
    except ValueError:
        number = -1
    if number < least:
        raise ConfigurationError(f"{name}={given!r}: give a number, {least} or more.")
    return number
