"""Periods that the servers themselves find as they were published: of these, no more than names and sums are read.

There may be a hundred thousand of them, and judging one takes as long as reading a hundred.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, groupby
from typing import NamedTuple

from airflow_provider_chs3.core.ledger.partition_state import PARTITION
from airflow_provider_chs3.core.ledger.records import IS_STATE
from airflow_provider_chs3.core.ledger.table import COLUMNS, LOADS_COLUMNS
from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.core.model.period import Grain, Period
from airflow_provider_chs3.core.sql.quoting import Sql, items, literal, table
from airflow_provider_chs3.core.steps.operations import Row
from airflow_provider_chs3.core.target.period_partitions import period_of_partition
from airflow_provider_chs3.core.target.topology import LEDGER_TABLE, LOADS_TABLE

#: So many of the newest periods are read in all; of each table at least as many as a wide screen shows.
_NEWEST, _LEAST_OF_TABLE = 6_000, 64
#: So many of each table come first: those that a screen of 1,440 pixels shows.
_FIRST_OF_TABLE = 44
#: A condition with more names takes longer than to read all.
_MOST_NAMED = 1_000


class Task(NamedTuple):
    """The tasks whose periods are read, whatever their state; None stands for all."""

    dag_id: str
    run_id: str | None
    task_id: str | None
    map_index: int | None

    @property
    def condition(self) -> str:
        """The condition on the owner of a load."""
        names = (self.dag_id, self.run_id, self.task_id)
        texts = [
            f"JSONExtractString(owner, {number}) = {literal(name)}" for number, name in enumerate(names, 1) if name
        ]
        index = [] if self.map_index is None else [f"JSONExtractInt(owner, 4) = {self.map_index}"]
        return " AND ".join([*texts, *index])


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The periods that are read one by one, beside changed ones."""

    is_quick: bool = False
    until: str = ""
    task: Task | None = None
    named: Collection[tuple[TableName, str | None]] = ()


class TableSummary(NamedTuple):
    """The periods of a table on one node."""

    unchanged: str = ""
    others: Sequence[tuple[str, Sequence[str]]] = ()
    unknown: Sequence[tuple[str, str]] = ()
    rows: int = 0
    published_at: str = ""
    dag_ids: Sequence[str] = ()
    uuids: Sequence[str] = ()


def summaries_query(
    ledgers: Collection[str], loads: Collection[str], *, spare_parts: int, task: Task | None = None
) -> Sql:
    """Return the query for the summary of each table in all ledgers of a node.

    A period is unchanged if its newest claim is that it was published, if no load has begun or failed since, and if its
    partition has the blocks and rows of that claim, no mutation has passed it since, and it has few parts. Then
    `core.ledger.period_comparison.compare` finds it unchanged, too.
    """
    sources = [(ledger, LEDGER_TABLE) for ledger in sorted(ledgers)], [(load, LOADS_TABLE) for load in sorted(loads)]
    claims, own_loads = (
        f"({' UNION ALL '.join(_of_source(*place) for place in places) or _of_nothing(columns)})"
        for places, columns in zip(sources, (COLUMNS, LOADS_COLUMNS), strict=True)
    )
    named = " UNION DISTINCT ".join(
        f"SELECT DISTINCT target_database, target_table FROM {table(TableName(*place))}" for place in chain(*sources)
    )
    return Sql(
        _SUMMARIES.format(
            claims=claims,
            loads=own_loads,
            named=named,
            spare_parts=spare_parts,
            is_asked_for=task.condition if task else "0",
            is_state=IS_STATE,
            partition=PARTITION,
        )
    )


def _of_source(database: str, name: str) -> str:
    return f"SELECT *, {literal(database)} AS source FROM {table(TableName(database, name))}"


def _of_nothing(columns: Mapping[str, str]) -> str:
    declared = ", ".join(
        f"{name} {text.partition(' COMMENT ')[0].partition(' DEFAULT ')[0]}" for name, text in columns.items()
    )
    return f"SELECT *, '' AS source FROM null({literal(declared)})"


