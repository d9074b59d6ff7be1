"""Loads whose inserts go on without a worker. With a scheduler and a triggerer: `tests/scheduler`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.hooks import detached
from airflow_provider_chs3.testbed.trips import Trips
from tests.integration import deferring
from tests.integration.lake import MONTH, Lake
from tests.integration.slow import SLOW, SLOW_SETTINGS

TRIPS = Trips(rows_per_month=3_000, files_per_month=6)
#: About 5 s on each of three nodes.
SLOW_LOAD: dict[str, Any] = {
    "select": SLOW | {"trip_id": "trip_id + sleepEachRow(0.005)"},
    "settings": SLOW_SETTINGS,
}


@pytest.fixture(autouse=True)
def _without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    deferring.hurry(monkeypatch)
    monkeypatch.setattr(detached, "_ATTACHED_SECONDS", 0.5)


def inserts(lake: Lake) -> int:
    """How many inserts of loads were started, by the log of all nodes."""
    lake.on_every_node("SYSTEM FLUSH LOGS query_log")
    rows = lake.on_every_node(
        "SELECT uniqExact(query_id) FROM system.query_log WHERE is_initial_query AND query_kind = 'Insert' "
        f"AND type = 'QueryStart' AND position(query, '{lake.bucket}') > 0"
    )
    return sum(count for ((count,),) in rows)


def test_a_short_insert_ends_before_the_task_would_be_deferred(trips_lake: Lake, monkeypatch: Any) -> None:
    monkeypatch.setattr(detached, "_ATTACHED_SECONDS", 30)
    trips_lake.upload(TRIPS)
    result = deferring.run(trips_lake, {})
    assert result["status"] == "published"
    assert trips_lake.facts() == TRIPS.facts(MONTH)


def test_an_insert_goes_on_without_its_worker_and_is_published_by_the_next(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    result = deferring.start(trips_lake, **SLOW_LOAD).resume()
    assert result["status"] == "published"
    assert result["insert_seconds"] > 1
    assert result["peak_memory_bytes"] > 0
    assert trips_lake.rows_per_node() != [0, 0, 0]
    assert inserts(trips_lake) == 1


def test_a_retry_goes_on_with_the_insert_of_a_worker_that_died(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    first = deferring.start(trips_lake, **SLOW_LOAD)
    second = deferring.start(trips_lake, **SLOW_LOAD)
    assert second.trigger.query_id == first.trigger.query_id
    assert second.resume()["status"] == "published"
    assert inserts(trips_lake) == 1


def test_on_kill_of_the_trigger_ends_the_load(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    deferred = deferring.start(trips_lake, **SLOW_LOAD)
    asyncio.run(deferring.again(deferred.trigger).on_kill())
    assert trips_lake.left_behind() == []
    assert trips_lake.rows_per_node() == [0, 0, 0]


def test_cancel_on_kill_false_lets_the_insert_go_on(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    deferred = deferring.start(trips_lake, cancel_on_kill=False, **SLOW_LOAD)
    asyncio.run(deferring.again(deferred.trigger).on_kill())
    assert deferred.resume()["status"] == "published"


def test_a_newer_load_takes_over_and_the_deferred_one_says_so(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    older = deferring.start(trips_lake, **SLOW_LOAD)
    assert deferring.run(trips_lake, {}, task_id="other")["status"] == "published"
    with pytest.raises(AirflowFailException, match="started later and took over"):
        older.resume()
    assert trips_lake.facts() == TRIPS.facts(MONTH)


def test_objects_that_came_meanwhile_stay_out_and_objects_that_changed_make_it_start_over(trips_lake: Lake) -> None:
    keys = trips_lake.upload(TRIPS)
    deferred = deferring.start(trips_lake, **SLOW_LOAD)
    deferred.options = {}
    other = Trips(seed=2, rows_per_month=3_000, files_per_month=6)
    assert trips_lake.upload(other) == keys
    event = deferred.wait()
    deferred.options = SLOW_LOAD
    assert isinstance(event, dict)
    result = deferred.resume(event)
    assert isinstance(result, deferring.Deferred)
    assert result.resume()["status"] == "published"
    assert inserts(trips_lake) == 2
