"""Rows of overwritten and deleted objects are replaced alone, where a column holds the object of each row."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

from airflow_provider_chs3.core.load import increment_completion
from airflow_provider_chs3.core.load.staging_tables import IS_STAGING
from airflow_provider_chs3.testbed.trips import Trips
from tests.support import deferring
from tests.support.lake import PERIOD, Lake
from tests.support.replaced_objects import ARGUMENTS, create, delete, events, load, publish_first, published, put, rows
from tests.support.slow import SLOW_SETTINGS
from tests.support.strikes import Strikes, strikes

__all__ = ["events", "strikes"]


def test_overwritten_deleted_and_new_objects_at_once(events: Lake, capfd: pytest.CaptureFixture[str]) -> None:
    events.on_every_node(f"OPTIMIZE TABLE {events.database}.events FINAL")
    put(events, 3, first=1_000, rows=7)
    delete(events, 5)
    put(events, 12, first=120)
    result = load(events)
    log = capfd.readouterr().out
    assert re.search("Loading only 2 objects of .*, and removing the rows of 2 objects: .* 1 new, 1 overwritten", log)
    assert (result["loaded_objects"], result["loaded_rows"], result["rows"], result["objects"]) == (2, 17, 117, 12)
    expected = [*published(without=(3, 5)), *((120 + row, 12) for row in range(10))]
    assert rows(events) == [*expected, *((1_000 + row, 3) for row in range(7))]
    assert load(events)["status"] == "unchanged"


@pytest.mark.thorough
def test_one_of_five_is_deleted_alone_although_another_is_read_again(lake: Lake) -> None:
    create(lake, "MergeTree")
    for number in range(5):
        put(lake, number, first=10 * number)
    assert load(lake)["status"] == "published"
    delete(lake, 2)
    assert load(lake)["loaded_objects"] == 1
    assert rows(lake) == [(10 * file + row, file) for file in (0, 1, 3, 4) for row in range(10)]
    assert load(lake)["status"] == "unchanged"


@pytest.mark.thorough
def test_night_after_night(events: Lake) -> None:
    expected = {file: [(10 * file + row, file) for row in range(10)] for file in range(12)}
    for night in range(4):
        put(events, night, first=1_000 * night + 1_000)
        expected[night] = [(1_000 * night + 1_000 + row, night) for row in range(10)]
        if night % 2:
            put(events, 12 + night, first=100 * night + 200)
            expected[12 + night] = [(100 * night + 200 + row, 12 + night) for row in range(10)]
        assert load(events)["loaded_objects"] == 1 + night % 2
        assert rows(events) == sorted(row for each in expected.values() for row in each)
    put(events, 20, first=700)
    assert load(events)["loaded_objects"] == 1


@pytest.mark.thorough
def test_rows_of_kept_objects_are_recorded_as_their_files_told(trips_lake: Lake) -> None:
    period = Trips(rows_per_period=900, files_per_period=9)
    columns = ("trip_id", "vendor", "pickup_at", "fare")
    options = {"select": dict.fromkeys(columns, "") | {name: name for name in columns} | {"zone": "_path"}}
    period.upload(trips_lake.s3, PERIOD, bucket=trips_lake.bucket, prefix=f"trips/{PERIOD}/")
    trips_lake.load(**options, object_column="zone")
    ((name, body), *_) = Trips(seed=2, rows_per_period=40, files_per_period=1).files(PERIOD)
    trips_lake.put(f"trips/{PERIOD}/{name}", body)
    result = trips_lake.load(**options, object_column="zone")
    assert (result["loaded_objects"], result["rows"]) == (1, 840)
    base = f"{trips_lake.database}.chs3_objects WHERE base = '{result['attempt']}'"
    assert trips_lake.on_node(0, f"SELECT sum(rows), count(rows), uniqExact(path) FROM {base}") == [(840, 9, 9)]


def _too_many(lake: Lake) -> None:
    for number in range(4):
        put(lake, number, first=2_000 + 10 * number)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("engine", "change", "why"),
    [
        ("MergeTree", _too_many, "they held more than a quarter of its bytes"),
        (
            "ReplacingMergeTree",
            lambda lake: put(lake, 3, first=1_000),
            "rows of other objects may depend on those removed",
        ),
    ],
)
def test_otherwise_all_objects_are_loaded_and_the_log_says_why(
    lake: Lake, capfd: pytest.CaptureFixture[str], engine: str, change: Callable[[Lake], None], why: str
) -> None:
    create(lake, engine)
    publish_first(lake)
    change(lake)
    assert load(lake)["loaded_objects"] == 12
    assert why in capfd.readouterr().out


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("select", [{"ts": "ts", "n": "n"}, {"ts": "ts", "source": "_file"}])
def test_a_column_that_does_not_hold_the_object_is_refused(lake: Lake, select: dict[str, str]) -> None:
    create(lake, "MergeTree")
    with pytest.raises(AirflowFailException, match=r"object_column'\]='source'.*select=\{'source': '_path', …\}"):
        load(lake, select=select)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("column_type", ["FixedString(40)", "Nullable(String)", "UInt64", "Enum8('a' = 1)"])
def test_a_column_that_cannot_hold_every_path_is_refused_before_anything_is_written(
    lake: Lake, column_type: str
) -> None:
    create(lake, "MergeTree")
    lake.on_every_node(f"ALTER TABLE {lake.database}.events MODIFY COLUMN source {column_type}")
    put(lake, 0, first=0)
    refused = re.escape(f"object_column']='source' is {column_type} in {lake.database}.events")
    with pytest.raises(AirflowFailException, match=refused):
        load(lake)
    assert lake.on_node(0, f"SHOW TABLES FROM {lake.database}") == [("events",)]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("meddle", "why"),
    [
        ("ALTER TABLE {} DELETE WHERE n = 50 SETTINGS mutations_sync = 1", "rows instead of exactly the"),
        ("SYSTEM STOP MERGES {}", "made no progress for 1 s: merges are stopped"),
    ],
    ids=["rows lost in staging", "merges stopped in staging"],
)
def test_what_is_not_exact_or_does_not_end_is_loaded_whole(
    events: Lake,
    strikes: Strikes,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    meddle: str,
    why: str,
) -> None:
    monkeypatch.setattr(increment_completion, "_LONGEST_STANDSTILL_SECONDS", 1)
    put(events, 3, first=1_000)

    def strike() -> None:
        named = f"SELECT name FROM system.tables WHERE database = '{events.database}' AND {IS_STAGING}"
        for node in range(len(events.cluster.nodes)):
            for (name,) in events.on_node(node, named):
                events.on_node(node, meddle.format(f"{events.database}.{name}"))

    strikes.before("Remove the rows of overwritten", strike)
    assert load(events)["loaded_objects"] == 12
    assert why in capfd.readouterr().out
    assert rows(events) == [*published(without=(3,)), *((1_000 + row, 3) for row in range(10))]


@pytest.mark.thorough
def test_a_load_whose_staging_is_dropped_amid_its_delete_ends(events: Lake, strikes: Strikes) -> None:
    put(events, 3, first=1_000)

    def drop() -> None:
        for name in events.staging_tables():
            events.on_every_node(f"DROP TABLE {events.database}.{name} SYNC")

    strikes.after("Remove the rows of overwritten", drop)
    with pytest.raises(AirflowException, match="somebody ended this one: it stopped and published nothing more"):
        load(events)
    assert strikes.steps.count("Wait for the DELETE in staging") == 0
    assert load(events)["loaded_objects"] == 1


@pytest.mark.thorough
def test_it_goes_on_without_its_worker(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    deferring.hurry(monkeypatch)
    select = {**ARGUMENTS["select"], "n": "toInt64(n) + sleepEachRow(0.01)"}
    options = {**ARGUMENTS, "select": select, "settings": SLOW_SETTINGS}
    create(lake, "MergeTree")
    publish_first(lake, **options)
    put(lake, 3, first=1_000, rows=200)
    delete(lake, 5)
    put(lake, 12, first=2_000)
    result = deferring.start(lake, **options, max_shrink_fraction=1).resume()
    assert (result["status"], result["loaded_objects"], result["loaded_rows"]) == ("published", 2, 210)
    expected = [*published(without=(3, 5)), *((1_000 + row, 3) for row in range(200))]
    assert rows(lake) == [*expected, *((2_000 + row, 12) for row in range(10))]


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    "step",
    [
        "Create staging",
        "Attach the published rows",
        "Remove the rows of overwritten",
        "Look at the DELETE in staging",
        "Count the rows that are left",
        "Insert 2 objects",
        "Count the staged rows of each object",
        "Record the intent to publish",
        "Record 12 objects",
        "Publish",
        "Remove the replaced parts",
        "Record 2026-10 as published",
    ],
)
def test_after_a_worker_died_the_next_run_is_exact(events: Lake, strikes: Strikes, step: str) -> None:
    put(events, 3, first=1_000, rows=7)
    delete(events, 5)
    put(events, 12, first=120)

    strikes.die("after", step, lambda: load(events))
    load(events)
    first = [*published(without=(3, 5)), *((120 + row, 12) for row in range(10))]
    assert rows(events) == [*first, *((1_000 + row, 3) for row in range(7))]
    put(events, 7, first=3_000)
    assert load(events)["loaded_objects"] == 1
    kept = [row for row in first if row[1] != 7]
    assert rows(events) == [*kept, *((1_000 + row, 3) for row in range(7)), *((3_000 + row, 7) for row in range(10))]