_SUMMARIES = """
SELECT database, table,
    arrayStringConcat(groupArrayIf(
        concat(period, '\\t', id, '\\t', claim.attempt, '\\t', toString(claim.nodes)), is_unchanged), '\\n'),
    groupArrayIf((period, arrayDistinct(arrayConcat([id], claim.partitions))), period != '' AND NOT is_unchanged),
    groupArrayIf((id, shown), period = '' AND own_rows > 0),
    sum(own_rows),
    formatDateTime(maxIf(claim.recorded_at, claim.event = 'published'), '%F %T', 'UTC'),
    arrayFilter(dag_id -> dag_id != '', groupUniqArray(JSONExtractString(owner, 1))),
    groupUniqArrayIf(uuid, is_gone)
FROM (
    SELECT *, claim.event = 'published' AND claim.restored = '' AND length(claim.partitions) < 2
        AND NOT is_gone AND is_of_one
        AND greatest(inserts, failures) <= greatest(checked, claim.sequence) AND parts <= {spare_parts} AND NOT is_odd
        AND own_rows = claim.rows AND min_block = claim.min_block AND max_block = claim.max_block
        AND version <= greatest(claim.max_block, claim.data_version) AND NOT ({is_asked_for}) AS is_unchanged
    FROM (
        SELECT target_database AS database, target_table AS table, target_uuid AS uuid, period,
            claim.partition_id AS id, claim, checked, inserts, failures, owner,
            claim_sources = 1 AND load_sources <= 1 AND (load_source = '' OR load_source = claim_source) AS is_of_one,
            uuid_now = '' AS is_gone
        FROM (
            SELECT target_database, target_table, target_uuid, period, uniqExact(source) AS claim_sources,
                any(source) AS claim_source,
                CAST(argMax((event, restored, attempt, partition_id, partitions, nodes, rows, min_block, max_block,
                    data_version, recorded_at, sequence), (sequence, recorded_at)),
                    'Tuple(event String, restored String, attempt String, partition_id String,
                        partitions Array(String), nodes UInt32, rows UInt64, min_block Int64, max_block Int64,
                        data_version Int64, recorded_at DateTime64(3, \\'UTC\\'), sequence UInt64)') AS claim
            FROM {claims} WHERE {is_state} GROUP BY target_database, target_table, target_uuid, period
        ) AS claimed
        FULL JOIN (
            SELECT target_database, target_table, target_uuid, period, uniqExact(source) AS load_sources,
                any(source) AS load_source, maxIf(sequence, event IN ('load', 'unchanged', 'arrived')) AS checked,
                maxIf(sequence, event = 'inserting') AS inserts, maxIf(sequence, event = 'failed') AS failures,
                argMaxIf(owner, (sequence, recorded_at), event = 'load') AS owner
            FROM {loads} GROUP BY target_database, target_table, target_uuid, period
        ) AS loaded USING (target_database, target_table, target_uuid, period)
        LEFT JOIN (SELECT database AS target_database, name AS target_table, toString(uuid) AS uuid_now
            FROM system.tables WHERE (database, name) IN ({named})) AS there USING (target_database, target_table)
        WHERE period != '' AND (uuid_now = '' OR uuid_now = target_uuid)
    ) AS recorded
    FULL JOIN (
        SELECT database, table, {partition} AS id, sumIf(rows, is_own) AS own_rows, countIf(is_plain) AS parts,
            minIf(min_block_number, is_own) AS min_block, maxIf(max_block_number, is_own) AS max_block,
            max(data_version) AS version, anyIf(partition, is_own) AS shown,
            max(NOT is_plain OR has_lightweight_delete) AS is_odd
        FROM (SELECT *, NOT startsWith(partition_id, 'patch-') AS is_plain, is_plain AND rows > 0 AS is_own
            FROM system.parts WHERE active AND (database, table) IN ({named}))
        GROUP BY database, table, id
    ) AS found USING (database, table, id)
)
GROUP BY database, table
"""


def summaries_of(rows: Iterable[Row]) -> dict[TableName, TableSummary]:
    """Parse the answer to `summaries_query`."""
    return {TableName(*row[:2]): TableSummary(*row[2:]) for row in rows}


def newest_query(ledgers: Collection[str]) -> Sql:
    """Return the query for the newest periods of each table in all ledgers of a node, and how many there are.

    It reads the keys alone, which takes a tenth of the time of `summaries_query`.
    """
    of_each = " UNION DISTINCT ".join(
        f"SELECT DISTINCT target_database, target_table, period FROM {table(TableName(ledger, LEDGER_TABLE))} "
        "WHERE period != ''"
        for ledger in sorted(ledgers)
    )
    return Sql(
        "SELECT target_database, target_table, "
        f"arraySlice(arrayReverseSort(groupArray(period)), 1, {_FIRST_OF_TABLE}), count() FROM ({of_each}) "
        "GROUP BY target_database, target_table"
    )


def newest_of(answers: Iterable[Iterable[Row]]) -> dict[TableName, set[str]] | None:
    """Return the newest periods of each table; None if there are not many, so that all can be read."""
    by_table, counts = dict[TableName, set[str]](), dict[TableName, int]()
    for database, name, periods, count in chain.from_iterable(answers):
        by_table.setdefault(TableName(database, name), set()).update(periods)
        counts[TableName(database, name)] = max(count, counts.get(TableName(database, name), 0))
    return by_table if sum(counts.values()) > _NEWEST else None


@dataclass(frozen=True, kw_only=True)
class TableOnNodes:
    """A table, for the choice of its periods."""

    summaries: Sequence[TableSummary]
    spread: int
    busy: Collection[str] | None
    partition_key: str


class Choice(NamedTuple):
    """The periods of a table: those that are read one by one, and the others."""

    read: set[str]
    partitions: set[str]
    unread: set[str]
    unknown: Mapping[str, str]


