"""List what the ledgers know of a table: its periods, the state of each, and what its last load did."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from statistics import median
from typing import Any, NamedTuple, TypeAlias

from airflow_provider_chs3.core.ledger.partition_state import PartitionState, partition_states
from airflow_provider_chs3.core.ledger.past_loads import read_pace
from airflow_provider_chs3.core.ledger.period_comparison import (
    AS_RESTORED,
    ComparisonStatus,
    ExpectedPeriod,
    compare,
    compare_unpinned,
    held_version,
)
from airflow_provider_chs3.core.ledger.queries import look_up_periods
from airflow_provider_chs3.core.ledger.records import IS_STATE, NUMBER_OF_HELD, PeriodOnNode, newest, rows_of_shards
from airflow_provider_chs3.core.ledger.table import ARRIVED, LOOKS, LedgerKey
from airflow_provider_chs3.core.load.decision import KeepHeld, PeriodFacts, Skip, decide
from airflow_provider_chs3.core.load.kept_versions import validate_held
from airflow_provider_chs3.core.model.freshness import FreshBy, Freshness
from airflow_provider_chs3.core.model.models import Node, TableName
from airflow_provider_chs3.core.model.period import WHOLE_TABLE, Period
from airflow_provider_chs3.core.sql.quoting import Sql, in_table, literal, table
from airflow_provider_chs3.core.steps.operations import QueryNodes, Row, Steps
from airflow_provider_chs3.core.target.node_facts import Target, inspect_target
from airflow_provider_chs3.core.target.period_partitions import grain_of_key, partitions_of
from airflow_provider_chs3.core.target.privileges import OF_A_PERIOD
from airflow_provider_chs3.core.target.target_checks import check_target
from airflow_provider_chs3.core.target.topology import TableRequest


@dataclass(frozen=True, kw_only=True)
class LedgerRequest(TableRequest):
    """A request for periods of a table, or for all that its ledgers know."""

    periods: tuple[Period, ...] | None


@dataclass(frozen=True, kw_only=True)
class PeriodInLedger:
    """A period of a table, or a partition that is in no ledger."""

    period: Period | None
    partition_id: str
    state: str
    is_as_published: bool
    nodes: Mapping[Node, PeriodOnNode]
    objects: int = 0
    source_bytes: int = 0
    fingerprint: str = ""
    attempt: str = ""
    published_at: str = ""
    was_adopted: bool = False
    insert_seconds: float | None = None
    loaded_rows: int = 0
    looked_at: datetime | None = None
    fresh_by: str = ""

    @property
    def rows(self) -> int:
        """Rows in its partition, on all shards."""
        return sum(rows_of_shards(self.nodes).values())

    @property
    def size_bytes(self) -> int:
        """Bytes on disk, on all nodes."""
        return sum(node.state.size_bytes for node in self.nodes.values())

    @property
    def rows_per_second(self) -> int | None:
        """Rows that the insert wrote per second; None if not known."""
        return round(self.loaded_rows / self.insert_seconds) if self.insert_seconds else None

    def as_json(self) -> dict[str, Any]:
        """Return JSON-safe values."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return values | {
            "period": str(self.period) if self.period else None,
            "rows": self.rows,
            "size_bytes": self.size_bytes,
            "rows_per_second": self.rows_per_second,
            "looked_at": self.looked_at.isoformat(timespec="seconds") if self.looked_at else None,
            "nodes": {str(node): _node_as_json(on_node) for node, on_node in self.nodes.items()},
        }


def _node_as_json(on_node: PeriodOnNode) -> dict[str, Any]:
    return {
        "event": on_node.record.event if on_node.record else None,
        "rows": on_node.state.rows,
        "parts": on_node.state.parts,
        "size_bytes": on_node.state.size_bytes,
    }


@dataclass(frozen=True, kw_only=True)
class TableStatus:
    """A table in one line."""

    target: TableName
    periods: int
    #: Those of them that are not as published, and partitions in no ledger.
    changed: int
    #: Whether what is due is there; None if nothing says when its periods are due.
    freshness: Freshness | None
    #: The expected duration of a load of what is missing, at least of one period; None without past loads.
    seconds: float | None

    def as_json(self) -> dict[str, Any]:
        """Return JSON-safe values."""
        return {
            "database": self.target.database,
            "table": self.target.table,
            "periods": self.periods,
            "changed": self.changed,
            **(self.freshness.as_json() if self.freshness else {"fresh_by": None, "is_fresh": None}),
            "seconds": self.seconds and round(self.seconds, 1),
        }


@dataclass(frozen=True, slots=True)
class _Newest:
    """The columns of a period's newest record on one node that `Record` lacks."""

    recorded_at: str
    objects: int
    is_adopted: bool


