"""A user from whom a row policy hides what a load decides by: nothing is written, and the policy is named."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.operators.prove import ProvePeriodsOperator
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.trips import Trips
from tests.support.lake import PERIOD, Lake, lake_on
from tests.support.narrow_user import WITH_NARROW_USER
from tests.support.row_policies import filtered, hide

#: Fixtures.
__all__ = ["filtered"]


def test_they_stop_a_load_before_it_writes(
    filtered: ClickHouseCluster, chs3_s3: Any, chs3_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lake_on(filtered, chs3_s3, chs3_bucket, monkeypatch) as lake:
        lake.on_every_node(
            f"CREATE TABLE {lake.database}.trips (at Date, n UInt8, v String) ENGINE = MergeTree "
            "PARTITION BY toYYYYMM(at) ORDER BY n"
        )
        lake.on_every_node(f"INSERT INTO {lake.database}.trips VALUES ('{PERIOD}-05', 1, 'of somebody')")
        lake.put(f"trips/{PERIOD}/a.jsonl", f'{{"at": "{PERIOD}-05", "n": 7, "v": "x"}}'.encode())
        with pytest.raises(AirflowFailException) as stopped:
            lake.load()
        where = f"on {filtered.nodes[0].host}:{filtered.nodes[0].tcp_port}: it may hide"
        assert f"A row policy filters system.columns, system.parts for the connection's user {where}" in str(
            stopped.value
        )
        assert tables_and_rows(lake) == ([("trips",)], [(1, "of somebody")])


def test_they_stop_a_proof(chs3_s3: Any, chs3_bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        ClickHouseCluster.start(1, **WITH_NARROW_USER) as cluster,
        lake_on(cluster, chs3_s3, chs3_bucket, monkeypatch) as lake,
    ):
        lake.create_table()
        lake.upload(Trips(rows_per_period=100))
        lake.load()
        prove = ProvePeriodsOperator(
            task_id="prove",
            bucket=chs3_bucket,
            key="trips/{YYYY-MM}/*.parquet",
            table="trips",
            database=lake.database,
            periods=[PERIOD],
            cluster=cluster.name,
        )
        assert [each["status"] for each in prove.execute({})] == ["equal"]
        hide(cluster, f"<{lake.database}><trips><filter>trip_id % 2</filter></trips></{lake.database}>")
        with pytest.raises(AirflowFailException, match=rf"A row policy filters {lake.database}\.trips"):
            prove.execute({})


def tables_and_rows(lake: Lake) -> tuple[list[Any], list[Any]]:
    tables = lake.on_node(0, f"SELECT name FROM system.tables WHERE database = '{lake.database}'")
    return tables, lake.on_node(0, f"SELECT n, v FROM {lake.database}.trips")
