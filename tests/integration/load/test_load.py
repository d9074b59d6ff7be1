"""The load of one period, on the straight path and when it is repeated."""

from __future__ import annotations

import json
import time

import pytest

from airflow_provider_chs3.testbed.trips import Trips, create_table_sql
from tests.support.lake import PERIOD, Lake, recorded_loads
from tests.support.narrow_user import narrow_connection

TRIPS = Trips(rows_per_period=1_200, files_per_period=6)


@pytest.mark.thorough
@pytest.mark.three_nodes
def test_every_node_gets_a_share(trips_lake: Lake) -> None:
    # Nodes take files by the hash of their names, so that few files may pass a node by.
    trips_lake.upload(Trips(rows_per_period=1_200, files_per_period=48))
    result = trips_lake.load()
    assert all(trips_lake.rows_per_node())
    assert list(result["rows_by_node"].values()) == trips_lake.rows_per_node()


@pytest.mark.thorough
@pytest.mark.three_nodes
def test_no_load_uses_a_query_id_of_another(trips_lake: Lake) -> None:
    query_ids = []
    for seed in (1, 2):
        trips_lake.upload(Trips(seed=seed, rows_per_period=600, files_per_period=3))
        query_ids += trips_lake.load()["query_ids"]
    assert len(set(query_ids)) == len(query_ids) == 2


