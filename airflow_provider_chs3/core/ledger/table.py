"""The ledger as a table: its columns, its keys, and the version of its schema."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from airflow_provider_chs3.core.cluster.node_facts import RecordTable, TargetContext
from airflow_provider_chs3.core.cluster.topology import LEDGER_TABLE, OBJECTS_TABLE, RECORDS_SCHEMA
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, literal, table
from airflow_provider_chs3.core.values.models import Node, TableName
from airflow_provider_chs3.core.values.period import Period
from airflow_provider_chs3.core.workflow.operations import QueryNodes, Row, Steps
from airflow_provider_chs3.exceptions import PreflightError

#: Whoever changes these or what is in their JSON raises `RECORDS_SCHEMA`.
COLUMNS = {
    "recorded_at": "DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'by the clock of this node'",
    "sequence": "UInt64 COMMENT 'order of the records of one period on this node'",
    "event": "LowCardinality(String) COMMENT "
    "'intent, published, forgotten; for all nodes: inserting, load, failed, unchanged, calibrated, rehearsed'",
    "target_database": "String",
    "target_table": "String",
    "target_uuid": "String COMMENT 'distinguishes a table from an earlier one of the same name'",
    "period": "String",
    "partition_id": "String",
    "attempt": "String",
    "fingerprint": "String COMMENT 'of the objects'",
    "definition": "String COMMENT 'of what was made of them'",
    "objects": "UInt64",
    "source_bytes": "UInt64",
    "nodes": "UInt32 COMMENT 'that the period was spread over'",
    "rows": "UInt64 COMMENT 'of the period on this node'",
    "min_block": "Int64 COMMENT 'of the partition: before it is replaced, with an intent; else after'",
    "max_block": "Int64",
    "data_version": "Int64 COMMENT 'of the partition, as with the blocks'",
    "evidence": "String COMMENT 'JSON: rows and parts of the partition, as with the blocks'",
    "structure": "String COMMENT 'JSON: the table when it was published, and what was loaded into it'",
    "base": "String COMMENT 'attempt that loaded the whole period; empty where no increment may build on the record'",
    "increments": "UInt32 COMMENT 'loads since then that added new objects alone'",
    "details": "String COMMENT 'JSON'",
}

#: What is read of the details of all periods at once; what is missing there, or null, is empty or 0.
_SUMMARY_TYPE = (
    "Tuple(owner String, running String, plan Tuple(rows UInt64), "
    "error Tuple(message String, hint String, type String), "
    "insert_seconds Float64, loaded_rows UInt64, "
    "together Tuple(periods String, seconds Float64))"
)
#: Columns that the server computes when it writes a record. Details are kilobytes: to read them of all the loads that
#: there ever were takes most of the time of an overview.
_COMPUTED = {
    "summary": f"{_SUMMARY_TYPE} MATERIALIZED JSONExtract(details, '{_SUMMARY_TYPE}') COMMENT 'of details'",
}
#: Those of a ledger, in the order of its table.
ALL_COLUMNS = COLUMNS | _COMPUTED

#: What is written is on the disk when the statement ends, and so is the name by which it is found. A part that was
#: merged, or fetched from a replica, is there before those that it stands for go: else a power cut takes all of a
#: ledger away.
DURABLE: Mapping[str, int] = {
    "fsync_after_insert": 1,
    "fsync_part_directory": 1,
    "min_rows_to_fsync_after_merge": 1,
    "min_compressed_bytes_to_fsync_after_merge": 1,
    "min_compressed_bytes_to_fsync_after_fetch": 1,
}

#: A server may refuse INSERTs at so few parts that its merges, which leave parts of a few rows alone, never help.
_WITHOUT_LIMITS: Mapping[str, int] = {"parts_to_delay_insert": 1_000_000, "parts_to_throw_insert": 1_000_000}


@dataclass(frozen=True, slots=True)
class LedgerKey:
    """The key of records: the table itself, not only its name, and the period."""

    target: TableName
    target_uuid: str
    period: Period
    partition_id: str

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
        return f"{self.table_condition} AND {self.period_condition}"

    @property
    def period_condition(self) -> str:
        """Condition for records of this period."""
        return f"period = {literal(str(self.period))}"


def ledgers_query() -> Sql:
    """Return the query for all tables of a node that have a ledger's name; `own_ledgers` parses the answer."""
    return Sql(f"SELECT database, engine, comment FROM system.tables WHERE name = {literal(LEDGER_TABLE)}")


