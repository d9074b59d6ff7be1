"""The ledger as a table: its columns, its keys, and the version of its schema."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from airflow_provider_chs3.core.model.models import Node, TableName
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, literal, one_of, table
from airflow_provider_chs3.core.steps.operations import Query, Row, Steps
from airflow_provider_chs3.core.target.node_facts import QUEUE, RecordTable, Target, other_schemas
from airflow_provider_chs3.core.target.replication import create_table
from airflow_provider_chs3.core.target.topology import LEDGER_TABLE, LOADS_TABLE, RECORDS_SCHEMA
from airflow_provider_chs3.exceptions import PreflightError

#: Columns that the tables of claims and of loads have in common.
_COMMON = {
    "recorded_at": "DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'by the clock of this node'",
    "sequence": "UInt64 COMMENT 'order of the records of one period on this node, in both tables'",
    "target_database": "LowCardinality(String)",
    "target_table": "LowCardinality(String)",
    "target_uuid": "LowCardinality(String) COMMENT 'distinguishes a table from an earlier one of the same name'",
    "period": "LowCardinality(String)",
    "partition_id": "LowCardinality(String)",
    "attempt": "LowCardinality(String)",
    "fingerprint": "LowCardinality(String) COMMENT 'of the objects'",
    "definition": "LowCardinality(String) COMMENT 'of the arguments that define the rows'",
    "objects": "UInt64",
    "source_bytes": "UInt64",
}
#: If you change these, or what is in their JSON, raise `RECORDS_SCHEMA`.
COLUMNS = {
    **_COMMON,
    "event": "LowCardinality(String) COMMENT 'intent, published, forgotten, held, discarded; of no period: rehearsed'",
    "partitions": "Array(LowCardinality(String)) COMMENT 'all that the period has on this node'",
    "nodes": "UInt32 COMMENT 'that the period was spread over'",
    "rows": "UInt64 COMMENT 'of the partition on this node'",
    "min_block": "Int64 COMMENT 'of the partition: before it is replaced, with an intent; else after'",
    "max_block": "Int64",
    "data_version": "Int64 COMMENT 'of the partition, as with the blocks'",
    "evidence": "String COMMENT 'JSON: rows and parts of the partition, as with the blocks'",
    "structure": "LowCardinality(String) COMMENT 'JSON: the table when it was published, and what was loaded into it'",
    "base": "LowCardinality(String) COMMENT "
    "'attempt that loaded the whole period; empty where no increment may build on the record'",
    "increments": "UInt32 COMMENT 'loads since then that added new objects alone'",
    "is_adopted": "Bool COMMENT 'loaded by other means'",
    "restored": "LowCardinality(String) COMMENT "
    "'JSON: the version that was restored, by whom and when, and whether the period is pinned; empty for a load'",
    "why": "String COMMENT 'why a version is held'",
    "hold_limit_days": "Float64 COMMENT 'after which it cannot be approved'",
    "keep_versions": "UInt32 COMMENT 'earlier versions of the period that the approval of a held one keeps'",
    "cluster": "LowCardinality(String) COMMENT 'the cluster that the table was loaded on'",
}
#: The columns of the table of loads; the same rule applies.
LOADS_COLUMNS = {
    **_COMMON,
    "event": "LowCardinality(String) COMMENT 'inserting, load, withheld, failed, unchanged; of an arrival, arrived'",
    "owner": "String COMMENT 'JSON: DAG, run, task and map index'",
    "reason": "LowCardinality(String)",
    "rows": "UInt64 COMMENT 'of the period, on all nodes'",
    "rows_by_node": "Map(LowCardinality(String), UInt64)",
    "loaded_objects": "UInt64 COMMENT 'those that this load read'",
    "loaded_bytes": "UInt64",
    "loaded_rows": "UInt64",
    "object_changes": "Map(LowCardinality(String), UInt64) COMMENT 'since the period was published'",
    "uncompressed_bytes": "UInt64 COMMENT 'of all values as encoded in these; 0 if not known'",
    "reading": "LowCardinality(String) COMMENT 'JSON: columns and types, as the next load is likely to read them'",
    "other_period_rows": "UInt64 COMMENT 'skipped'",
    "parts": "UInt64 COMMENT 'at publishing, on all nodes'",
    "table_bytes": "UInt64 COMMENT 'on disk at publishing'",
    "insert_seconds": "Float64",
    "seconds_by_step": "Map(LowCardinality(String), Float64)",
    "peak_memory_bytes": "Nullable(UInt64) COMMENT 'on one node'",
    "memory_bytes": "UInt64 COMMENT 'that it was planned for there'",
    "memory_steps": "UInt32 COMMENT 'how often its need of memory was lowered'",
    "counted_by": "LowCardinality(String) COMMENT 'what gave the number of rows: footers, insert, second read'",
    "checks": "String COMMENT 'JSON: what the checks of its rows have found; empty without checks'",
    "query_ids": "Array(String) COMMENT 'of its inserts'",
    "settings": "LowCardinality(String) COMMENT 'JSON: name, value and reason of each'",
    "together_periods": "LowCardinality(String) COMMENT 'those that its insert loaded, if they were several'",
    "together_seconds": "Float64 COMMENT 'of all of that insert'",
    "planned_rows": "UInt64 COMMENT 'that its inserts read; 0 if not known'",
    "running": "String COMMENT 'query id of the insert that is started next'",
    "plan": "String COMMENT 'JSON: what another process needs to resume it'",
    "basis": "String COMMENT 'JSON: the period as it was when the load decided'",
    "fresh_by": "LowCardinality(String) COMMENT 'when its periods are due; empty if the load does not say so'",
    "error": "String",
    "error_hint": "String",
    "error_type": "LowCardinality(String)",
    "is_terminal": "Bool COMMENT 'no retry helps'",
    "error_code": "Nullable(Int32) COMMENT 'of the server'",
    "error_name": "LowCardinality(String)",
    "error_host": "LowCardinality(String)",
    "error_query_id": "String",
}
#: Events of loads: all others are claims.
LOAD_EVENTS = ("inserting", "load", "withheld", "failed", "unchanged", "arrived")
#: Those of loads that left a period as its objects are, as SQL.
LOOKS = "('load', 'unchanged')"
#: That of a load by arrival, whose rows are of other periods: it left them as the objects of the arrival are.
ARRIVED = "arrived"

#: A period whose objects are older, and change once more, is loaded whole. A whole table rests on them as long as it
#: lives: for 54 years, as `DateTime` ends in 2106.
_KEPT_DAYS, _KEPT_DAYS_OF_TABLES = 400, 20_000

#: Records are on the disk when the statement ends, and so is the name by which they are found. A part that was merged,
#: or fetched from a replica, is there before the parts that it stands for go: else a power cut takes all of a ledger
#: away.
DURABLE: Mapping[str, int] = {
    "fsync_after_insert": 1,
    "fsync_part_directory": 1,
    "min_rows_to_fsync_after_merge": 1,
    "min_compressed_bytes_to_fsync_after_merge": 1,
    "min_compressed_bytes_to_fsync_after_fetch": 1,
}

#: A server may refuse INSERTs at so few parts that its merges, which leave parts of a few rows alone, never help.
_WITHOUT_LIMITS: Mapping[str, int] = {"parts_to_delay_insert": 1_000_000, "parts_to_throw_insert": 1_000_000}


def lacks_look(fresh_by: str, since: datetime, *, is_arrival: bool) -> str:
    """Return the condition on records of a period that no load has looked at it since, or by other due times."""
    is_look = f"event = {literal(ARRIVED)}" if is_arrival else f"event IN {LOOKS}"
    moment = f"fromUnixTimestamp64Milli({int(since.timestamp() * 1000)}, 'UTC')"
    return (
        f"(maxIf(recorded_at, {is_look}) < {moment} "
        f"OR argMaxIf(fresh_by, (sequence, recorded_at), {is_look}) != {literal(fresh_by)})"
    )


@dataclass(frozen=True, slots=True)
class LedgerKey:
    """The key of records: the table itself, not only its name, and the period."""

    target: TableName
    target_uuid: str
    period: Period
    partition_id: str

    @classmethod
    def on(cls, context: Target, node: Node, period: Period, partition_id: str = "") -> LedgerKey:
        """Return the key of records on a node: its own table may have been created again only there."""
        uuid = (context.nodes[node].target or context.table_facts).uuid
        return cls(context.target, uuid, period, partition_id)

    @property
    def name_condition(self) -> str:
        """Condition for records of all tables that have had this name."""
        return f"target_database = {literal(self.target.database)} AND target_table = {literal(self.target.table)}"

    @property
    def table_condition(self) -> str:
        """Condition for records of all periods of this very table."""
        return f"{self.name_condition} AND target_uuid = {literal(self.target_uuid)}"

    @property
    def condition(self) -> str:
        """Condition for records of this period of this very table."""
        return f"{self.table_condition} AND period = {literal(str(self.period))}"


def ledgers_query() -> Sql:
    """Return the query for a node's ledgers and tables of loads, and whether it shows replicas' queues."""
    is_queue = f"database = 'system' AND name = {literal(QUEUE)}"
    is_of_records = one_of("name", (LEDGER_TABLE, LOADS_TABLE))
    return Sql(f"SELECT name, database, engine, comment FROM system.tables WHERE {is_of_records} OR {is_queue}")


def own_tables(rows: Iterable[Row], name: str) -> list[str]:
    """Return the databases of a node's tables of a name, without those of other versions of this package."""
    return sorted(database for other, database, *fields in rows if other == name and RecordTable(*fields).is_current)


