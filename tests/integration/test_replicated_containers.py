"""Whole loads into replicated tables: two shards of two replicas with Keeper, in containers, where Docker is."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_chs3.exceptions import Chs3Error
from airflow_provider_chs3.testbed.nodes import Cluster
from airflow_provider_chs3.testbed.trips import Trips
from tests.integration.lake import MONTH, Lake
from tests.integration.test_interrupted import Breaker, Failed

TRIPS = Trips(rows_per_month=12_000, files_per_month=48)
OTHER = Trips(seed=2, rows_per_month=14_000, files_per_month=48)
FOLLOWER = 1


@pytest.fixture(scope="module")
def replicated_cluster() -> Iterator[Cluster]:
    pytest.importorskip("testcontainers", reason="pip install testcontainers")
    from airflow_provider_chs3.testbed.containers import DockerUnavailableError, clickhouse_containers

    try:
        with clickhouse_containers(4, replicas=2) as cluster:
            yield cluster
    except DockerUnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture
def lake(
    replicated_cluster: Cluster, chs3_s3: Any, chs3_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Lake]:
    """A lake with a replicated table; nothing of a load may outlive the test, and replicas are alike."""
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(replicated_cluster.airflow_connection()))
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", json.dumps(chs3_s3.airflow_connection()))
    lake = Lake(replicated_cluster, chs3_s3.client(), chs3_bucket, f"test_{uuid.uuid4().hex[:12]}")
    lake.on_every_node(f"CREATE DATABASE {lake.database}")
    lake.create_table(engine=replicated(lake))
    lake.upload(TRIPS)
    yield lake
    assert lake.left_behind() == []
    first, second, third, fourth = lake.rows_per_node()
    assert (first, third) == (second, fourth)
    lake.on_every_node(f"DROP DATABASE {lake.database} SYNC")


def replicated(lake: Lake, kind: str = "") -> str:
    return f"Replicated{kind}MergeTree('/tables/{lake.database}/{{shard}}/{lake.table}', '{{replica}}')"


def test_each_shard_gets_a_share_and_each_replica_all_of_it(lake: Lake) -> None:
    result = lake.load()
    assert lake.facts() == TRIPS.facts(MONTH)
    assert (result["rows"], result["status"]) == (12_000, "published")
    assert all(lake.rows_per_node())


def test_a_second_run_touches_nothing(lake: Lake) -> None:
    lake.load()
    assert lake.load()["status"] == "unchanged"


def test_changed_objects_replace_the_month(lake: Lake) -> None:
    lake.load()
    lake.upload(OTHER)
    lake.load()
    assert lake.facts() == OTHER.facts(MONTH)


def test_a_run_after_an_error_at_any_step_ends_in_the_objects_rows(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    breaker = Breaker(monkeypatch)
    for number in range(200):
        trips = (TRIPS, OTHER)[number % 2]
        lake.upload(trips)
        breaker.set(break_after=number)
        try:
            lake.load()
        except Failed:
            breaker.set()
            lake.load()
        else:
            break
        assert lake.facts() == trips.facts(MONTH), f"broken off after step {number}"
    assert 20 < number < 199


def test_a_replica_that_cannot_follow_fails_the_load_and_the_next_one_mends_it(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = f"{lake.database}.{lake.table}"
    connection = lake.cluster.airflow_connection()
    connection["extra"]["settings"] = {"receive_timeout": 5}
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(connection))
    lake.on_node(FOLLOWER, f"SYSTEM STOP REPLICATION QUEUES {table}")
    with pytest.raises(Chs3Error):
        lake.load()
    lake.on_node(FOLLOWER, f"SYSTEM START REPLICATION QUEUES {table}")
    lake.load()
    assert lake.facts() == TRIPS.facts(MONTH)


def test_a_replica_that_was_set_up_anew_is_as_published(lake: Lake) -> None:
    lake.load()
    create = lake.on_node(FOLLOWER, f"SHOW CREATE TABLE {lake.database}.{lake.table}")[0][0]
    for name in (lake.table, "chs3_ledger"):
        lake.on_node(FOLLOWER, f"DROP TABLE {lake.database}.{name} SYNC")
    lake.on_node(FOLLOWER, create)
    lake.on_node(FOLLOWER, f"SYSTEM SYNC REPLICA {lake.database}.{lake.table}")
    assert lake.load()["status"] == "unchanged"


def test_rows_that_others_inserted_meanwhile_stop_the_next_load(lake: Lake) -> None:
    lake.load()
    table = f"{lake.database}.{lake.table}"
    lake.on_node(FOLLOWER, f"INSERT INTO {table} SELECT * FROM {table} LIMIT 1")
    lake.on_node(0, f"SYSTEM SYNC REPLICA {table}")
    with pytest.raises(Exception, match="was changed since it was published"):
        lake.load()


@pytest.mark.parametrize("kind", ["Replacing", "Summing", "Aggregating"])
def test_a_target_that_merges_rows_away_is_loaded(lake: Lake, kind: str) -> None:
    lake.table = kind.lower()
    lake.create_table(engine=replicated(lake, kind), order_by="(trip_id)")
    lake.load()
    assert lake.facts() == TRIPS.facts(MONTH)
