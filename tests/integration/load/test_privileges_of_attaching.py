"""Loads of new objects alone, and of periods together, by users with the documented privileges, or less."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.nodes import User
from tests.support.lake import Lake
from tests.support.narrow_user import TRAIT, documented, documented_also
from tests.support.several_periods import PERIODS, Periods

ATTACHING = "ALTER DELETE ON lake.chs3_*"
#: As documented, but for the name of the database.
LOADING = [each.replace("taxi.", "lake.") for each in (*documented("Loading"), *documented_also("only new objects"))]

AS_DOCUMENTED, WITHOUT = User("as_documented", "narrow"), User("without", "narrow")


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClickHouseCluster]:
    users = {AS_DOCUMENTED: [*LOADING, TRAIT], WITHOUT: [*(each for each in LOADING if each != ATTACHING), TRAIT]}
    with ClickHouseCluster.start(2, users=users, secret="cluster's own") as cluster:
        for node in cluster.nodes:
            with node.client() as client:
                client.execute("CREATE DATABASE lake")
        yield cluster


@pytest.fixture
def periods(
    cluster: ClickHouseCluster, chs3_s3: Any, chs3_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Periods]:
    """Four periods of one file, in a database of a fixed name, as the users' privileges name it."""
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", json.dumps(chs3_s3.airflow_connection()))
    lake = Lake(cluster, chs3_s3.client(), chs3_bucket, "lake", "trips")
    lake.on_every_node(
        "CREATE TABLE lake.trips (day Date, n UInt32) ENGINE MergeTree ORDER BY n PARTITION BY toYYYYMM(day)"
    )
    found = Periods(lake)
    for period in PERIODS:
        found.put(period, "a")
    yield found
    assert lake.left_behind() == []
    for name in ("trips", "chs3_ledger", "chs3_loads", "chs3_objects"):
        lake.on_every_node(f"DROP TABLE IF EXISTS lake.{name} SYNC")


def log_in(lake: Lake, user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = lake.cluster.airflow_connection() | {"login": user.login, "password": user.password}
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(connection))


def test_the_documented_privileges_are_enough_for_one_insert_and_for_new_objects_alone(
    periods: Periods, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(periods.lake, AS_DOCUMENTED, monkeypatch)
    load = periods.operator()
    load.execute({})
    assert len(load.inserts) == 1
    assert periods.found() == periods.expected()
    periods.put(PERIODS[0], "b")
    load = periods.operator()
    assert [each["loaded_objects"] for each in load.execute({})] == [1, 0, 0, 0]
    assert len(load.inserts) == 1
    assert periods.found() == periods.expected()


@pytest.mark.thorough
def test_without_alter_delete_on_staging_no_row_is_inserted_twice_and_the_log_has_the_grant(
    periods: Periods, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log_in(periods.lake, WITHOUT, monkeypatch)
    grants = " ".join(
        f"User 'without' lacks privileges on {node.host}:{node.tcp_port}: run GRANT ALTER DELETE ON `lake`.chs3_* TO "
        "`without` there."
        for node in periods.lake.cluster.nodes
    )
    load = periods.operator()
    load.execute({})
    assert len(load.inserts) == len(PERIODS)
    assert capsys.readouterr().out.count(f"Loading 4 periods one by one: {grants}") == 1
    assert periods.found() == periods.expected()
    periods.put(PERIODS[0], "b")
    load = periods.operator()
    assert [each["loaded_objects"] for each in load.execute({})] == [2, 0, 0, 0]
    assert len(load.inserts) == 1
    assert f"Loading all objects: {grants}" in capsys.readouterr().out
    assert periods.found() == periods.expected()
