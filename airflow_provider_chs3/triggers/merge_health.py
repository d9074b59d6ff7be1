"""Wait for merges without a worker."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.triggers.base import TriggerEvent

from airflow_provider_chs3.client.runner import Runner
from airflow_provider_chs3.core.arguments.merge_arguments import Reactions, Thresholds
from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.target.period_partitions import PeriodPartitions
from airflow_provider_chs3.core.target.table_facts import TableFacts
from airflow_provider_chs3.core.target.topology import TableRequest
from airflow_provider_chs3.core.watch.health import Verdict, as_json
from airflow_provider_chs3.core.watch.merge_observation import MergeState, observe_periods
from airflow_provider_chs3.core.watch.watch import MergeWatch
from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
from airflow_provider_chs3.hooks.running_task import airflow_errors
from airflow_provider_chs3.triggers import shared_poll
from airflow_provider_chs3.triggers.servers import ServerTrigger

_log = logging.getLogger(__name__)

Periods = tuple[Period, ...]
States = tuple[MergeState, ...]


@dataclass(frozen=True, kw_only=True)
class Merges(shared_poll.Subject[Periods, States]):
    """The merges of a table. An item is some of its periods, the answer their state on each node.

    Args:
        conn_id: Id of an Airflow connection of type `chs3`.
        table: The table.
        database: Its database; None takes the connection's.
        cluster: The cluster; None takes the Distributed table's, else the connection's.
    """

    table: str
    database: str | None
    cluster: str | None

    def asker(self, hook: ClickHouseHook) -> Callable[[frozenset[Periods]], Mapping[Periods, States]]:
        """Return the poll of all periods together."""
        known: dict[TableFacts, dict[Period, PeriodPartitions]] = {}

        def ask(wanted: frozenset[Periods]) -> Mapping[Periods, States]:
            by_period: dict[Period, list[MergeState]] = {period: [] for periods in wanted for period in periods}
            for state in self.look(hook, tuple(sorted(by_period)), known=known):
                by_period[state.period].append(state)
            return {periods: tuple(state for period in periods for state in by_period[period]) for periods in wanted}

        return ask

    def look(
        self,
        hook: ClickHouseHook,
        periods: Periods,
        *,
        known: dict[TableFacts, dict[Period, PeriodPartitions]] | None = None,
    ) -> States:
        """Query every node once.

        Args:
            hook: The connection.
            periods: The periods.
            known: See `core.watch.merge_observation.observe_periods`.

        Returns:
            The state of each period on each node.

        Raises:
            PreflightError: If the table is missing on a node, or not partitioned by period.
        """
        runner = Runner(session=hook, log=_log)
        request = TableRequest(
            target=TableName.of(self.table, self.database, default_database=hook.options.database),
            cluster=self.cluster,
            default_cluster=hook.options.cluster,
        )
        return runner.run(observe_periods(request, periods, known=known))


@dataclass(frozen=True, kw_only=True)
class MergeWait:
    """The merges of periods, and when they are over.

    Args:
        merges: Those of the table.
        periods: The periods.
        thresholds: Limits for few, many and long.
        reactions: What to do where merges are stuck, or leave too many parts.
        poll_interval_seconds: Time between two looks while things change; it grows while they don't.
    """

    merges: Merges
    periods: Periods
    thresholds: Thresholds
    reactions: Reactions
    poll_interval_seconds: float

    def watch(self) -> MergeWatch:
        """Return what judges the merges, look by look."""
        return MergeWatch(self.thresholds, self.reactions, poll_interval_seconds=self.poll_interval_seconds)

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


@dataclass(kw_only=True, eq=False, repr=False)
class MergeHealthTrigger(ServerTrigger):
    """Wait until merges have settled, or a person must act.

    Its event holds `result`, as returned by `core.watch.health.as_json`, or `error`, the text of an error that no
    retry can fix.

    Args:
        table: The table.
        database: Its database; None takes the connection's.
        cluster: The cluster; None takes the Distributed table's, else the connection's.
        periods: The periods, such as `2026-10`.
        thresholds: Arguments of `core.arguments.merge_arguments.Thresholds`.
        reactions: Arguments of `core.arguments.merge_arguments.Reactions`.
        poll_interval_seconds: Seconds between two polls while parts change; they grow while nothing does.
    """

    table: str
    database: str | None
    cluster: str | None
    periods: Sequence[str]
    thresholds: Mapping[str, Any]
    reactions: Mapping[str, str]
    poll_interval_seconds: float

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll until the wait is over."""
        try:
            with airflow_errors():
                verdicts = await self._wait()
        except AirflowFailException as error:
            yield TriggerEvent({"error": str(error)})
        else:
            yield TriggerEvent({"result": as_json(verdicts)})

    async def _wait(self) -> Sequence[Verdict]:
        subject = Merges(
            conn_id=self.clickhouse_conn_id, table=self.table, database=self.database, cluster=self.cluster
        )
        periods = tuple(map(Period.parse, self.periods))
        thresholds, reactions = Thresholds(**self.thresholds), Reactions(**self.reactions)
        watch = MergeWatch(thresholds, reactions, poll_interval_seconds=self.poll_interval_seconds)
        after_seconds, at_least_seconds = shared_poll.FIRST_POLL_SECONDS, shared_poll.FIRST_POLL_SECONDS
        while True:
            states = await shared_poll.answer(
                subject, periods, after_seconds=after_seconds, at_least_seconds=at_least_seconds, log=self.log
            )
            self.log.info("%s %s", self.table, watch.judge(states))
            if watch.is_over():
                return watch.verdicts
            after_seconds = watch.interval_seconds
            at_least_seconds = after_seconds / 2
