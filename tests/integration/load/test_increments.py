"""Objects that are added to a published period are loaded alone, and the table holds what a whole load makes."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.support import deferring
from tests.support.added_files import ARGUMENTS, alter, create, events, load, numbers, publish_first, put
from tests.support.lake import PERIOD, Lake
from tests.support.ledger_tasks import adopt
from tests.support.slow import SLOW_SETTINGS
from tests.support.strikes import Strikes, strikes

__all__ = ["events", "strikes"]


def test_new_objects_are_loaded_alone_and_each_is_recorded_once_with_its_load(
    events: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    put(events, 6)
    result = load(events)
    assert "Loading only the new object," in capfd.readouterr().out
    assert (result["status"], result["rows"], result["objects"]) == ("published", 70, 7)
    assert (result["loaded_rows"], result["loaded_objects"]) == (10, 1)
    assert numbers(events) == list(range(70))
    found = events.on_node(
        0, f"SELECT path, attempt = '{result['attempt']}', uniqExact(base) OVER () FROM {events.database}.chs3_objects"
    )
    names = [(f"{events.bucket}/events/{PERIOD}/{number}.csv", int(number == 6), 1) for number in range(7)]
    assert sorted(found) == names
    assert load(events)["status"] == "unchanged"
    put(events, 7)
    assert load(events)["loaded_rows"] == 10
    assert numbers(events) == list(range(80))


def _overwrite(lake: Lake) -> None:
    put(lake, 2, rows=7)


def _delete(lake: Lake) -> None:
    lake.s3.delete_object(Bucket=lake.bucket, Key=f"events/{PERIOD}/2.csv")


def _lose_records(lake: Lake) -> None:
    lake.on_every_node(
        f"ALTER TABLE {lake.database}.chs3_objects DELETE WHERE path LIKE '%2.csv' SETTINGS mutations_sync = 1"
    )


def _other_columns(lake: Lake) -> None:
    put(lake, 6, columns="ts,n,other")


def _longer_ttl(lake: Lake) -> None:
    alter(lake, "MODIFY TTL ts + INTERVAL 30 YEAR")


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("change", "why", "expected"),
    [
        (
            _overwrite,
            r"since the period was published, 1 new, 1 overwritten \(.*2.csv\)",
            [*range(27), *range(30, 70)],
        ),
        (_delete, r"since the period was published, 1 new, 1 deleted \(.*2.csv\)", [*range(20), *range(30, 70)]),
        (_lose_records, "the record of the objects loaded before does not match", [*range(70)]),
        (_other_columns, "the new objects have other columns", [*range(70)]),
        (_longer_ttl, "engine, keys or TTL of the table changed", [*range(70)]),
    ],
    ids=lambda each: getattr(each, "__name__", None),
)
def test_otherwise_all_objects_are_loaded_and_the_log_says_why(
    events: Lake, capfd: pytest.CaptureFixture[str], change: Callable[[Lake], None], why: str, expected: list[int]
) -> None:
    put(events, 6)
    change(events)
    capfd.readouterr()
    assert load(events)["loaded_objects"] > 1
    assert re.search(f"Loading all objects: {why}", capfd.readouterr().out)
    assert numbers(events) == expected


@pytest.mark.thorough
def test_it_can_be_turned_off(events: Lake) -> None:
    put(events, 6)
    assert load(events, incremental=False)["loaded_objects"] == 7


@pytest.mark.thorough
def test_an_adopted_period_is_no_base(events: Lake) -> None:
    events.on_every_node(f"TRUNCATE TABLE {events.database}.chs3_ledger")
    adopt(events, key=ARGUMENTS["key"], definition={"file_format": "CSVWithNames"})
    put(events, 6)
    assert load(events)["loaded_objects"] == 7
    assert numbers(events) == list(range(70))


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["MergeTree", "SummingMergeTree"])
def test_an_increment_goes_on_without_its_worker(lake: Lake, monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    deferring.hurry(monkeypatch)
    slow = {"select": {"ts": "ts", "n": "toInt64(n) + sleepEachRow(0.03)"}, "settings": SLOW_SETTINGS}
    lake.table = "events"
    create(lake, engine)
    publish_first(lake, **slow)
    put(lake, 6, rows=100)
    result = deferring.start(lake, **ARGUMENTS, **slow).resume()
    assert (result["status"], result["loaded_objects"], result["loaded_rows"]) == ("published", 1, 100)
    assert numbers(lake) == list(range(160))


class TestEngines:
    @pytest.mark.thorough
    def test_the_newest_object_wins_where_order_decides(self, lake: Lake) -> None:
        lake.table = "events"
        create(lake, "ReplacingMergeTree")
        publish_first(lake)
        for name, day in (("new", 11), ("newer", 12)):
            lake.put(f"events/{PERIOD}/{name}.csv", f"ts,n\n{PERIOD}-{day} 00:00:00,5\n".encode())
            assert load(lake)["loaded_objects"] == 1
            days = lake.on_every_node(f"SELECT toDayOfMonth(ts) FROM {lake.database}.events FINAL WHERE n = 5")
            assert days == [[(day,)]]

    @pytest.mark.thorough
    def test_after_so_many_increments_the_period_is_loaded_whole(self, lake: Lake) -> None:
        lake.table = "events"
        create(lake, "SummingMergeTree")
        publish_first(lake)
        loaded = []
        for number in range(6, 10):
            put(lake, number)
            loaded.append(load(lake, max_increments=2)["loaded_objects"])
        assert loaded == [1, 1, 9, 1]

    @pytest.mark.thorough
    def test_collapsing_rows_are_loaded_whole(self, lake: Lake, capfd: pytest.CaptureFixture[str]) -> None:
        lake.table = "events"
        lake.on_every_node(
            f"CREATE TABLE {lake.database}.events (ts DateTime('UTC'), n Int64, s Int8 DEFAULT 1) "
            "ENGINE = CollapsingMergeTree(s) PARTITION BY toYYYYMM(ts) ORDER BY n"
        )
        publish_first(lake)
        put(lake, 6)
        assert load(lake)["loaded_objects"] == 7
        assert "CollapsingMergeTree merges rows, and merged rows do not combine" in capfd.readouterr().out


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("engine", ["MergeTree", "SummingMergeTree"])
@pytest.mark.parametrize(
    "step",
    [
        "Create staging",
        "Insert 1 object",
        "Attach the published rows",
        "Record the intent to publish",
        "Record 1 objects",
        "Publish",
        "Remove the replaced parts",
        "Record 2026-10 as published",
    ],
)
def test_after_a_worker_died_the_next_run_is_exact(lake: Lake, strikes: Strikes, engine: str, step: str) -> None:
    lake.table = "events"
    create(lake, engine)
    publish_first(lake)
    put(lake, 6)

    strikes.die("after", step, lambda: load(lake))
    load(lake)
    assert numbers(lake) == list(range(70))
    put(lake, 7)
    load(lake)
    assert numbers(lake) == list(range(80))
