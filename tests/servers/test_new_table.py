"""Tables that loads create, and columns that they add, on two shards of two replicas."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.support.lake import PERIOD, Lake
from tests.support.refusal import parquet
from tests.support.replicas import TRIPS


@pytest.mark.thorough
def test_replicas_get_one_table_with_one_path_for_each_shard(lake: Lake) -> None:
    if lake.cluster.database_engine:
        pytest.skip("such a database drops a table on all of its servers")
    lake.on_every_node(f"DROP TABLE {lake.database}.trips SYNC")
    assert lake.load(create_table="if_missing")["status"] == "published"
    assert lake.facts() == TRIPS.facts(PERIOD)
    where = f"database = '{lake.database}' AND table = 'trips'"
    found = lake.on_every_node(f"SELECT zookeeper_path, total_replicas FROM system.replicas WHERE {where}")
    at = f"/clickhouse/tables/{{}}/{lake.database}/trips"
    assert found == [[(at.format(shard), 2)] for shard in ("01", "01", "02", "02")]
    assert lake.load(create_table="if_missing")["status"] == "unchanged"


@pytest.mark.thorough
def test_one_replica_of_each_shard_adds_a_column_for_all(lake: Lake) -> None:
    for key in [each["Key"] for each in lake.s3.list_objects_v2(Bucket=lake.bucket)["Contents"]]:
        lake.s3.delete_object(Bucket=lake.bucket, Key=key)
    colored = TRIPS.table(PERIOD)
    colored = colored.append_column("color", pa.array([f"c{n}" for n in range(len(colored))]))
    lake.put(f"trips/{PERIOD}/a.parquet", parquet(colored))
    assert lake.load(on_new_columns="add")["status"] == "published"
    source = f"cluster('{lake.cluster.name}', {lake.database}, trips)"
    rows = lake.on_node(3, f"SELECT trip_id, color FROM {source} ORDER BY trip_id")
    expected = zip(colored["trip_id"].to_pylist(), colored["color"].to_pylist(), strict=True)
    assert rows == sorted(expected)
