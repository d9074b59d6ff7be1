"""Many tables of many periods, all published: of one load that took place, whose records are those of all others
too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_provider_chs3.core.ledger.partition_state import CONTENT
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.trips import create_table_sql
from tests.benchmarks.lake import TABLE

#: Period by period into one part, as loads leave them once they have merged.
_SETTINGS = {"max_partitions_per_insert_block": 0}
_EVIDENCE = (
    f"""concat('{{"rows":', toString(parts.rows), ',"parts":[[', toString(min_block_number), ',', """
    f"""toString(max_block_number), ',', toString(level), ',', toString(parts.data_version), ',', """
    f"""toString(parts.rows), ',"', {CONTENT}, '"]],"rows_of_shards":{{"1":', toString(parts.rows), '}}}}')"""
)
_OF_CLAIMS = {
    "min_block": "if(event = 'published', min_block_number, 0)",
    "max_block": "if(event = 'published', max_block_number, 0)",
    "data_version": "if(event = 'published', parts.data_version, 0)",
    "rows": "if(records.rows > 0, parts.rows, 0)",
    "partitions": "[parts.partition_id]",
    "evidence": f"if(event = 'published', {_EVIDENCE}, evidence)",
}
#: Each period is loaded by a run of its table's DAG.
_OF_LOADS = {
    "owner": """concat('["load_', parts.table, '", "scheduled__', period_of_part, 'T03:00:00+00:00", "load", -1]')"""
}


def create_tables(cluster: ClickHouseCluster, periods: Sequence[str], *, tables: int) -> None:
    """Copy the records of the one load of the first node's ledger to all periods of so many tables, on each node."""
    dates = ", ".join(f"toDateTime('{period} 00:00:00', 'UTC')" for period in periods)
    for node in cluster.nodes:
        with node.client() as client:
            for number in range(tables):
                client.execute(create_table_sql(f"default.trips_{number:03}").replace("toYYYYMM(", "toYYYYMMDD("))
                client.execute(
                    f"INSERT INTO trips_{number:03} (trip_id, pickup_at) SELECT 1, arrayJoin([{dates}])",
                    settings=_SETTINGS,
                )
            records = {"chs3_ledger": _OF_CLAIMS} | ({"chs3_loads": _OF_LOADS} if node is cluster.nodes[0] else {})
            for name, own in records.items():
                client.execute(_records(name, own))
                one = f"DELETE WHERE target_table = '{TABLE}' SETTINGS mutations_sync = 1"
                client.execute(f"ALTER TABLE {name} {one}")
            client.execute(f"DROP TABLE {TABLE} SYNC")


def _records(name: str, own: Mapping[str, str]) -> str:
    values = {
        "target_table": "parts.table",
        "target_uuid": "uuids.uuid",
        "period": "period_of_part",
        "partition_id": "parts.partition_id",
        **own,
    }
    return f"""
INSERT INTO {name} SELECT records.* REPLACE ({", ".join(f"{value} AS {column}" for column, value in values.items())})
FROM (
    SELECT *, toString(toDate(partition_id)) AS period_of_part
    FROM system.parts WHERE active AND database = 'default' AND startsWith(table, 'trips_')) AS parts
CROSS JOIN (SELECT * FROM {name} WHERE target_table = '{TABLE}') AS records
JOIN (SELECT name, toString(uuid) AS uuid FROM system.tables WHERE database = 'default') AS uuids
    ON uuids.name = parts.table"""