class _LastLoad(NamedTuple):
    """The newest load of a period; `looked_at` is the last time that one compared it with its objects."""

    attempt: str = ""
    insert_seconds: float | None = None
    loaded_rows: int = 0
    looked_at: str = ""
    fresh_by: str = ""


_Nodes: TypeAlias = Mapping[Node, PeriodOnNode]
_Records: TypeAlias = Mapping[Node, Mapping[Period, _Newest]]
_States: TypeAlias = Mapping[Node, Mapping[str, PartitionState]]


def look_at_table(request: TableRequest, *, settings: Iterable[str] = (), needs_all: bool = False) -> Steps[Target]:
    """Find the nodes and the table, and check that it can be loaded."""
    context = yield from inspect_target(request, settings=settings, needs_all=needs_all, policies_on=OF_A_PERIOD)
    check_target(context)
    return context


def list_ledger(request: LedgerRequest) -> Steps[list[PeriodInLedger]]:
    """Ask all nodes for a table's periods; without named ones, for partitions whose period no ledger knows, too."""
    context = yield from look_at_table(request)
    return (yield from list_periods_of(context, request.periods))


def look_at_freshness(request: LedgerRequest, fresh_by: FreshBy | None, at: datetime) -> Steps[TableStatus]:
    """Check whether a table has the periods that are due, by default as its newest load said."""
    context = yield from look_at_table(request)
    listed = yield from list_periods_of(context, None)
    freshness = _freshness_of(listed, (yield from _ask_for_arrivals(context)), fresh_by, at)
    seconds = None
    if freshness and context.nodes[context.coordinator].has_loads:
        pace = yield from read_pace(context)
        usual_bytes = round(median([load.loaded_bytes for load in pace.loads])) if pace.is_known else 0
        forecast = pace.forecast(usual_bytes * max(freshness.missing, 1))
        seconds = forecast.seconds if forecast else None
    return TableStatus(
        target=request.target,
        periods=sum(period.period is not None for period in listed),
        changed=sum(not period.is_as_published for period in listed),
        freshness=freshness,
        seconds=seconds,
    )


def _freshness_of(
    listed: Collection[PeriodInLedger],
    arrivals: Mapping[Period, tuple[datetime, str]],
    fresh_by: FreshBy | None,
    at: datetime,
) -> Freshness | None:
    """Judge a table by its arrivals, or, if it has none, by its periods; None if nothing says when they are due."""
    looks = {
        period.period: (period.looked_at, period.fresh_by)
        for period in listed
        if period.period and period.looked_at and period.is_as_published
    }
    # A period may get rows of any arrival.
    looks = {**arrivals} or looks
    adopted = {period.period for period in listed if period.was_adopted}
    _, recorded = max((look for period, look in looks.items() if period not in adopted), default=(at, ""))
    if fresh_by is None and not recorded:
        return None
    return Freshness.of(
        fresh_by or FreshBy.recorded(recorded), {period: looked_at for period, (looked_at, _) in looks.items()}, at
    )


def list_periods_of(context: Target, wanted: Collection[Period] | None) -> Steps[list[PeriodInLedger]]:
    """List the periods of a table that was inspected."""
    newest, partitions = yield from _ask(context)
    known = {period for periods in newest.values() for period in periods}
    asked = sorted(known.union(wanted or ()))
    if not asked:
        yield from grain_of_key(context)
    owns = (yield from partitions_of(context, asked)) if asked else {}
    on_nodes = (yield from look_up_periods(context, owns)) if asked else {}
    periods = [
        period
        for period in sorted(known if wanted is None else wanted)
        if period in known or any(on_node.state.rows for on_node in on_nodes[period].values())
    ]
    loads = yield from _ask_for_loads(context)
    listed = []
    for period in periods:
        listed.append((yield from _listed(context, period, owns[period].value, on_nodes[period], newest, loads)))
    if wanted is not None:
        return listed
    owned = {
        partition.partition_id
        for period in periods
        for on_node in on_nodes[period].values()
        for partition in on_node.each
    }
    with_rows = {partition for states in partitions.values() for partition in states}
    return listed + [_unknown(partition, partitions) for partition in sorted(with_rows - owned)]


def _ask(context: Target) -> Steps[tuple[_Records, _States]]:
    """Read the newest record of each period, and the partitions, on each node."""
    answers = yield from QueryNodes(
        name="Ask the ledgers for their periods",
        sql={node: _periods_query(context, node) for node in context.nodes},
    )
    newest, partitions = {}, {}
    for node, ((periods, states),) in answers.items():
        newest[node] = {Period.parse(period): _Newest(*fields) for period, fields in periods}
        partitions[node] = {partition_id: PartitionState.of(partition_id, state) for partition_id, state in states}
    return newest, partitions