def cluster_of_ledgers() -> Steps[str | None]:
    """Return the cluster of earlier loads, by the ledgers of the connection's server; None unless they name one."""
    rows = yield from Query(name="Find the ledgers", sql=ledgers_query())
    if not (databases := own_tables(rows, LEDGER_TABLE)):
        return None
    # The one of what was published last, of each ledger.
    newest = " UNION ALL ".join(
        "SELECT toString(argMax(cluster, recorded_at)) AS cluster "
        f"FROM {table(TableName(database, LEDGER_TABLE))} WHERE event = 'published'"
        for database in databases
    )
    sql = Sql(f"SELECT DISTINCT cluster FROM ({newest}) WHERE cluster != ''")
    named = yield from Query(name="Ask the ledgers for their cluster", sql=sql)
    return named[0][0] if len(named) == 1 else None


def create_ledger(ledger: TableName, *, engine: str = "MergeTree") -> Sql:
    """Return the statement that creates the ledger if it is missing."""
    key = "(target_database, target_table, period, sequence, partition_id)"
    return create_records(ledger, COLUMNS, key, engine=engine)


def create_records(
    name: TableName, columns: Mapping[str, str], key: str, *, engine: str, time: str = "", live: str = ""
) -> Sql:
    """Return the statement that creates a table of records if it is missing."""
    declared = ", ".join(f"{identifier(column)} {declaration}" for column, declaration in columns.items())
    # The server drops parts alone: such rows are not among others.
    partitions = f"PARTITION BY ({', '.join(filter(None, (f'toYYYYMM({time})', live)))}) " if time else ""
    days = f"if({live}, {_KEPT_DAYS_OF_TABLES}, {_KEPT_DAYS})" if live else _KEPT_DAYS
    ttl = f"TTL toDateTime({time}) + toIntervalDay({days}) " if time else ""
    limits = (f"{setting} = {value}" for setting, value in _WITHOUT_LIMITS.items())
    settings = (*durable_settings(), *limits, *(("ttl_only_drop_parts = 1",) if time else ()))
    return Sql(
        f"CREATE TABLE IF NOT EXISTS {table(name)} ({declared}) ENGINE = {engine} {partitions}ORDER BY {key} {ttl}"
        f"SETTINGS {', '.join(settings)} COMMENT {literal(RECORDS_SCHEMA)}"
    )


