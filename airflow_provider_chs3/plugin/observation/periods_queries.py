"""The queries for all tables at once: their number does not grow with tables and periods."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from airflow_provider_chs3.core.ledger.partition_state import (
    PARTITION,
    mutations_query,
    partition_states,
    sources_query,
)
from airflow_provider_chs3.core.ledger.records import IS_CHECKED, IS_STATE, NUMBER_OF_HELD, newest
from airflow_provider_chs3.core.ledger.table import COLUMNS, LOADS_COLUMNS
from airflow_provider_chs3.core.load.staging_tables import IS_STAGING
from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.core.sql.quoting import Sql, literal, one_of, table
from airflow_provider_chs3.core.target.topology import LEDGER_TABLE, LOADS_TABLE
from airflow_provider_chs3.core.watch.merge_observation import SIZES, activity_columns

#: The length of errors in the overview of all periods.
ERROR_CHARACTERS = 400

#: Columns of a period's record that the page compares; only loads use the rest.
RECORD = (
    "event",
    "attempt",
    "source_bytes",
    "nodes",
    "rows",
    "min_block",
    "max_block",
    "data_version",
    "evidence",
    "sequence",
    "restored",
)

_KEYS = ("target_database", "target_table", "target_uuid", "period", "recorded_at")
_OF_CLAIMS = ("partition_id", "objects", *RECORD, "fingerprint", "definition", "why", "hold_limit_days")
#: Whether a claim is about one of several partitions.
_OF_SEVERAL = "length(partitions) > 1 AND event != 'held'"
_OF_LOADS = (
    "owner",
    "running",
    "planned_rows",
    "error",
    "error_hint",
    "error_type",
    "insert_seconds",
    "loaded_rows",
    "together_periods",
    "together_seconds",
)
_HELD = "event = 'held'"
_HELD_TABLES = "chs3_held_"
_INSERTING = "event = 'inserting'"
_FAILED = "event = 'failed'"
_LOADED = "event = 'load'"
_RECORDED_AT = "formatDateTime(recorded_at, '%F %T', 'UTC')"
#: Columns of a held version beside its records.
_OF_HELD = ("dateDiff('second', recorded_at, now64(3))", "why", _RECORDED_AT, "hold_limit_days")


def records(ledgers: Collection[str], loads: Collection[str], periods: Collection[str] | None = None) -> Sql:
    """Return the query for the newest records of each period of each table, in all ledgers of a node."""
    databases = sorted({*ledgers, *loads})
    only = "1" if periods is None else one_of("period", periods)
    return Sql(
        " UNION ALL ".join(_records(database, database in ledgers, database in loads, only) for database in databases)
    )


def _records(database: str, has_ledger: bool, has_loads: bool, only: str) -> str:
    published = ["partition_id", *RECORD, "objects", _RECORDED_AT, literal(database)]
    inserting = ["attempt", "owner", "running", "planned_rows", "toFloat64(recorded_at)"]
    text = f"concat(leftUTF8(error, {ERROR_CHARACTERS}), ' ', error_hint)"
    failed = ["attempt", "owner", text, "error_type", "error_hint", _RECORDED_AT]
    loaded = ["attempt", "owner", "insert_seconds", "loaded_rows", "together_periods", "together_seconds"]
    held = ["fingerprint", "definition", "partition_id", *RECORD, *_OF_HELD, literal(database)]
    keys = "target_database, target_table, target_uuid, period"
    ledger, loads = (table(TableName(database, name)) for name in (LEDGER_TABLE, LOADS_TABLE))
    # Find the newest claims first: there is one for each load that there ever was.
    numbers = f"SELECT {keys}, max(sequence) FROM {ledger} WHERE {IS_STATE} AND {only} GROUP BY {keys}"
    of_held = f"SELECT {keys}, {NUMBER_OF_HELD} FROM {ledger} WHERE {only} GROUP BY {keys}"
    newest_claims = (
        f"{ledger} WHERE {only} AND ({IS_STATE} AND ({keys}, sequence) IN ({numbers}) "
        f"OR {_HELD} AND ({keys}, sequence) IN ({of_held}))"
    )
    sources = ((COLUMNS, newest_claims, has_ledger), (LOADS_COLUMNS, f"{loads} WHERE {only}", has_loads))
    both = " UNION ALL ".join(
        f"SELECT {', '.join(_of_both(columns))} FROM {source}" for columns, source, is_there in sources if is_there
    )
    # Without tuples: the driver makes an object of each.
    return (
        f"SELECT {keys}, states, checked, several, held, "
        f"arrayExists(each -> has(of_published, (each.1, each.2)), held), {_flat('published', len(published))}, "
        f"inserts, {_flat('inserting', len(inserting))}, failures, {_flat('failed', len(failed))}, "
        f"{_flat('loaded', len(loaded))} FROM (SELECT {keys}, "
        # A later check or load makes a failure or an unsuccessful insert obsolete.
        f"groupArrayIf((partition_id, {', '.join(RECORD)}), of_several) AS several, "
        f"groupArrayIf(({', '.join(held)}), {_HELD}) AS held, "
        "groupUniqArrayIf((fingerprint, definition), event = 'published') AS of_published, "
        f"countIf({IS_STATE}) AS states, maxIf(sequence, {IS_CHECKED}) AS checked, "
        f"{newest(', '.join(published))} AS published, maxIf(sequence, {_INSERTING}) AS inserts, "
        f"{newest(', '.join(inserting), condition=_INSERTING)} AS inserting, maxIf(sequence, {_FAILED}) AS failures, "
        f"{newest(', '.join(failed), condition=_FAILED)} AS failed, "
        f"{newest(', '.join(loaded), condition=_LOADED)} AS loaded FROM ({both}) "
        # Sorted, they come in few blocks: if only grouped, in up to 256, and each takes a worker milliseconds.
        f"GROUP BY {keys} ORDER BY target_database, target_table, period)"
    )


def _of_both(columns: Mapping[str, str]) -> Iterator[str]:
    """Yield what the page reads of ledgers and tables of loads, from one of them: what it lacks is empty, or 0."""
    for name in (*_KEYS, *_OF_CLAIMS, *_OF_LOADS):
        empty = "''" if "String" in (COLUMNS | LOADS_COLUMNS)[name] else "0"
        yield name if name in columns else f"{empty} AS {name}"
    yield f"{_OF_SEVERAL if columns is COLUMNS else 0} AS of_several"


def _flat(name: str, last: int, *, first: int = 1) -> str:
    """Return fields of a tuple as columns."""
    return ", ".join(f"{name}.{number}" for number in range(first, last + 1))


def partitions(tables: Iterable[TableName], ids: Collection[str] | None = None, *, with_content: bool = False) -> Sql:
    """Return the query for the partitions of tables, for the comparison with the ledger and for merge health."""
    of_tables = in_tables(tables) if ids is None else f"{in_tables(tables)} AND {one_of(PARTITION, ids)}"
    states = partition_states(of_tables, by="database, table", with_content=with_content, more=SIZES)
    columns = f"{_flat('found', 3)}, {_flat('found.4', 7)}, {_flat('found', 8, first=5)}"
    return Sql(f"SELECT {columns} FROM ({states})")


def sources(tables: Iterable[TableName]) -> Sql:
    """Return the query for the parts that merges have joined in tables, as far as servers still show them."""
    return Sql(sources_query(f"{in_tables(tables)} AND NOT active", by="database, table"))


def circumstances(
    tables: Collection[TableName],
    uuids: Collection[str],
    unrecorded: Collection[TableName],
    *,
    system_tables: Collection[str],
) -> Sql:
    """Return the query for tables, merges, mutations, staging, inserts and disk space."""
    of_tables = in_tables(tables)
    named = f"{in_tables(tables, name='name')} OR {one_of('toString(uuid)', uuids)}"
    return Sql(f"""