def own_ledgers(rows: Iterable[Row]) -> list[str]:
    """Return the databases of a node's ledgers, without those of other versions of this package."""
    return sorted(database for database, *found in rows if RecordTable(*found).is_current)


def other_schemas(context: TargetContext) -> Iterator[str]:
    """Yield what to do about ledgers and tables of loaded objects that this version of the package has not made.

    Args:
        context: The facts of the nodes.
    """
    nodes_by_tables = defaultdict[tuple[tuple[TableName, RecordTable], ...], list[Node]](list)
    for node, facts in context.nodes.items():
        tables = ((context.ledger.table, facts.ledger), (OBJECTS_TABLE, facts.objects))
        others = ((TableName(context.ledger.database, name), found) for name, found in tables if found)
        nodes_by_tables[tuple((name, found) for name, found in others if not found.is_current)].append(node)
    for tables_of_nodes, nodes in nodes_by_tables.items():
        if tables_of_nodes:
            yield other_schema(dict(tables_of_nodes), nodes, target=str(context.target))


def other_schema(tables: Mapping[TableName, RecordTable], nodes: Iterable[Node], *, target: str) -> str:
    """Return what to do about tables that this version of the package has not made.

    Args:
        tables: The tables.
        nodes: The nodes that have them.
        target: The table whose periods they record.
    """
    engine, comment = next(iter(tables.values()))
    renamed = (f"{table(name)} TO {table(TableName(name.database, f'old_{name.table}'))}" for name in tables)
    return (
        f"{' and '.join(map(str, tables))} on {', '.join(map(str, nodes))}: not made by this version of the package, "
        f"as engine and comment are {engine} and {comment!r}, not MergeTree and {RECORDS_SCHEMA!r}. If another version "
        f"made what is there, run RENAME TABLE {', '.join(renamed)} on each of these nodes, and then chs3 adopt "
        f"--table {target} --all-periods with the source and the arguments of the loads, which records the published "
        "periods again. Otherwise give another database as staging_database."
    )


def create_ledger(ledger: TableName) -> Sql:
    """Return the statement that creates the ledger if it is missing."""
    columns = ", ".join(f"{identifier(name)} {declaration}" for name, declaration in ALL_COLUMNS.items())
    return Sql(
        f"CREATE TABLE IF NOT EXISTS {table(ledger)} ({columns}) ENGINE = MergeTree "
        "ORDER BY (target_database, target_table, period, sequence) "
        f"SETTINGS {', '.join(record_settings())} COMMENT {literal(RECORDS_SCHEMA)}"
    )


def record_settings() -> Iterator[str]:
    """Yield the settings of a table of records, each as in a SETTINGS clause."""
    yield from durable_settings()
    yield from (f"{name} = {value}" for name, value in _WITHOUT_LIMITS.items())


def durable_settings() -> Iterator[str]:
    """Yield the settings that make a table's rows survive a power cut, each as in a SETTINGS clause."""
    return (f"{name} = {value}" for name, value in DURABLE.items())


def make_ledger(context: TargetContext, nodes: Collection[Node]) -> Steps[None]:
    """Create the ledger on the nodes that lack it.

    Args:
        context: The facts of the nodes.
        nodes: The nodes that it is needed on.

    Raises:
        PreflightError: If one of them has a ledger of another schema.
    """
    if findings := list(other_schemas(context)):
        raise PreflightError(findings)
    if missing := [node for node in nodes if not context.nodes[node].has_ledger]:
        sql = create_ledger(context.ledger)
        yield from QueryNodes(name="Create the ledger", sql=dict.fromkeys(missing, sql))