def durable_settings() -> Iterator[str]:
    """Yield the settings that make a table's rows survive a power cut, each as in a SETTINGS clause."""
    return (f"{name} = {value}" for name, value in DURABLE.items())


def make_ledger(context: Target, nodes: Collection[Node]) -> Steps[None]:
    """Create the ledger on the nodes that lack it, unless one of them has a ledger of another schema."""
    if findings := list(other_schemas(context)):
        raise PreflightError(*findings)
    missing = [node for node in nodes if not context.nodes[node].has_ledger]
    yield from make_records(context, missing, context.ledger, create_ledger(context.ledger, engine=context.own_engine))


def make_records(context: Target, nodes: Collection[Node], name: TableName, sql: Sql) -> Steps[None]:
    """Create a table of records on the nodes that lack it."""
    if nodes:
        yield from create_table(context, name, dict.fromkeys(nodes, sql), name=f"Create {name}")


def make_loads_table(context: Target) -> Steps[None]:
    """Create the table of loads on the coordinator, if it lacks it."""
    key = "(target_database, target_table, period, sequence)"
    sql = create_records(context.loads, LOADS_COLUMNS, key, engine=context.own_engine, time="recorded_at")
    missing = () if context.nodes[context.coordinator].has_loads else (context.coordinator,)
    yield from make_records(context, missing, context.loads, sql)