class Choices(NamedTuple):
    """The periods of all tables."""

    tables: Mapping[TableName, Choice]
    axis: list[str]
    window: Mapping[Grain, tuple[str, str]]
    are_some: bool = False

    def shows(self, name: str) -> bool:
        """Check whether a period is among those that are shown."""
        first, last = self.window.get(parsed(name).grain, (" ", ""))
        return first <= name <= last


def choose(tables: Mapping[TableName, TableOnNodes], wanted: Wanted) -> Choices:
    """Choose the periods that are read one by one: all but those unchanged on every node, and those that are shown."""
    unchanged = {name: _unchanged(on_nodes) for name, on_nodes in tables.items()}
    every = {name: _all_periods(on_nodes) for name, on_nodes in tables.items()}
    axis = _sort_names(every)
    window = dict[Grain, tuple[str, str]]()
    if wanted.task is None:
        shown = max(_LEAST_OF_TABLE, _NEWEST // max(1, len(tables)))
        for grain, of_grain in groupby(axis, key=lambda name: parsed(name).grain):
            if shown_names := [name for name in of_grain if not wanted.until or name <= wanted.until][-shown:]:
                window[grain] = (shown_names[0], shown_names[-1])
    choices = Choices({}, axis, window)
    named = set(wanted.named)
    chosen = {}
    for name, of_table in tables.items():
        unknown = _unknown(of_table)
        kept = {period for period in unchanged[name] if not choices.shows(period)} - {*unknown.values()}
        unread = set() if (name, None) in named else {period for period in kept if (name, period) not in named}
        read = every[name].keys() - unread
        chosen[name] = Choice(read, {key for period in read for key in every[name][period]}, unread, unknown)
    return choices._replace(tables=chosen)


def _sort_names(periods: Mapping[TableName, Iterable[str]]) -> list[str]:
    names = {period for names_of_table in periods.values() for period in names_of_table}
    return sorted(names, key=lambda name: (parsed(name).grain, name))


def choose_recorded(
    newest: Mapping[TableName, Collection[str]], recorded: Iterable[tuple[TableName, str, Collection[str]]]
) -> Choices:
    """Choose the newest periods whose records name their partitions: nobody knows which others have rows."""
    partitions: dict[TableName, dict[str, set[str]]] = {name: {} for name in newest}
    for name, period, ids in recorded:
        if ids and period in newest.get(name, ()):
            partitions[name].setdefault(period, set()).update(ids)
    tables = {
        name: Choice({*of_periods}, set().union(*of_periods.values()), set(), {})
        for name, of_periods in partitions.items()
    }
    return Choices(tables, _sort_names(partitions), {}, are_some=True)


def _unchanged(of_table: TableOnNodes) -> dict[str, str]:
    """Return the periods that all nodes find unchanged, by the same attempt, each with its partition."""
    if of_table.busy is None or not of_table.summaries:
        return {}
    lines = [frozenset(summary.unchanged.split("\n")) for summary in of_table.summaries]
    common = lines[0].intersection(*lines[1:])
    fields = (line.split("\t") for line in common if line)
    spread = str(of_table.spread)
    return {period: key for period, key, _, nodes in fields if nodes == spread and key not in of_table.busy}


def _all_periods(of_table: TableOnNodes) -> dict[str, set[str]]:
    """Return all periods with their partitions, also those that no node finds unchanged, and that no claim mentions."""
    ids_by_period = dict[str, set[str]]()
    for summary in of_table.summaries:
        fields = (line.split("\t") for line in summary.unchanged.split("\n") if line)
        periods: list[tuple[str, Sequence[str]]] = [(period, [key]) for period, key, *_ in fields]
        for period, ids in (*periods, *summary.others):
            ids_by_period.setdefault(period, set()).update(filter(None, ids))
    for key, period in _unknown(of_table).items():
        ids_by_period.setdefault(period, set()).add(key)
    return ids_by_period


def _unknown(of_table: TableOnNodes) -> dict[str, str]:
    recorded = {key for summary in of_table.summaries for _, ids in summary.others for key in ids}
    unknown = {
        partition for summary in of_table.summaries for partition in summary.unknown if partition[0] not in recorded
    }
    periods = ((key, period_of(key, shown, of_table.partition_key)) for key, shown in unknown)
    return {key: str(period) for key, period in periods if period}


def period_of(partition_id: str, shown: str, key: str) -> Period | None:
    """Return the period of a partition with the usual keys, alone or in a tuple; None with other keys."""
    if not key.startswith("("):
        return period_of_partition(partition_id, key=key)
    # Servers show the dates of tuples with dashes, in quotes.
    values = (part.strip("'").replace("-", "") for part in items(shown[1:-1]))
    periods = (period_of_partition(value, key=name) for name, value in zip(items(key[1:-1]), values, strict=False))
    return next(filter(None, periods), None)


def few(names: Collection[str]) -> Collection[str] | None:
    """Return names for a condition; None if they are too many."""
    return names if len(names) <= _MOST_NAMED else None


# A day, or an hour, is a period of many tables.
@lru_cache(maxsize=100_000)
def parsed(name: str) -> Period:
    """Return the period of a name."""
    return Period.parse(name)
