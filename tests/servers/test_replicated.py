"""Whole loads into replicated tables, on real servers of the oldest version: two shards of two replicas."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest

from airflow_provider_chs3.cli.main import main
from airflow_provider_chs3.exceptions import Chs3Error, PeriodsNotLoadedError
from airflow_provider_chs3.load import Load
from airflow_provider_chs3.operators.optimize import OptimizePartitionOperator
from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator
from airflow_provider_chs3.sensors.merge_health import ClickHouseMergeHealthSensor
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from tests.support import deferring
from tests.support.breaking import Breaker, broken_at_each_step
from tests.support.lake import PERIOD, Lake
from tests.support.narrow_user import narrow_connection
from tests.support.replicas import OTHER, TRIPS, replicated
from tests.support.strikes import Strikes, strikes

#: A fixture.
__all__ = ["strikes"]

FOLLOWER = 1


@pytest.mark.thorough
def test_each_shard_gets_a_share_and_each_replica_all_of_it_until_a_plan_finds_other_objects(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    result = lake.load()
    assert lake.facts() == TRIPS.facts(PERIOD)
    assert (result["rows"], result["status"]) == (12_000, "published")
    assert all(lake.rows_per_node())
    assert lake.load()["status"] == "unchanged"
    where = {"table": lake.table, "database": lake.database, "cluster": lake.cluster.name}
    load = Load(bucket=lake.bucket, key="trips/{YYYY-MM}/", **where)
    plan = PlanLoadsOperator(task_id="plan", load=load, periods=[PERIOD])
    assert plan.execute({}) == []
    for command in ("doctor", "ledger"):
        capsys.readouterr()
        code = main([command, *(f"--{name}={value}" for name, value in where.items())])
        out, err = capsys.readouterr()
        assert (code, err) == (0, ""), out
    lake.upload(OTHER)
    assert plan.execute({}) == [PERIOD]
    lake.load()
    assert lake.facts() == OTHER.facts(PERIOD)


@pytest.mark.thorough
def test_a_run_after_an_error_at_any_step_ends_in_the_objects_rows(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    number = 0
    for number, trips in broken_at_each_step(lake, Breaker(monkeypatch), (TRIPS, OTHER)):
        assert lake.facts() == trips.facts(PERIOD), f"broken off after step {number}"
    assert number >= 5


@pytest.mark.thorough
def test_a_replica_that_was_set_up_anew_is_as_published(lake: Lake) -> None:
    if lake.cluster.database_engine:
        pytest.skip("such a database drops a table on all of its servers")
    lake.load()
    create = lake.on_node(FOLLOWER, f"SHOW CREATE TABLE {lake.database}.{lake.table}")[0][0]
    for name in (lake.table, "chs3_ledger"):
        lake.on_node(FOLLOWER, f"DROP TABLE {lake.database}.{name} SYNC")
    lake.on_node(FOLLOWER, create)
    lake.on_node(FOLLOWER, f"SYSTEM SYNC REPLICA {lake.database}.{lake.table}")
    assert lake.load()["status"] == "unchanged"
    assert_rows_of_others_stop_a_load(lake)


@pytest.mark.thorough
def test_rows_that_others_inserted_meanwhile_stop_the_next_load(lake: Lake) -> None:
    lake.load()
    assert_rows_of_others_stop_a_load(lake)


def assert_rows_of_others_stop_a_load(lake: Lake) -> None:
    table = f"{lake.database}.{lake.table}"
    lake.on_node(FOLLOWER, f"INSERT INTO {table} SELECT * FROM {table} LIMIT 1")
    lake.on_node(0, f"SYSTEM SYNC REPLICA {table}")
    with pytest.raises(Exception, match="was changed since it was published"):
        lake.load()


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["Replacing", "Summing", "Aggregating"])
def test_a_target_that_merges_rows_away_is_loaded(lake: Lake, kind: str) -> None:
    lake.table = kind.lower()
    lake.create_table(engine=replicated(lake, kind), order_by="(trip_id)")
    lake.load()
    assert lake.facts() == TRIPS.facts(PERIOD)
    lake.on_node(FOLLOWER, f"TRUNCATE TABLE {lake.database}.{lake.table} SETTINGS alter_sync = 2")
    with pytest.raises(Exception, match="was changed since it was published"):
        lake.load()
    lake.load(on_target_changed="reload")
    assert lake.facts() == TRIPS.facts(PERIOD)


@pytest.mark.thorough
def test_a_load_goes_on_without_its_process(lake: Lake) -> None:
    result = deferring.run(lake, {})
    while isinstance(result, deferring.Deferred):
        result = result.resume()
    assert result["status"] == "published"
    assert lake.facts() == TRIPS.facts(PERIOD)


@pytest.mark.thorough
def test_periods_are_loaded_together_and_what_comes_later_is_added(lake: Lake) -> None:
    periods = ["2026-08", "2026-09", PERIOD]
    for period in periods[:2]:
        lake.upload(TRIPS, period)
    arguments = {"bucket": lake.bucket, "key": "trips/{YYYY-MM}/", "table": lake.table, "database": lake.database}
    load = S3ToClickHouseOperator(task_id="load", cluster=lake.cluster.name, periods=periods, **arguments)
    assert [each["status"] for each in load.execute({})] == ["published"] * 3
    assert len(load.inserts) == 1
    assert [lake.facts(period) for period in periods] == [TRIPS.facts(period) for period in periods]
    lake.upload(OTHER, "2026-09")
    lake.upload(OTHER)
    assert [each["status"] for each in load.execute({})] == ["unchanged", "published", "published"]
    assert [lake.facts(period) for period in periods[1:]] == [OTHER.facts(period) for period in periods[1:]]
    rows = lake.rows_per_node()
    assert rows[0::2] == rows[1::2]


@pytest.mark.thorough
def test_a_replica_that_does_not_follow_fails_all_periods_after_one_wait(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    periods = ["2026-08", "2026-09", PERIOD]
    for period in periods[:2]:
        lake.upload(TRIPS, period)
    connection = narrow_connection(lake.cluster)
    connection["extra"]["settings"] = {"receive_timeout": 5}
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(connection))
    arguments = {"bucket": lake.bucket, "key": "trips/{YYYY-MM}/", "table": lake.table, "database": lake.database}
    load = S3ToClickHouseOperator(task_id="load", cluster=lake.cluster.name, periods=periods, **arguments)
    table = f"{lake.database}.{lake.table}"
    lake.on_node(FOLLOWER, f"SYSTEM STOP REPLICATION QUEUES {table}")
    with pytest.raises(PeriodsNotLoadedError, match="have not caught up with each other in time") as failed:
        load.execute({})
    assert "SYSTEM START REPLICATION QUEUES" in str(failed.value)
    assert len(load.inserts) == 1
    lake.on_node(FOLLOWER, f"SYSTEM START REPLICATION QUEUES {table}")
    load.execute({})
    assert [lake.facts(period) for period in periods] == [TRIPS.facts(period) for period in periods]


@pytest.mark.thorough
def test_merges_are_waited_for_and_made(lake: Lake) -> None:
    names = {"table": lake.table, "database": lake.database, "cluster": lake.cluster.name}
    assert lake.load(wait_for_merges=True)["merges"]["health"] == "healthy"
    assert ClickHouseMergeHealthSensor(task_id="merges", periods=[PERIOD], **names).poke({})
    for number in range(2):
        sql = f"INSERT INTO {lake.database}.{lake.table} (trip_id, pickup_at) VALUES ({number}, '2025-06-05 00:00:00')"
        lake.on_node(0, sql)
    assert OptimizePartitionOperator(task_id="optimize", periods=["2025-06"], **names).execute({})["merged"] == 1


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("step", ["Publish", f"Record {PERIOD} as published"])
@pytest.mark.parametrize("node", [0, FOLLOWER])
def test_a_replica_killed_around_its_publishing_costs_a_reload(
    lake: Lake, replicated_cluster: ClickHouseCluster, strikes: Strikes, step: str, node: int
) -> None:
    lake.load()
    lake.upload(OTHER)
    strikes.after(step, lambda: replicated_cluster.kill(node))
    with suppress(Chs3Error):
        lake.load()
    strikes.reset()
    replicated_cluster.restart(node)
    lake.on_every_node(f"SYSTEM SYNC REPLICA {lake.database}.{lake.table}")
    assert lake.load()["status"] in ("published", "unchanged")
    assert lake.facts() == OTHER.facts(PERIOD)
    assert lake.load()["status"] == "unchanged"


@pytest.mark.thorough
@pytest.mark.parametrize("step", [f"Look up {PERIOD}", "Create staging"])
def test_a_load_that_slept_with_an_older_list_lists_again(lake: Lake, strikes: Strikes, step: str) -> None:
    lake.load()
    keys = lake.upload(OTHER)

    def publish_more() -> None:
        strikes.reset()
        source = {"Bucket": lake.bucket, "Key": keys[0]}
        lake.s3.copy_object(Bucket=lake.bucket, Key=f"trips/{PERIOD}/more.parquet", CopySource=source)
        assert lake.load()["status"] == "published"

    strikes.before(step, publish_more)
    result = lake.load()
    assert (result["status"], result["objects"]) == ("unchanged", len(keys) + 1)
    first, _, third, _ = lake.rows_per_node()
    assert first + third > OTHER.rows_per_period
