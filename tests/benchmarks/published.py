"""A table that has many periods, and a ledger that has them all as published from objects that a server makes up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_provider_chs3.core.ledger.table import create_ledger
from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.trips import create_table_sql
from tests.benchmarks.made_up import MadeUp

TABLE = "planned"


def create_table(cluster: ClickHouseCluster, periods: Sequence[str]) -> None:
    """A table with a row of each period on each node, and an empty ledger."""
    for node in cluster.nodes:
        with node.client() as client:
            client.execute(create_table_sql(f"default.{TABLE}"))
            client.execute(create_ledger(TableName("default", "chs3_ledger")).text)
            client.execute(
                f"INSERT INTO {TABLE} (trip_id, pickup_at) SELECT 1, arrayJoin({_dates(periods)})",
                settings={"max_partitions_per_insert_block": 0},
            )


def publish(cluster: ClickHouseCluster, objects: MadeUp, bucket: str) -> None:
    """Record all periods as published from these objects, and from none else."""
    fingerprints = objects.fingerprints(bucket)
    values: dict[str, Any] = {
        "ids": [period.replace("-", "") for period in fingerprints],
        "prints": list(fingerprints.values()),
        "nodes": len(cluster.nodes),
        "bytes": objects.of_each,
    }
    for node in cluster.nodes:
        with node.client() as client:
            client.execute("TRUNCATE TABLE chs3_ledger")
            client.execute(
                "INSERT INTO chs3_ledger (sequence, event, target_database, target_table, target_uuid, period, "
                "partition_id, attempt, fingerprint, definition, source_bytes, nodes, rows, min_block, max_block, "
                "data_version, evidence) SELECT 1, 'published', database, table, "
                "(SELECT toString(uuid) FROM system.tables "
                f"WHERE database = 'default' AND name = '{TABLE}'), "
                "concat(substring(partition_id, 1, 4), '-', substring(partition_id, 5)), partition_id, 'bench', "
                "transform(partition_id, %(ids)s, %(prints)s, ''), '', %(bytes)s, %(nodes)s, rows, min_block_number, "
                "max_block_number, data_version, concat('{\"rows\":', toString(rows), ',\"parts\":null}') "
                "FROM system.parts WHERE active AND database = 'default' "
                f"AND table = '{TABLE}'",
                values,
            )


def _dates(periods: Sequence[str]) -> str:
    return "[" + ", ".join(f"toDateTime('{period}-05 00:00:00', 'UTC')" for period in periods) + "]"
