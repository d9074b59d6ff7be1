"""The table of loaded objects: one row for each object and each load that read it."""

from __future__ import annotations

from airflow_provider_chs3.core.ledger.table import create_records, make_records
from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.core.model.period import WHOLE_TABLE
from airflow_provider_chs3.core.sql.quoting import literal
from airflow_provider_chs3.core.steps.operations import Steps
from airflow_provider_chs3.core.target.node_facts import TargetContext
from airflow_provider_chs3.core.target.topology import OBJECTS_TABLE

#: If you change these, raise `RECORDS_SCHEMA`.
OBJECT_COLUMNS = {
    "loaded_at": "DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'by the clock of this node'",
    "target_database": "LowCardinality(String)",
    "target_table": "LowCardinality(String)",
    "target_uuid": "LowCardinality(String)",
    "period": "LowCardinality(String)",
    "partition_id": "LowCardinality(String)",
    "base": "LowCardinality(String) COMMENT 'attempt that loaded the whole period; later ones add to it'",
    "attempt": "LowCardinality(String) COMMENT 'attempt that read the object; published if the ledger says so'",
    "path": "String COMMENT 'bucket/key'",
    "size_bytes": "UInt64",
    "etag": "String",
    "last_modified": "DateTime64(3, 'UTC')",
    "rows": "Nullable(UInt64) COMMENT 'where the file itself has it: Parquet'",
}


def objects_table(ledger: TableName) -> TableName:
    """Return the table of loaded objects beside a ledger."""
    return TableName(ledger.database, OBJECTS_TABLE)


def make_objects_table(context: TargetContext) -> Steps[None]:
    """Create the table on the nodes that lack it."""
    missing = [node for node, facts in context.nodes.items() if not facts.objects]
    key = "(target_database, target_table, period, base, attempt, path)"
    live, name = f"period = {literal(str(WHOLE_TABLE))}", objects_table(context.ledger)
    sql = create_records(name, OBJECT_COLUMNS, key, engine=context.own_engine, time="loaded_at", live=live)
    yield from make_records(context, missing, name, sql)
