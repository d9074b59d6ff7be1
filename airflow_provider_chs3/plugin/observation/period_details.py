"""One period in detail: the records of its newest loads, and its parts on each node."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

from airflow_provider_chs3.core.ledger.records import NEWEST_FIRST
from airflow_provider_chs3.core.load.kept_versions import PREFIX
from airflow_provider_chs3.core.model.models import Node, TableName
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.sql.quoting import Sql, in_table, is_table, literal, literals, table
from airflow_provider_chs3.core.steps.driving import in_order
from airflow_provider_chs3.core.steps.fan_out import query_reachable, texts_of
from airflow_provider_chs3.core.steps.operations import Row, Steps
from airflow_provider_chs3.core.target.period_partitions import usual_partition_ids
from airflow_provider_chs3.core.target.topology import LEDGER_TABLE, LOADS_TABLE
from airflow_provider_chs3.plugin.observation.ledgers import Ledgers, find_ledgers

_COLUMNS = ("event", "attempt", "sequence", "rows", "objects", "source_bytes")
#: Further ones of a load, each with its expression where it has one.
_OF_LOAD = {
    "object_changes": "CAST(object_changes AS Array(Tuple(String, UInt64)))",
    "seconds_by_step": "CAST(seconds_by_step AS Array(Tuple(String, Float64)))",
    **dict.fromkeys(
        (
            "owner",
            "reason",
            "loaded_objects",
            "loaded_bytes",
            "loaded_rows",
            "other_period_rows",
            "parts",
            "insert_seconds",
            "peak_memory_bytes",
            "memory_bytes",
            "memory_steps",
            "query_ids",
            "settings",
            "checks",
            "error",
            "error_hint",
            "error_type",
            "is_terminal",
            "error_code",
            "error_name",
            "error_host",
            "error_query_id",
        )
    ),
}
#: As many events as a look shows.
_MOST_EVENTS = 20
_ERROR_CHARACTERS = 400
#: Claims that follow from what somebody asked for, not from a load.
_OF_SOMEBODY = "event IN ('forgotten', 'discarded') OR event = 'published' AND (restored != '' OR is_adopted)"
#: Records of one node that belong to no load, and make earlier records of loads obsolete.
_STANDING = ("intent", "published", "forgotten", "unchanged")


class Entry(NamedTuple):
    """The newest record of one event of a period, in the ledger of one node."""

    event: str
    attempt: str
    sequence: int
    rows: int
    objects: int
    source_bytes: int
    details: Mapping[str, Any]
    recorded_at: str


@dataclass(frozen=True, slots=True)
class NodeShare:
    """A node's share of a period."""

    rows: int
    parts: int
    size_bytes: int
    published_rows: int | None


@dataclass(frozen=True, slots=True)
class FinishedLoad:
    """The newest load of a table that published, of whichever period."""

    period: str
    rows: int
    seconds_by_step: dict[str, float]
    published_at: float


class PastEvent(NamedTuple):
    """An event of the period: a load, or that somebody restored, forgot, discarded or adopted it."""

    recorded_at: str
    event: str
    attempt: str
    owner: str
    reason: str
    loaded_objects: int
    loaded_bytes: int
    loaded_rows: int
    seconds: float
    error: str
    error_hint: str


@dataclass(frozen=True, kw_only=True)
class PeriodDetails:
    """One period of one table."""

    nodes: Mapping[Node, NodeShare]
    down: Mapping[Node, str]
    load: Entry | None
    is_published: bool
    inserting: Entry | None
    failure: Entry | None
    owner: str
    last_finished: FinishedLoad | None
    history: tuple[PastEvent, ...]
    kept: frozenset[str]

    @property
    def is_known(self) -> bool:
        """Return whether any node has the period, or may have it."""
        is_loaded = self.load or self.inserting or self.failure or any(node.rows for node in self.nodes.values())
        # One that is held with an arrival, whose load has inserted nothing by the name of the period.
        is_held = any(event.event == "withheld" for event in self.history)
        is_published = any(node.published_rows is not None for node in self.nodes.values())
        return bool(is_loaded or is_held or is_published or self.down)


