"""Loads whose inserts go on without a worker. With a scheduler and a triggerer: `tests/scheduler`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowTaskTimeout

from airflow_provider_chs3.client import detached_runner as detached
from airflow_provider_chs3.client.connection import client_name
from airflow_provider_chs3.exceptions import Chs3Error
from airflow_provider_chs3.testbed.trips import COLUMNS, Trips
from airflow_provider_chs3.triggers.merge_health import MergeHealthTrigger
from tests.support import deferring
from tests.support.deferring import Gate, gate
from tests.support.lake import PERIOD, Lake
from tests.support.slow import SLOW_SETTINGS
from tests.support.strikes import Strikes, strikes

__all__ = ["gate", "strikes"]

OTHER_TRIPS = Trips(seed=2, rows_per_period=3_000, files_per_period=6)
TRIPS = Trips(rows_per_period=3_000, files_per_period=6)
#: About 5 s on each of three nodes.
SLOW_LOAD: dict[str, Any] = {
    "select": {name: name for name in COLUMNS} | {"trip_id": "trip_id + sleepEachRow(0.005)"},
    "settings": SLOW_SETTINGS,
}
#: Minutes: it is ended.
ENDLESS_LOAD: dict[str, Any] = SLOW_LOAD | {"select": SLOW_LOAD["select"] | {"trip_id": "trip_id + sleepEachRow(0.2)"}}


@pytest.fixture(autouse=True)
def _without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    deferring.hurry(monkeypatch)


def inserts(lake: Lake) -> int:
    """How many inserts of loads were started, by the log of all nodes."""
    lake.on_every_node("SYSTEM FLUSH LOGS query_log")
    rows = lake.on_every_node(
        "SELECT uniqExact(query_id) FROM system.query_log WHERE is_initial_query AND query_kind = 'Insert' "
        f"AND type = 'QueryStart' AND position(query, 's3Cluster') > 0 AND position(query, '{lake.bucket}') > 0"
    )
    return sum(count for ((count,),) in rows)


@pytest.mark.thorough
def test_a_short_insert_ends_before_the_task_would_be_deferred_and_a_retry_has_published_it(
    trips_lake: Lake, monkeypatch: Any
) -> None:
    monkeypatch.setattr(detached, "_ATTACHED_SECONDS", 300)
    trips_lake.upload(TRIPS)
    result = deferring.run(trips_lake, {})
    assert result["status"] == "published"
    assert trips_lake.facts() == TRIPS.facts(PERIOD)
    trips_lake.on_every_node("SYSTEM FLUSH LOGS query_log")
    agents = f"SELECT DISTINCT http_user_agent FROM system.query_log WHERE query_id = '{result['query_ids'][0]}'"
    assert trips_lake.on_node(0, agents) == [(client_name(),)]
    again = deferring.run(trips_lake, {})
    assert (again["status"], again["reason"]) == ("published", "an earlier try of this task published it")
    assert deferring.run(trips_lake, {}, task_id="another")["status"] == "unchanged"


def test_an_insert_goes_on_without_its_worker_and_is_published_by_the_next(trips_lake: Lake, gate: Gate) -> None:
    trips_lake.upload(TRIPS)
    deferred = deferring.start(trips_lake, **gate.options)
    gate.open()
    result = deferred.resume()
    assert result["status"] == "published"
    assert result["insert_seconds"] > 0.4  # it was held for longer than the worker stayed
    assert result["seconds_by_step"]["insert"] >= result["insert_seconds"]
    assert result["seconds_by_step"]["plan"] > 0  # which the worker that is gone did
    assert result["peak_memory_bytes"] > 0
    assert trips_lake.facts() == TRIPS.facts(PERIOD)
    assert inserts(trips_lake) == 1


@pytest.mark.thorough
def test_a_retry_goes_on_with_the_insert_of_a_worker_that_died(trips_lake: Lake, gate: Gate) -> None:
    trips_lake.upload(TRIPS)
    first = deferring.start(trips_lake, **gate.options)
    second = deferring.start(trips_lake, **gate.options)
    gate.open()
    assert second.trigger.query_id == first.trigger.query_id
    assert second.resume()["status"] == "published"
    assert inserts(trips_lake) == 1


def test_a_durable_load_keeps_its_worker_and_a_retry_goes_on_with_the_insert_of_one_that_died(
    trips_lake: Lake, gate: Gate
) -> None:
    trips_lake.upload(TRIPS)
    durable = {"deferrable": False, "durable": True, "progress_interval_seconds": 0.1, **gate.options}
    with deferring.dying_as_it_waits():
        deferring.run(trips_lake, durable)
    gate.open()
    result = deferring.run(trips_lake, durable)
    assert result["status"] == "published"
    assert trips_lake.facts() == TRIPS.facts(PERIOD)
    assert inserts(trips_lake) == 1


@pytest.mark.thorough
@pytest.mark.three_nodes
def test_on_kill_of_the_trigger_ends_the_load(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    deferred = deferring.start(trips_lake, **SLOW_LOAD)
    asyncio.run(deferring.again(deferred.trigger).on_kill())
    assert trips_lake.left_behind() == []
    assert not any(trips_lake.rows_per_node())


@pytest.mark.thorough
def test_cancel_on_kill_false_lets_the_insert_go_on(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    deferred = deferring.start(trips_lake, cancel_on_kill=False, **SLOW_LOAD)
    asyncio.run(deferring.again(deferred.trigger).on_kill())
    assert deferred.resume()["status"] == "published"


@pytest.mark.thorough
def test_a_newer_load_takes_over_and_the_deferred_one_says_so(trips_lake: Lake, monkeypatch: Any) -> None:
    trips_lake.upload(TRIPS)
    older = deferring.start(trips_lake, **ENDLESS_LOAD)
    monkeypatch.setattr(detached, "_ATTACHED_SECONDS", 300)
    assert deferring.run(trips_lake, {}, task_id="other")["status"] == "published"
    with pytest.raises(AirflowFailException, match="started later and took over"):
        older.resume()
    assert trips_lake.facts() == TRIPS.facts(PERIOD)


@pytest.mark.thorough
def test_a_task_that_was_ended_from_outside_and_runs_again_begins_anew(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    first = deferring.start(trips_lake, **SLOW_LOAD)
    second = deferring.start(trips_lake, **SLOW_LOAD)  # it was cleared, and goes on with the insert
    asyncio.run(deferring.again(first.trigger).on_kill())  # which ends only now
    third = second.resume()
    assert third.trigger.query_id != first.trigger.query_id
    assert third.resume()["status"] == "published"


@pytest.mark.thorough
@pytest.mark.three_nodes
def test_a_try_that_finds_an_insert_which_is_just_being_ended_begins_anew(trips_lake: Lake, strikes: Strikes) -> None:
    trips_lake.upload(TRIPS)
    first = deferring.start(trips_lake, **SLOW_LOAD)

    def end() -> None:
        of_insert = f"WHERE initial_query_id = '{first.trigger.query_id}'"
        trips_lake.on_node(0, f"KILL QUERY {of_insert} SYNC")
        while trips_lake.on_every_node(f"SELECT count() FROM system.processes {of_insert}") != [[(0,)]] * 3:
            time.sleep(0.1)

    strikes.before("Insert", end)
    second = deferring.start(trips_lake, **SLOW_LOAD)
    assert second.trigger.query_id != first.trigger.query_id
    assert second.resume()["status"] == "published"


@pytest.mark.thorough
def test_an_insert_that_a_person_killed_while_the_task_was_deferred_fails_for_good(
    trips_lake: Lake, gate: Gate
) -> None:
    trips_lake.upload(TRIPS)
    deferred = deferring.start(trips_lake, **gate.options)
    trips_lake.on_node(0, f"KILL QUERY WHERE query_id = '{deferred.trigger.query_id}' ASYNC")
    gate.open()
    with pytest.raises(AirflowFailException, match=r"394.*Somebody ended the query"):
        deferred.resume()
    assert not any(trips_lake.rows_per_node())


@pytest.mark.thorough
def test_objects_that_came_meanwhile_stay_out(trips_lake: Lake) -> None:
    keys = trips_lake.upload(TRIPS)
    deferred = deferring.start(trips_lake, **SLOW_LOAD)
    time.sleep(1)  # times of objects are in whole seconds
    trips_lake.s3.copy_object(
        Bucket=trips_lake.bucket, Key=f"{keys[0]}.late.parquet", CopySource=f"{trips_lake.bucket}/{keys[0]}"
    )
    assert deferred.resume()["status"] == "published"
    assert trips_lake.facts() == TRIPS.facts(PERIOD)


@pytest.mark.thorough
def test_objects_that_changed_meanwhile_make_it_start_over(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    deferred = deferring.start(trips_lake, **SLOW_LOAD)
    trips_lake.upload(OTHER_TRIPS)
    again = deferred.resume()
    assert again.trigger.query_id != deferred.trigger.query_id
    assert again.resume()["status"] == "published"
    assert trips_lake.facts() == OTHER_TRIPS.facts(PERIOD)


@pytest.mark.thorough
def test_an_error_of_the_insert_is_that_of_the_load_whoever_finds_it(trips_lake: Lake, gate: Gate) -> None:
    trips_lake.upload(TRIPS)
    failing = SLOW_LOAD["select"] | {"trip_id": "trip_id + throwIf(trip_id % 1000 = 999)"}
    deferred = deferring.start(trips_lake, select=failing, **gate.options)
    gate.open()
    with pytest.raises((AirflowFailException, Chs3Error), match=r"trip_id' cannot be filled from row \d+ of .*throwIf"):
        deferred.resume()
    assert not any(trips_lake.rows_per_node())


@pytest.mark.thorough
@pytest.mark.parametrize("is_deferred", [False, True])
def test_an_error_of_the_insert_may_quote_bytes_that_are_no_text(
    trips_lake: Lake, gate: Gate, is_deferred: bool
) -> None:
    trips_lake.upload(TRIPS)
    failing = SLOW_LOAD["select"] | {"trip_id": "trip_id + throwIf(trip_id % 1000 = 999, unhex('35fffe'))"}
    options = {"select": failing, **gate.options}
    if not is_deferred:
        gate.open()
    go_on = (
        deferring.start(trips_lake, **options).resume if is_deferred else partial(deferring.run, trips_lake, options)
    )
    gate.open()
    with pytest.raises((AirflowFailException, Chs3Error), match=r"'trip_id' cannot be filled from row \d+ of .*5�"):
        go_on()
    assert not any(trips_lake.rows_per_node())


def test_after_its_execution_timeout_the_load_is_ended(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    # However slow the machine is: the time of a worker begins anew, and is not over before the task is deferred.
    hour = timedelta(hours=1)
    deferred = deferring.start(trips_lake, execution_timeout=hour, began_at=datetime.now(UTC) - hour, **ENDLESS_LOAD)
    with pytest.raises(AirflowTaskTimeout, match="execution_timeout"):
        deferred.resume()
    assert trips_lake.left_behind() == []


@pytest.mark.thorough
def test_keys_of_several_batches_are_inserted_one_after_the_other_each_by_itself(trips_lake: Lake) -> None:
    keys = trips_lake.upload(TRIPS)
    for key in keys[:3]:
        trips_lake.s3.copy_object(
            Bucket=trips_lake.bucket, Key=key.replace("-00", " {x} 00"), CopySource=f"{trips_lake.bucket}/{key}"
        )
        trips_lake.s3.delete_object(Bucket=trips_lake.bucket, Key=key)
    first = deferring.start(trips_lake, **SLOW_LOAD)
    second = first.resume()
    assert second.trigger.query_id.endswith("_insert2")
    result = second.resume()
    assert len(result["query_ids"]) == 2
    assert trips_lake.facts() == TRIPS.facts(PERIOD)


@pytest.mark.thorough
def test_a_worker_that_comes_back_finds_that_its_load_was_taken_over(
    trips_lake: Lake, strikes: Strikes, monkeypatch: Any
) -> None:
    """It had paused for long, so that its task was tried again."""
    # However slow the machine is: none of the two leaves its insert to a trigger.
    monkeypatch.setattr(detached, "_ATTACHED_SECONDS", 300)
    trips_lake.upload(TRIPS)
    strikes.before("Count what is staged", lambda: deferring.run(trips_lake, {}))
    with pytest.raises(AirflowFailException, match="took over"):
        deferring.run(trips_lake, {})
    assert trips_lake.facts() == TRIPS.facts(PERIOD)


#: Several parts on most nodes.
MANY_PARTS = {"max_block_size": 100, "min_insert_block_size_rows": 100, "max_insert_threads": 1}


@pytest.fixture
def no_merges(trips_lake: Lake) -> Iterator[None]:
    # That stops those of tables that are there. Staging has the target's settings, and one part is nothing to merge.
    trips_lake.on_every_node("SYSTEM STOP MERGES")
    table = f"{trips_lake.database}.{trips_lake.table}"
    trips_lake.on_every_node(f"ALTER TABLE {table} MODIFY SETTING max_parts_to_merge_at_once = 1")
    yield
    trips_lake.on_every_node("SYSTEM START MERGES")


@pytest.mark.thorough
@pytest.mark.usefixtures("no_merges")
def test_it_may_wait_for_merges_too(trips_lake: Lake, monkeypatch: Any) -> None:
    monkeypatch.setattr(detached, "_ATTACHED_SECONDS", 300)
    trips_lake.upload(TRIPS)
    health = {"spare_parts": 0, "settled_after_seconds": 5}
    options = {"wait_for_merges": True, "merge_health": health, "settings": MANY_PARTS}
    deferred = deferring.start(trips_lake, **options)
    assert isinstance(deferred.trigger, MergeHealthTrigger)
    result = deferred.resume()
    assert result["status"] == "published"
    assert result["merges"]["health"] == "settled_with_too_many_parts"


@pytest.mark.thorough
@pytest.mark.usefixtures("no_merges")
def test_a_worker_may_wait_for_merges(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    health = {"spare_parts": 0, "settled_after_seconds": 1}
    result = trips_lake.load(wait_for_merges=True, merge_health=health, settings=MANY_PARTS)
    assert result["merges"]["health"] == "settled_with_too_many_parts"


@pytest.mark.thorough
@pytest.mark.usefixtures("no_merges")
def test_merges_that_are_stuck_fail_the_task_and_the_period_stays_published(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    health = {"spare_parts": 0, "settled_after_seconds": 0, "on_settled_with_too_many_parts": "fail"}
    with pytest.raises(AirflowFailException, match="settled_with_too_many_parts"):
        trips_lake.load(wait_for_merges=True, merge_health=health, settings=MANY_PARTS)
    assert trips_lake.facts() == TRIPS.facts(PERIOD)
