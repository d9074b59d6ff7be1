"""The ledger as a table: its columns and keys, and the columns that newer versions of this package add."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from airflow_provider_chs3.core.cluster.topology import LEDGER_TABLE
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, literal, table
from airflow_provider_chs3.core.values.models import Month, Node, TableName
from airflow_provider_chs3.core.workflow.operations import QueryNodes, Steps
from airflow_provider_chs3.exceptions import ClickHouseServerError, PreflightError

_ACCESS_DENIED = 497

#: Columns are only ever added, and always named, so that an upgraded package reads what an older one wrote.
COLUMNS = {
    "recorded_at": "DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'by the clock of this node'",
    "sequence": "UInt64 COMMENT 'order of the records of one month on this node'",
    "event": "LowCardinality(String) COMMENT "
    "'intent, published, forgotten; for all nodes: inserting, load, failed, unchanged, calibrated, rehearsed'",
    "target_database": "String",
    "target_table": "String",
    "target_uuid": "String COMMENT 'distinguishes a table from an earlier one of the same name'",
    "month": "String",
    "partition_id": "String",
    "attempt": "String",
    "fingerprint": "String COMMENT 'of the objects'",
    "definition": "String COMMENT 'of what was made of them'",
    "objects": "UInt64",
    "source_bytes": "UInt64",
    "nodes": "UInt32 COMMENT 'that the month was spread over'",
    "rows": "UInt64 COMMENT 'of the month on this node'",
    "min_block": "Int64 COMMENT 'of the partition: before it is replaced, with an intent; else after'",
    "max_block": "Int64",
    "data_version": "Int64 COMMENT 'of the partition, as with the blocks'",
    "evidence": "String COMMENT 'JSON: rows and parts of the partition, as with the blocks'",
    "structure": "String COMMENT 'JSON: the table when it was published, and what was loaded into it'",
    "base": "String COMMENT 'attempt that loaded the whole month; empty where no increment may build on the record'",
    "increments": "UInt32 COMMENT 'loads since then that added new objects alone'",
    "details": "String COMMENT 'JSON'",
}

#: What is read of the details of all months at once; what is missing there, or null, is empty or 0.
_SUMMARY_TYPE = (
    "Tuple(owner String, running String, plan Tuple(rows UInt64), "
    "error Tuple(message String, hint String, type String), "
    "insert_seconds Float64, loaded_rows Nullable(UInt64), rows UInt64, "
    "together Tuple(months String, seconds Float64))"
)
SUMMARY = f"JSONExtract(details, '{_SUMMARY_TYPE}')"
#: Columns that the server computes when it writes a record. Details are kilobytes: to read them of all the loads that
#: there ever were takes most of the time of an overview.
_COMPUTED = {"summary": f"{_SUMMARY_TYPE} MATERIALIZED {SUMMARY} COMMENT 'of details'"}
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

#: Those that came with a later version of this package.
_LATER = ("nodes", "data_version", "evidence", "structure", "base", "increments")


def lacks_of_ledger(columns: Collection[str]) -> list[str]:
    """Return the columns that every version of this package gives a ledger, and this table lacks.

    Args:
        columns: Its columns; none if the table does not exist, which then lacks nothing.
    """
    return [name for name in COLUMNS if columns and name not in columns and name not in _LATER]


def columns_of_ledgers() -> Sql:
    """Return the query for a node's ledgers: database and columns of each."""
    return Sql(
        f"SELECT database, groupArray(name) FROM system.columns WHERE table = {literal(LEDGER_TABLE)} GROUP BY 1"
    )


@dataclass(frozen=True, slots=True)
class LedgerKey:
    """The key of records: the table itself, not only its name, and the month."""

    target: TableName
    target_uuid: str
    month: Month
    partition_id: str

    @property
    def name_condition(self) -> str:
        """Condition for records of all tables that have had this name."""
        return f"target_database = {literal(self.target.database)} AND target_table = {literal(self.target.table)}"

    @property
    def table_condition(self) -> str:
        """Condition for records of all months of this very table."""
        return f"{self.name_condition} AND target_uuid = {literal(self.target_uuid)}"

    @property
    def condition(self) -> str:
        """Condition for records of this month of this very table."""
        return f"{self.table_condition} AND {self.month_condition}"

    @property
    def month_condition(self) -> str:
        """Condition for records of this month."""
        return f"month = {literal(str(self.month))}"


def absent(name: str) -> str:
    """Return the value for a column that an older ledger lacks."""
    return "''" if "String" in COLUMNS[name].split()[0] else "0"


def create_ledger(ledger: TableName) -> Sql:
    """Return the statement that creates the ledger if it is missing."""
    columns = ", ".join(f"{identifier(name)} {declaration}" for name, declaration in ALL_COLUMNS.items())
    return Sql(
        f"CREATE TABLE IF NOT EXISTS {table(ledger)} ({columns}) ENGINE = MergeTree "
        "ORDER BY (target_database, target_table, month, sequence) "
        f"SETTINGS {', '.join(record_settings())}"
    )


def record_settings() -> Iterator[str]:
    """Yield the settings of a table of records, each as in a SETTINGS clause."""
    yield from durable_settings()
    yield from (f"{name} = {value}" for name, value in _WITHOUT_LIMITS.items())


def durable_settings() -> Iterator[str]:
    """Yield the settings that make a table's rows survive a power cut, each as in a SETTINGS clause."""
    return (f"{name} = {value}" for name, value in DURABLE.items())


def make_ledger(ledger: TableName, known: Mapping[Node, Collection[str]]) -> Steps[None]:
    """Create the ledger on every node that lacks it, and add the columns that an older ledger lacks.

    Args:
        ledger: The ledger.
        known: The columns of each node's ledger; none if it has no ledger.

    Raises:
        PreflightError: If the user may not add columns that are new in this version of the package.
    """
    if missing := [node for node, columns in known.items() if not columns]:
        yield from QueryNodes(name="Create the ledger", sql=dict.fromkeys(missing, create_ledger(ledger)))
    added = {
        node: _add(ledger, columns) for node, columns in known.items() if columns and ALL_COLUMNS.keys() - set(columns)
    }
    if not added:
        return
    try:
        yield from QueryNodes(name="Add columns that the ledger of an older version lacks", sql=added)
    except ClickHouseServerError as error:
        if error.code != _ACCESS_DENIED:
            raise
        statements = "; ".join(f"{sql} (on {node})" for node, sql in added.items())
        raise PreflightError(
            [
                "The ledger is from an older version of this package, and the user may not add columns to it: run "
                f"{statements}; or GRANT ALTER ADD COLUMN ON {table(ledger)} to the user."
            ]
        ) from error


def _add(ledger: TableName, columns: Collection[str]) -> Sql:
    clauses = (
        f"ADD COLUMN IF NOT EXISTS {identifier(name)} {declaration}"
        for name, declaration in ALL_COLUMNS.items()
        if name not in columns
    )
    return Sql(f"ALTER TABLE {table(ledger)} {', '.join(clauses)}")