def look_at_period(cluster: str | None, target: TableName, period: Period) -> Steps[PeriodDetails]:
    """Read one period on every node, with two short statements; a node that does not answer is reported as down."""
    ledgers = yield from find_ledgers(cluster)
    statements = {
        node: _of_period(target, period, databases, ledgers.loads[node])
        for node, databases in ledgers.databases.items()
    }
    answers = yield from query_reachable(f"Read the records and parts of {period}", statements, ledgers.down)
    answered = {node: (_entries(rows[0][:2]), rows[0][5:]) for node, rows in answers.items()}
    finished = [
        FinishedLoad(of_period, rows, dict(in_order(dict(seconds))), published_at)
        for answer in answers.values()
        for of_period, rows, seconds, published_at in answer[0][2]
    ]
    events = [PastEvent(*row) for rows in answers.values() for row in rows[0][3]]
    # Each node has a claim of its own.
    once = {(event.event, event.attempt): event for event in sorted(events, key=attrgetter("recorded_at"))}
    newest = sorted(once.values(), key=attrgetter("recorded_at"), reverse=True)
    return _details(
        answered,
        down=texts_of(ledgers.down),
        last_finished=max(finished, key=attrgetter("published_at"), default=None),
        history=tuple(newest[:_MOST_EVENTS]),
        kept=frozenset(attempt for rows in answers.values() for attempt in rows[0][4]),
    )


def _of_period(target: TableName, period: Period, ledgers: Collection[str], loads: Collection[str]) -> Sql:
    """Return the query for the newest record of each event, for the newest loads, and for the parts."""
    name = in_table(target)
    of_loads = [TableName(database, LOADS_TABLE) for database in loads]
    further = [expression or column for column, expression in _OF_LOAD.items()]
    newest_loads = [_newest_load(target, load) for load in of_loads]
    return Sql(
        f"SELECT {_array(_records(target, period, TableName(ledger, LEDGER_TABLE)) for ledger in ledgers)}, "
        f"{_array(_records(target, period, load, *further) for load in of_loads)}, {_array(newest_loads)}, "
        f"{_array(_past_events(target, period, ledgers, of_loads))}, ({_kept(target, period)}), "
        f"sum(rows), count(), sum(bytes_on_disk) FROM system.parts WHERE {name} AND active AND rows > 0 "
        f"AND {_own_parts(target, period, ledgers)}"
    )


def _array(selects: Iterable[str]) -> str:
    """Return one array of the tuples that queries give."""
    every = " UNION ALL ".join(selects)
    return f"(SELECT groupArray(found) FROM ({every}))" if every else "emptyArrayString()"


def own_parts(target: TableName, period: Period, ledgers: Ledgers) -> dict[Node, str]:
    """Return the condition on each node's `system.parts`, or its log of parts, for those of a period."""
    return {node: _own_parts(target, period, databases) for node, databases in ledgers.databases.items()}


def _own_parts(target: TableName, period: Period, ledgers: Collection[str]) -> str:
    # A period that no ledger has is in the partition that a usual key gives it.
    usual = literals(usual_partition_ids(period))
    recorded = [
        f"SELECT partition_id {of_period_in(target, period, TableName(database, LEDGER_TABLE))}" for database in ledgers
    ]
    ids = " UNION ALL ".join([f"SELECT arrayJoin([{usual}])", *recorded]) if recorded else usual
    return f"partition_id IN ({ids})"


def _records(target: TableName, period: Period, records: TableName, *further: str) -> str:
    """Return the query for the newest record of each event, in one ledger or table of loads."""
    # A claim of a period of several partitions is a record of each.
    summed = {"rows": "sum(rows) OVER (PARTITION BY event, sequence, attempt)"}
    known = (summed.get(name, name) for name in _COLUMNS)
    columns = ", ".join((*known, "formatDateTime(recorded_at, '%F %T', 'UTC')", *further))
    return f"SELECT ({columns}) AS found {of_period_in(target, period, records)} {NEWEST_FIRST} LIMIT 1 BY event"


def of_period_in(target: TableName, period: Period, records: TableName) -> str:
    """Return the part of a query that names a table of records, and the condition for those of a period."""
    return f"FROM {table(records)} WHERE {is_of_period(target, period)}"


def is_of_period(target: TableName, period: Period) -> str:
    """Return the condition for records of a period of the current table."""
    return f"{_is_of_table(target)} AND period = {literal(str(period))}"


def _is_of_table(target: TableName) -> str:
    """Return the condition for records of the current table."""
    return (
        f"target_database = {literal(target.database)} AND target_table = {literal(target.table)} "
        f"AND target_uuid IN (SELECT toString(uuid) FROM system.tables WHERE {is_table(target)})"
    )


def _newest_load(target: TableName, loads: TableName) -> str:
    """Return the query for the newest load that published."""
    columns = f"period, loaded_rows, {_OF_LOAD['seconds_by_step']}, toFloat64(recorded_at)"
    return (
        f"SELECT ({columns}) AS found FROM {table(loads)} WHERE {_is_of_table(target)} AND event = 'load' "
        "ORDER BY recorded_at DESC LIMIT 1"
    )