SELECT
    (SELECT groupArray((database, name, engine, engine_full, toString(uuid), storage_policy, partition_key,
            active_parts, total_rows))
        FROM system.tables WHERE {named}),
    (SELECT groupArray((database, table, (partition_id, min_block_number, max_block_number)))
        FROM system.detached_parts WHERE startsWith(reason, 'broken') AND {of_tables}),
    (SELECT groupArray(name) FROM system.tables WHERE {IS_STAGING} OR startsWith(name, {literal(_HELD_TABLES)})),
    (SELECT groupArray((initial_query_id, is_initial_query, read_rows, read_bytes, memory_usage, peak_memory_usage,
            written_rows, elapsed)) FROM system.processes WHERE startsWith(initial_query_id, 'chs3_')),
    {mutations_query(of_tables, group="database, table")},
    {_filled_partitions(unrecorded)},
    {_structures(of_tables)},
    {activity_columns(of_tables, system_tables)}
""")


def _structures(of_tables: str) -> str:
    """Return a column with digests of the stored columns of tables, and of those that hold rows, if any do."""
    holds = f"startsWith(name, {literal(_HELD_TABLES)})"
    has_held = f"(SELECT count() FROM system.tables WHERE {holds}) > 0"
    is_one = f"({of_tables} OR startsWith(table, {literal(_HELD_TABLES)}))"
    digests = (
        "SELECT database, table, toString(cityHash64(arraySort(groupArray((name, type))))) AS digest "
        f"FROM system.columns WHERE {has_held} AND {is_one} AND default_kind NOT IN ('ALIAS', 'EPHEMERAL') "
        "GROUP BY database, table"
    )
    return f"(SELECT groupArray((database, table, digest)) FROM ({digests}))"


def _filled_partitions(tables: Collection[TableName]) -> str:
    if not tables:
        return "[]"
    filled = f"active AND rows > 0 AND NOT startsWith(partition_id, 'patch-') AND {in_tables(tables)}"
    return f"(SELECT groupUniqArray((database, table, partition_id, partition)) FROM system.parts WHERE {filled})"


def in_tables(tables: Iterable[TableName], *, name: str = "table") -> str:
    """Return the condition for the rows of tables in a table of `system`."""
    pairs = (f"({literal(target.database)}, {literal(target.table)})" for target in tables)
    return f"(database, {name}) IN ({', '.join(pairs)})"