def test_a_second_run_touches_nothing_but_one_of_another_definition_loads_again(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    trips_lake.load()
    parts = trips_lake.on_every_node(
        f"SELECT name, modification_time FROM system.parts WHERE table = '{trips_lake.table}'"
    )
    assert trips_lake.load()["status"] == "unchanged"
    again = trips_lake.on_every_node(
        f"SELECT name, modification_time FROM system.parts WHERE table = '{trips_lake.table}'"
    )
    assert again == parts
    assert trips_lake.load(null_as_default=True)["reason"] == "its definition changed since it was published"


@pytest.mark.three_nodes
@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("change", ["more", "fewer", "other"])
def test_every_row_is_loaded_with_its_content_and_changed_objects_replace_them(trips_lake: Lake, change: str) -> None:
    keys = trips_lake.upload(TRIPS)
    result = trips_lake.load()
    assert trips_lake.facts() == TRIPS.facts(PERIOD)
    assert (result["status"], result["objects"], result["rows"], result["period"]) == ("published", 6, 1_200, PERIOD)
    assert json.loads(json.dumps(result)) == result
    assert len(json.dumps(result)) < 4_000
    if change == "fewer":
        other = Trips(seed=2, rows_per_period=800, files_per_period=4)
        for key in keys:
            trips_lake.s3.delete_object(Bucket=trips_lake.bucket, Key=key)
    else:
        other = Trips(seed=2, rows_per_period=1_400, files_per_period=7 if change == "more" else 6)
    trips_lake.upload(other)
    assert trips_lake.load()["reason"] == "its objects changed since it was published"
    assert trips_lake.facts() == other.facts(PERIOD)


@pytest.mark.thorough
@pytest.mark.three_nodes
def test_a_node_without_objects_loses_its_rows_of_the_last_version(trips_lake: Lake) -> None:
    keys = trips_lake.upload(TRIPS)
    trips_lake.load()
    for key in keys:
        trips_lake.s3.delete_object(Bucket=trips_lake.bucket, Key=key)
    one_file = Trips(seed=2, rows_per_period=900, files_per_period=1)
    trips_lake.upload(one_file)
    trips_lake.load()
    assert sorted(trips_lake.rows_per_node()) == [0, 0, 900]


def test_other_periods_are_not_touched(trips_lake: Lake) -> None:
    for period in ("2026-09", PERIOD):
        trips_lake.upload(TRIPS, period)
    trips_lake.load(period=None, periods=["2026-09", PERIOD])
    more = Trips(seed=3, rows_per_period=1_250, files_per_period=6)
    trips_lake.upload(more)
    trips_lake.load()
    assert (trips_lake.facts("2026-09"), trips_lake.facts()) == (TRIPS.facts("2026-09"), more.facts(PERIOD))


@pytest.mark.three_nodes
@pytest.mark.thorough
def test_a_table_that_was_made_anew_on_one_node_is_loaded_again(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    trips_lake.load()
    trips_lake.on_node(1, f"DROP TABLE {trips_lake.database}.{trips_lake.table} SYNC")
    trips_lake.on_node(1, create_table_sql(f"{trips_lake.database}.{trips_lake.table}"))
    trips_lake.load()
    assert trips_lake.facts() == TRIPS.facts(PERIOD)


@pytest.mark.thorough
def test_a_sorting_key_that_descends_can_be_staged(lake: Lake) -> None:
    name = f"{lake.database}.{lake.table}"
    create = create_table_sql(name, order_by="(zone, pickup_at DESC)")
    lake.on_every_node(f"{create} SETTINGS allow_experimental_reverse_key = 1")
    lake.upload(TRIPS)
    lake.load()
    assert lake.facts() == TRIPS.facts(PERIOD)


def test_one_server_without_a_cluster_is_loaded(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = narrow_connection(lake.cluster)
    del connection["extra"]["cluster"]
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(connection))
    lake.on_node(0, create_table_sql(f"{lake.database}.{lake.table}"))
    lake.upload(TRIPS)
    assert lake.load(cluster=None)["rows_by_node"] == {"the server": 1_200}
    assert lake.on_node(0, f"SELECT count() FROM {lake.database}.{lake.table}") == [(1_200,)]


@pytest.mark.thorough
def test_a_table_may_be_named_with_its_database(trips_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = narrow_connection(trips_lake.cluster) | {"schema": "default"}
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(connection))
    trips_lake.upload(TRIPS)
    named = f"{trips_lake.database}.{trips_lake.table}"
    assert trips_lake.load(table=named, database=None)["target"] == named
    assert trips_lake.facts() == TRIPS.facts(PERIOD)


@pytest.mark.thorough
@pytest.mark.three_nodes
def test_staging_and_ledger_can_be_in_a_database_of_their_own(trips_lake: Lake) -> None:
    staging = f"{trips_lake.database}_staging"
    trips_lake.on_every_node(f"CREATE DATABASE {staging}")
    trips_lake.upload(TRIPS)
    try:
        trips_lake.load(staging_database=staging)
        tables = trips_lake.on_every_node(
            f"SELECT database, name FROM system.tables WHERE database LIKE '{trips_lake.database}%'"
        )
    finally:
        trips_lake.on_every_node(f"DROP DATABASE {staging} SYNC")
    assert [sorted(rows) for rows in tables] == [
        [(trips_lake.database, "trips"), *((staging, f"chs3_{name}") for name in names)]
        for names in (["ledger", "loads", "objects"], ["ledger", "objects"], ["ledger", "objects"])
    ]
    assert trips_lake.facts() == TRIPS.facts(PERIOD)


def test_the_ledger_keeps_what_a_load_did_with_the_reasons_for_its_settings(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    result = trips_lake.load()
    (recorded,) = recorded_loads(trips_lake)
    not_recorded = {"status", "target", "has_no_objects", "of_periods"}
    assert recorded.keys() >= result.keys() - not_recorded
    assert {name: recorded[name] for name in result.keys() - not_recorded} == {
        name: value for name, value in result.items() if name not in not_recorded
    }
    assert "cores" in recorded["reasons"]["max_insert_threads"]


@pytest.mark.thorough
@pytest.mark.three_nodes
def test_settings_of_the_user_reach_every_node(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    result = trips_lake.load(settings={"min_insert_block_size_bytes": 1_048_577})
    trips_lake.on_every_node("SYSTEM FLUSH LOGS")
    sent = trips_lake.on_every_node(
        "SELECT Settings['min_insert_block_size_bytes'], Settings['insert_deduplicate'] FROM system.query_log "
        f"WHERE initial_query_id = '{result['query_ids'][0]}' AND type = 'QueryFinish' AND query_kind = 'Insert'"
    )
    assert {row for rows in sent for row in rows} == {("1048577", "0")}
    assert all(sent)


@pytest.mark.thorough
def test_seconds_by_step_add_up_to_the_load(trips_lake: Lake) -> None:
    trips_lake.upload(Trips(rows_per_period=6, files_per_period=1))
    # The first load of a process imports a driver and boto3.
    trips_lake.load()
    trips_lake.upload(TRIPS)
    started = time.monotonic()
    result = trips_lake.load()
    seconds = time.monotonic() - started
    # A load that lists in the moment in which another ends starts over.
    steps = [each for each in result["seconds_by_step"] if each != "start_over"]
    assert steps == ["list", "inspect", "plan", "stage", "insert", "verify", "publish"]
    assert result["insert_seconds"] <= result["seconds_by_step"]["insert"] <= sum(result["seconds_by_step"].values())
    assert sum(result["seconds_by_step"].values()) < seconds
    assert list(trips_lake.load()["seconds_by_step"]) == ["list", "inspect"]
