"""Inserts of several periods that go on without a worker."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.client import detached_runner as detached
from airflow_provider_chs3.testbed.trips import COLUMNS, Trips
from tests.support import deferring
from tests.support.deferring import Gate, gate
from tests.support.lake import Lake
from tests.support.slow import SLOW_SETTINGS

__all__ = ["gate"]

FIRST, SECOND, THIRD = PERIODS = ("2026-08", "2026-09", "2026-10")
TRIPS = Trips(rows_per_period=1_200, files_per_period=3)
OTHER_TRIPS = Trips(seed=2, rows_per_period=1_200, files_per_period=3)
SELECT = {name: name for name in COLUMNS}
#: Some seconds on each of three nodes.
SLOW_LOAD: dict[str, Any] = {
    "select": SELECT | {"trip_id": "trip_id + sleepEachRow(0.004)"},
    "settings": SLOW_SETTINGS,
}
TOGETHER: dict[str, Any] = {"period": None, "periods": list(PERIODS)}


@pytest.fixture(autouse=True)
def _without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    deferring.hurry(monkeypatch)


@pytest.fixture
def lake(trips_lake: Lake) -> Lake:
    for period in PERIODS:
        trips_lake.upload(TRIPS, period)
    return trips_lake


def start(lake: Lake, **options: Any) -> deferring.Deferred:
    return deferring.start(lake, **TOGETHER | options)


def finish(result: Any) -> dict[str, str]:
    while isinstance(result, deferring.Deferred):
        result = result.resume()
    return {each["period"]: each["status"] for each in result}


def query_ids(lake: Lake) -> set[str]:
    """Those of the inserts of loads, by the log of all nodes."""
    lake.on_every_node("SYSTEM FLUSH LOGS query_log")
    rows = lake.on_every_node(
        "SELECT DISTINCT query_id FROM system.query_log WHERE is_initial_query AND query_kind = 'Insert' "
        f"AND type = 'QueryStart' AND position(query, 's3Cluster') > 0 AND position(query, '{lake.bucket}') > 0"
    )
    return {query_id for of_node in rows for (query_id,) in of_node}


def assert_holds(lake: Lake, trips: Trips = TRIPS, **others: Trips) -> None:
    for period in PERIODS:
        assert lake.facts(period) == others.get(period, trips).facts(period), period
    assert lake.left_behind() == []


def test_an_insert_of_several_goes_on_without_its_worker_and_is_published_by_the_next(lake: Lake, gate: Gate) -> None:
    deferred = start(lake, **gate.options)
    gate.open()
    assert finish(deferred.resume()) == dict.fromkeys(PERIODS, "published")
    assert query_ids(lake) == {deferred.trigger.query_id}
    assert_holds(lake)


@pytest.mark.thorough
def test_a_retry_goes_on_with_the_insert_of_a_worker_that_died(lake: Lake, gate: Gate) -> None:
    first, second = start(lake, **gate.options), start(lake, **gate.options)
    gate.open()
    assert second.trigger.query_id == first.trigger.query_id
    assert finish(second) == dict.fromkeys(PERIODS, "published")
    assert query_ids(lake) == {first.trigger.query_id}
    assert_holds(lake)


@pytest.mark.thorough
def test_a_period_that_another_load_published_meanwhile_leaves_alone(
    lake: Lake, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    deferred = start(lake, **gate.options)
    # A late file, which the later load reads, and the one that was deferred has not listed.
    time.sleep(1.1)  # times of objects are in whole seconds
    key = f"trips/{SECOND}/late.parquet"
    (late, *_) = Trips(seed=3, rows_per_period=50, files_per_period=1).upload(
        lake.s3, SECOND, bucket=lake.bucket, prefix="elsewhere/"
    )
    lake.s3.copy_object(Bucket=lake.bucket, Key=key, CopySource=f"{lake.bucket}/{late}")
    with monkeypatch.context() as patient:
        patient.setattr(detached, "_ATTACHED_SECONDS", 300)
        assert deferring.run(lake, {"period": SECOND, **gate.options}, task_id="other")["status"] == "published"
    gate.open()
    found = lake.facts(SECOND)
    assert found.rows == 1_250
    assert finish(deferred.resume()) == {FIRST: "published", SECOND: "unchanged", THIRD: "published"}
    assert [lake.facts(period) for period in PERIODS] == [TRIPS.facts(FIRST), found, TRIPS.facts(THIRD)]
    assert len(query_ids(lake)) == 2
    assert lake.left_behind() == []


@pytest.mark.thorough
def test_objects_of_one_that_changed_meanwhile_are_loaded_as_they_are_now(lake: Lake, gate: Gate) -> None:
    deferred = start(lake, **gate.options)
    lake.upload(OTHER_TRIPS, THIRD)
    gate.open()
    assert finish(deferred.resume()) == dict.fromkeys(PERIODS, "published")
    assert_holds(lake, **{THIRD: OTHER_TRIPS})


@pytest.mark.thorough
def test_one_that_cannot_be_loaded_leaves_the_others_to_be_published(
    lake: Lake, gate: Gate, capfd: pytest.CaptureFixture[str]
) -> None:
    bad = SELECT | {"trip_id": f"trip_id + throwIf(_path LIKE '%/{SECOND}/%' AND trip_id % 400 = 399)"}
    deferred = start(lake, select=bad, **gate.options)
    gate.open()
    with pytest.raises(AirflowFailException, match=r"1 of 3 periods failed; the others are loaded") as error:
        finish(deferred)
    assert SECOND in str(error.value)
    assert "Looking for the value that does not fit: the period is read again" in "".join(capfd.readouterr())
    assert [lake.facts(period).rows for period in PERIODS] == [1_200, 0, 1_200]
    assert lake.left_behind() == []


@pytest.mark.thorough
def test_on_kill_of_the_trigger_ends_the_load(lake: Lake) -> None:
    deferred = start(lake, **SLOW_LOAD)
    asyncio.run(deferring.again(deferred.trigger).on_kill())
    assert lake.left_behind() == []
    assert not any(lake.rows_per_node())


@pytest.mark.thorough
def test_new_objects_of_several_are_loaded_alone(lake: Lake) -> None:
    finish(start(lake, **SLOW_LOAD))
    more = Trips(seed=3, rows_per_period=600, files_per_period=3)
    for period in PERIODS:
        for key in more.upload(lake.s3, period, bucket=lake.bucket, prefix=f"elsewhere/{period}/"):
            new = f"trips/{period}/new-{key.rpartition('/')[2]}"
            lake.s3.copy_object(Bucket=lake.bucket, Key=new, CopySource=f"{lake.bucket}/{key}")
    results = start(lake, **SLOW_LOAD).resume()
    assert [(result["status"], result["loaded_rows"], result["rows"]) for result in results] == [
        ("published", 600, 1_800)
    ] * 3
    assert [lake.facts(period).rows for period in PERIODS] == [1_800] * 3
    assert lake.left_behind() == []