def _periods_query(context: Target, node: Node) -> Sql:
    periods = "emptyArrayString()"
    if context.nodes[node].has_ledger:
        fields = newest(f"{_utc('recorded_at')}, objects, is_adopted")
        of_table = LedgerKey.on(context, node, WHOLE_TABLE).table_condition
        periods = (
            f"(SELECT groupArray(found) FROM (SELECT (period, {fields}) AS found FROM {table(context.ledger)} "
            f"WHERE {of_table} GROUP BY period HAVING countIf({IS_STATE}) > 0 OR {NUMBER_OF_HELD} > 0))"
        )
    states = partition_states(f"{in_table(context.target)} AND rows > 0", with_content=False)
    return Sql(f"SELECT {periods}, (SELECT groupArray(found) FROM ({states}))")


def _ask_for_loads(context: Target) -> Steps[dict[Period, _LastLoad]]:
    """Read what the newest load of each period did, from the coordinator."""
    columns = (
        "argMaxIf((attempt, insert_seconds, loaded_rows), (sequence, recorded_at), event = 'load'), "
        f"{_utc('max(recorded_at)')}, argMax(fresh_by, (sequence, recorded_at))"
    )
    rows = yield from _ask_by_period(context, "Ask what the loads did", columns, f"event IN {LOOKS}")
    return {Period.parse(period): _LastLoad(*of_load, *of_looks) for period, of_load, *of_looks in rows}


def _ask_for_arrivals(context: Target) -> Steps[dict[Period, tuple[datetime, str]]]:
    """Read when a load last left the periods as the objects of each arrival are, and when arrivals are due."""
    columns, arrived = "max(recorded_at), argMax(fresh_by, recorded_at)", f"event = {literal(ARRIVED)}"
    rows = yield from _ask_by_period(context, "Ask which arrivals are loaded", columns, arrived)
    return {Period.parse(period): (looked_at, fresh_by) for period, looked_at, fresh_by in rows}


def _ask_by_period(context: Target, name: str, columns: str, condition: str) -> Steps[list[Row]]:
    if not context.nodes[context.coordinator].has_loads:
        return []
    of_table = LedgerKey.on(context, context.coordinator, WHOLE_TABLE).table_condition
    sql = Sql(f"SELECT period, {columns} FROM {table(context.loads)} WHERE {of_table} AND {condition} GROUP BY period")
    return (yield from context.on_coordinator(name=name, sql=sql))


def _utc(time: str) -> str:
    return f"formatDateTime({time}, '%F %T', 'UTC')"


def _listed(
    context: Target,
    period: Period,
    partition_id: str,
    nodes: _Nodes,
    newest: _Records,
    loads: Mapping[Period, _LastLoad],
) -> Steps[PeriodInLedger]:
    published = {
        node: on_node.record
        for node, on_node in nodes.items()
        if on_node.record and on_node.record.event == "published"
    }
    record = next(iter(published.values()), None)
    comparison = compare(nodes, ExpectedPeriod(), context.table_facts)
    is_pinned, where, reason = comparison.status is ComparisonStatus.PINNED, comparison.nodes, comparison.reason
    unpinned = compare_unpinned(nodes, ExpectedPeriod(), context.table_facts) if is_pinned else comparison
    nowhere_else = "" if len(where) in (0, len(nodes)) else f" ({', '.join(map(str, where))})"
    held, _ = held_version(nodes, ExpectedPeriod(), context.table_facts)
    facts = yield from validate_held(context, period, PeriodFacts(comparison=comparison, held=held), nodes)
    decision = decide(facts)
    listed = PeriodInLedger(
        period=period,
        partition_id=partition_id,
        state=decision.reason if isinstance(decision, KeepHeld) else reason + nowhere_else,
        is_as_published=isinstance(decision, Skip) and unpinned.status in AS_RESTORED,
        nodes=nodes,
    )
    # A replica may go by the record of another.
    records = [newest[node][period] for node in published if period in newest[node]]
    if record is None or not records:
        return listed
    load, published_at = loads.get(period, _LastLoad()), max(record.recorded_at for record in records)
    is_of_load = load.attempt == record.attempt
    return replace(
        listed,
        objects=records[0].objects,
        source_bytes=record.source_bytes,
        fingerprint=record.fingerprint,
        attempt=record.attempt,
        published_at=published_at,
        was_adopted=bool(records[0].is_adopted),
        insert_seconds=load.insert_seconds if is_of_load else None,
        loaded_rows=load.loaded_rows if is_of_load else 0,
        looked_at=datetime.fromisoformat(max(published_at, load.looked_at)).replace(tzinfo=UTC),
        fresh_by=load.fresh_by,
    )


def _unknown(partition_id: str, partitions: _States) -> PeriodInLedger:
    return PeriodInLedger(
        period=None,
        partition_id=partition_id,
        state=ComparisonStatus.ROWS_UNKNOWN.value,
        is_as_published=False,
        nodes={
            node: PeriodOnNode(None, states.get(partition_id, PartitionState())) for node, states in partitions.items()
        },
    )
