"""Objects that are added to a published month are loaded alone, and the table holds what a whole load makes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.lake import MONTH, Lake


def csv(first: int, rows: int = 10) -> bytes:
    lines = (f"2026-10-{1 + number % 28:02} 10:00:00,{number}" for number in range(first, first + rows))
    return ("ts,n\n" + "\n".join(lines) + "\n").encode()


@pytest.fixture
def events(lake: Lake) -> Lake:
    lake.table = "events"
    lake.on_every_node(
        f"CREATE TABLE {lake.database}.events (ts DateTime('UTC'), n Int64) ENGINE = MergeTree "
        "PARTITION BY toYYYYMM(ts) ORDER BY ts"
    )
    return lake


def load(lake: Lake, **options: Any) -> dict[str, Any]:
    return lake.load(**{"key": "events/{YYYY-MM}/", "file_format": "CSVWithNames"} | options)


def numbers(lake: Lake) -> list[int]:
    found = lake.on_every_node(f"SELECT n FROM {lake.database}.{lake.table}")
    return sorted(number for rows in found for (number,) in rows)


def test_new_objects_are_loaded_alone(events: Lake, capfd: pytest.CaptureFixture[str]) -> None:
    for number in range(6):
        events.put(f"events/{MONTH}/{number}.csv", csv(number * 10))
    assert load(events)["rows"] == 60
    events.put(f"events/{MONTH}/late.csv", csv(60))
    result = load(events)
    assert "Only the 1 new objects are loaded" in capfd.readouterr().out
    assert (result["status"], result["rows"], result["objects"]) == ("published", 70, 7)
    assert (result["loaded_rows"], result["loaded_objects"]) == (10, 1)
    assert numbers(events) == list(range(70))
    assert load(events)["status"] == "unchanged"
    events.put(f"events/{MONTH}/later.csv", csv(70))
    assert load(events)["rows"] == 80
    assert numbers(events) == list(range(80))
