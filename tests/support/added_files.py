"""A table of events, and a period of it to which files are added."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.lake import PERIOD, Lake

PARTITION = PERIOD.replace("-", "")
FIRST_FILES = 6


def csv(first: int, rows: int = 10, *, columns: str = "ts,n") -> bytes:
    extra = columns.count(",") - 1
    lines = (
        f"{PERIOD}-{1 + number % 28:02} 10:00:00,{number}" + f",{number}" * extra
        for number in range(first, first + rows)
    )
    return (f"{columns}\n" + "\n".join(lines) + "\n").encode()


@pytest.fixture
def events(lake: Lake) -> Lake:
    """A table of events, with a period of six files published."""
    lake.table = "events"
    create(lake, "MergeTree")
    publish_first(lake)
    return lake


def create(lake: Lake, engine: str) -> None:
    lake.on_every_node(
        f"CREATE TABLE {lake.database}.events (ts DateTime('UTC'), n Int64, s Int64 DEFAULT -1) ENGINE = {engine} "
        "PARTITION BY toYYYYMM(ts) ORDER BY n"
    )


def publish_first(lake: Lake, **options: Any) -> None:
    for number in range(FIRST_FILES):
        put(lake, number)
    assert load(lake, **options)["rows"] == FIRST_FILES * 10


def put(lake: Lake, number: int, **options: Any) -> None:
    lake.put(f"events/{PERIOD}/{number}.csv", csv(number * 10, **options))


ARGUMENTS = {"key": "events/{YYYY-MM}/", "file_format": "CSVWithNames"}


def load(lake: Lake, **options: Any) -> dict[str, Any]:
    return lake.load(**ARGUMENTS | options)


def numbers(lake: Lake) -> list[int]:
    found = lake.on_node(0, f"SELECT n FROM cluster('{lake.cluster.name}', {lake.database}, {lake.table})")
    return sorted(number for (number,) in found)


def alter(lake: Lake, what: str) -> None:
    lake.on_every_node(f"ALTER TABLE {lake.database}.{lake.table} {what}")