def _past_events(
    target: TableName, period: Period, ledgers: Iterable[str], loads: Iterable[TableName]
) -> Iterator[str]:
    """Yield the queries for what became of a period, in each table of loads and each ledger."""
    at = "formatDateTime(recorded_at, '%F %T', 'UTC')"
    texts = ("event", "attempt", "owner", "reason", f"leftUTF8(error, {_ERROR_CHARACTERS})", "error_hint")
    event, attempt, owner, reason, error, hint = (f"toString({text})" for text in texts)
    read = "loaded_objects, loaded_bytes, loaded_rows, arraySum(mapValues(seconds_by_step))"
    for load in loads:
        yield (
            f"SELECT ({at}, {event}, {attempt}, {owner}, {reason}, {read}, {error}, {hint}) AS found "
            f"{of_period_in(target, period, load)} AND event IN ('load', 'withheld', 'failed', 'unchanged') "
            f"{NEWEST_FIRST} LIMIT {_MOST_EVENTS}"
        )
    what = f"multiIf(restored != '', 'restored', is_adopted, 'adopted', {event})"
    nothing = "objects, source_bytes, toUInt64(0), toFloat64(0), '', ''"
    for claims in (of_period_in(target, period, TableName(ledger, LEDGER_TABLE)) for ledger in ledgers):
        yield (
            f"SELECT ({at}, {what}, {attempt}, '', '', {nothing}) AS found {claims} AND ({_OF_SOMEBODY}) "
            f"{NEWEST_FIRST} LIMIT {_MOST_EVENTS}"
        )


def _kept(target: TableName, period: Period) -> str:
    """Return the query for the attempts whose versions of a period are kept."""
    of_target = {"role": "version", "database": target.database, "table": target.table}
    told = (f"JSONExtractString(comment, {literal(name)}) = {literal(value)}" for name, value in of_target.items())
    attempt = f"JSONExtractString(comment, 'versions', {literal(str(period))}, 'attempt')"
    return (
        f"SELECT arrayFilter(each -> each != '', groupUniqArray({attempt})) FROM system.tables "
        f"WHERE startsWith(name, {literal(PREFIX)}) AND {' AND '.join(told)}"
    )


def _entries(arrays: Iterable[Iterable[Row]]) -> dict[str, Entry]:
    """Return the records by event, and the newest of each if a node has several ledgers."""
    newest: dict[str, Entry] = {}
    for event, attempt, sequence, count, objects, source_bytes, recorded_at, *further in chain.from_iterable(arrays):
        if event not in newest or newest[event].recorded_at < recorded_at:
            details = dict(zip(_OF_LOAD, further, strict=bool(further)))
            newest[event] = Entry(event, attempt, sequence, count, objects, source_bytes, details, recorded_at)
    return newest


def _details(answered: Mapping[Node, tuple[Mapping[str, Entry], Row]], **others: Any) -> PeriodDetails:
    published = {
        node: _unless_older(entries, "published", than=("intent", "forgotten"))
        for node, (entries, _) in answered.items()
    }
    nodes = {
        node: NodeShare(rows, parts, size_bytes, record.rows if (record := published[node]) else None)
        for node, (_, (rows, parts, size_bytes)) in answered.items()
    }
    ledgers = [entries for entries, _ in answered.values()]
    load = _newest(entries.get("load") for entries in ledgers)
    inserting = _newest(map(_unpublished, ledgers))
    failure = _newest(_unless_older(entries, "failed", than=("inserting", *_STANDING)) for entries in ledgers)
    attempts = {entry.attempt for entry in published.values() if entry}
    newest = failure or _newest(entries.get("inserting") for entries in ledgers)
    return PeriodDetails(
        nodes=nodes,
        load=load,
        is_published=load is not None and load.attempt in attempts,
        inserting=inserting,
        failure=failure,
        owner=newest.details.get("owner", "") if newest else "",
        **others,
    )


def _newest(entries: Iterable[Entry | None]) -> Entry | None:
    """Return the newest record: one node has it, unless another node became the cluster's first."""
    return max((entry for entry in entries if entry), key=lambda entry: entry.recorded_at, default=None)


def _unpublished(entries: Mapping[str, Entry]) -> Entry | None:
    """Return the record of an insert whose load has not published; it may be about to."""
    inserting, intent = entries.get("inserting"), entries.get("intent")
    is_publishing = inserting and intent and inserting.attempt == intent.attempt
    than = ("load", *(event for event in _STANDING if event != "intent" or not is_publishing))
    return _unless_older(entries, "inserting", than=than)


def _unless_older(entries: Mapping[str, Entry], event: str, *, than: Iterable[str]) -> Entry | None:
    entry = entries.get(event)
    others = max((entries[other].sequence for other in than if other in entries), default=0)
    return entry if entry and entry.sequence > others else None
