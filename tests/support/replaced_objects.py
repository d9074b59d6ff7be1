"""A table of events with a column that holds the object of each row, and a period of twelve files."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.added_files import csv
from tests.support.lake import PERIOD, Lake

FILES = 12
ARGUMENTS = {
    "key": "events/{YYYY-MM}/",
    "file_format": "CSVWithNames",
    "select": {"ts": "toDateTime(ts, 'UTC')", "n": "toInt64(n)", "source": "_path"},
    "object_column": "source",
}


@pytest.fixture
def events(lake: Lake) -> Lake:
    """A table of events, with a period of twelve files published."""
    create(lake, "MergeTree")
    publish_first(lake)
    return lake


def create(lake: Lake, engine: str) -> None:
    lake.table = "events"
    lake.on_every_node(
        f"CREATE TABLE {lake.database}.events (ts DateTime('UTC'), n Int64, source LowCardinality(String)) "
        f"ENGINE = {engine} PARTITION BY toYYYYMM(ts) ORDER BY n"
    )


def publish_first(lake: Lake, **options: Any) -> None:
    for number in range(FILES):
        put(lake, number, first=10 * number)
    assert load(lake, **options)["rows"] == 10 * FILES


def put(lake: Lake, number: int, *, first: int, rows: int = 10) -> None:
    lake.put(f"events/{PERIOD}/{number:02}.csv", csv(first, rows))


def delete(lake: Lake, number: int) -> None:
    lake.s3.delete_object(Bucket=lake.bucket, Key=f"events/{PERIOD}/{number:02}.csv")


def load(lake: Lake, **options: Any) -> dict[str, Any]:
    return lake.load(**ARGUMENTS | options)


def rows(lake: Lake) -> list[tuple[int, int]]:
    """The number of each row and that of its file."""
    file = "toUInt8(substring(source, -6, 2))"
    found = lake.on_node(0, f"SELECT n, {file} FROM cluster('{lake.cluster.name}', {lake.database}, events)")
    return sorted(found)


def published(*, without: tuple[int, ...] = ()) -> list[tuple[int, int]]:
    """The rows of the first files, without some."""
    return [(10 * file + row, file) for file in range(FILES) if file not in without for row in range(10)]
