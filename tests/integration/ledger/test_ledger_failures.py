"""Loads that fail are recorded with their error, and what comes after makes that old."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.exceptions import ClickHouseServerError
from airflow_provider_chs3.testbed.trips import Trips
from tests.support.lake import Lake
from tests.support.refusal import parquet

TRIPS = Trips(rows_per_period=600, files_per_period=3)
#: Rows that no insert takes, with an error that a retry would meet again.
FAILING = {"pickup_at": "pickup_at", "trip_id": "trip_id + throwIf(trip_id >= 0, 'no such trip')"}
TASK = SimpleNamespace(
    dag_id="dag", run_id="run", task_id="load", map_index=-1, try_number=1, xcom_push=lambda **_: None
)


def records(lake: Lake, event: str = "failed") -> list[dict[str, Any]]:
    """Such records, on all nodes."""
    names = ("owner", "error", "error_type", "error_code", "error_hint", "is_terminal")
    sql = f"SELECT {', '.join(names)} FROM {lake.database}.chs3_loads WHERE event = '{event}' ORDER BY sequence"
    exists = [rows == [(1,)] for rows in lake.on_every_node(f"EXISTS {lake.database}.chs3_loads")]
    found = [lake.on_node(number, sql) for number, is_there in enumerate(exists) if is_there]
    return [dict(zip(names, row, strict=True)) for rows in found for row in rows]


def fail(lake: Lake) -> None:
    lake.upload(Trips(seed=2, rows_per_period=600, files_per_period=3))
    with pytest.raises((AirflowFailException, ClickHouseServerError)):
        lake.operator(select=FAILING).execute({"ti": TASK})


def test_an_insert_that_failed_is_recorded_once_with_code_and_task(trips_lake: Lake) -> None:
    fail(trips_lake)
    (failed,) = records(trips_lake)
    assert json.loads(failed["owner"]) == ["dag", "run", "load", -1]
    assert (failed["error_type"], failed["error_code"]) == ("SourceError", 395)
    assert "no such trip" in failed["error"]


@pytest.mark.thorough
def test_a_first_load_that_fails_before_it_stages_is_recorded_too(trips_lake: Lake) -> None:
    trips_lake.put("trips/2026-10/z.parquet", parquet(TRIPS.table("2026-10").drop_columns(["zone"])))
    with pytest.raises(AirflowFailException):
        trips_lake.load()
    (failed,) = records(trips_lake)
    assert "Column 'zone' is missing" in failed["error"]
    assert "\n" not in failed["error"]
    assert (failed["is_terminal"], failed["error_code"]) == (True, None)


def test_what_a_server_says_comes_with_the_way_out(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    trips_lake.on_every_node(f"ALTER TABLE {trips_lake.database}.trips ADD CONSTRAINT none CHECK trip_id < 0")
    with pytest.raises(AirflowFailException):
        trips_lake.load()
    (failed,) = records(trips_lake)
    assert failed["error_code"] == 469
    assert failed["error_hint"].startswith("A row breaks a constraint of the table")


@pytest.mark.thorough
def test_a_load_that_starts_over_and_publishes_has_not_failed(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    trips_lake.load()
    assert records(trips_lake) == []


@pytest.mark.thorough
def test_a_run_that_finds_the_period_as_published_says_so_after_a_failure_and_only_then(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    trips_lake.load()
    trips_lake.load()
    assert records(trips_lake, "unchanged") == []
    fail(trips_lake)
    trips_lake.upload(TRIPS)
    for _ in range(2):
        assert trips_lake.load()["status"] == "unchanged"
    assert len(records(trips_lake, "unchanged")) == 1
