"""Partition keys of other time zones and types: the month in the table is the key's month."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.integration.lake import MONTH, Lake
from tests.integration.refusal import refused

#: What `MONTH` begins and ends with in New York, and the seconds before and after it, in UTC.
NEW_YORK = {
    1: "2026-10-01 03:59:59",
    2: "2026-10-01 04:00:00",
    3: "2026-11-01 03:59:59",
    4: "2026-11-01 04:00:00",
}
IN_NEW_YORK = [
    ("DateTime('UTC')", "toYYYYMM(at, 'America/New_York')"),
    ("DateTime64(3, 'Asia/Tokyo')", "toYYYYMM(at, 'America/New_York')"),
    ("DateTime('UTC')", "toYYYYMM(toTimeZone(at, 'America/New_York'))"),
    ("DateTime('UTC')", "toStartOfMonth(at, 'America/New_York')"),
    ("Nullable(DateTime('UTC'))", "toStartOfMonth(at, 'America/New_York')"),
    ("DateTime('UTC')", "date_trunc('month', at, 'America/New_York')"),
    ("DateTime('UTC')", "(toYear(at, 'America/New_York'), toMonth(at, 'America/New_York'))"),
    ("DateTime('UTC')", "tuple(toYYYYMM(at, 'America/New_York'))"),
    ("DateTime('UTC')", "tuple(toYear(at, 'America/New_York'), toMonth(at, 'America/New_York'))"),
    ("DateTime('UTC')", "formatDateTime(at, '%Y%m', 'America/New_York')"),
    ("DateTime('UTC')", "toYYYYMM(toTimeZone(toTimeZone(at, 'Asia/Tokyo'), 'America/New_York'))"),
    ("DateTime('America/New_York')", "toYYYYMM(at)"),
]


def create(lake: Lake, column_type: str, key: str, settings: str = "index_granularity = 8192") -> None:
    lake.on_every_node(
        f"CREATE TABLE {lake.database}.trips (id UInt32, at {column_type}) "
        f"ENGINE = MergeTree PARTITION BY {key} ORDER BY id SETTINGS {settings}, allow_nullable_key = 1"
    )


def put(lake: Lake, rows: dict[int, str]) -> None:
    """Objects of one row each, with instants in UTC."""
    for number, at in rows.items():
        lake.put(f"trips/{MONTH}/{number}.jsonl", f'{{"id": {number}, "at": {at}}}'.encode())


def in_utc(rows: dict[int, str], *wanted: int) -> dict[int, str]:
    return {number: f'"{rows[number].replace(" ", "T")}Z"' for number in wanted}


def ids(lake: Lake) -> list[tuple[int, datetime | None]]:
    rows = lake.on_every_node(f"SELECT id, toTimeZone(at, 'UTC') FROM {lake.database}.trips")
    return sorted(row for of_node in rows for row in of_node)


def numbers(lake: Lake) -> list[int]:
    rows = lake.on_every_node(f"SELECT id FROM {lake.database}.trips")
    return sorted(number for of_node in rows for (number,) in of_node)


def at(number: int) -> tuple[int, datetime]:
    return number, datetime.fromisoformat(NEW_YORK[number]).replace(tzinfo=UTC)


@pytest.mark.thorough(but=4)
@pytest.mark.parametrize(("column_type", "key"), IN_NEW_YORK)
def test_a_month_ends_where_the_time_zone_of_the_key_says(lake: Lake, column_type: str, key: str) -> None:
    create(lake, column_type, key)
    put(lake, in_utc(NEW_YORK, 2, 3))
    result = lake.load(settings={"date_time_input_format": "best_effort"})
    assert (result["status"], result["rows"], ids(lake)) == ("published", 2, [at(2), at(3)])
    assert lake.load(settings={"date_time_input_format": "best_effort"})["status"] == "unchanged"


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(("column_type", "key"), IN_NEW_YORK[:3])
def test_a_second_before_and_after_it_are_of_other_months(lake: Lake, column_type: str, key: str) -> None:
    create(lake, column_type, key)
    put(lake, in_utc(NEW_YORK, 1, 2, 3, 4))
    refused(lake, r"rows of other months .*202609: 1, 202611: 1\.", settings={"date_time_input_format": "best_effort"})
    lake.load(on_other_months="leave_out", settings={"date_time_input_format": "best_effort"})
    assert ids(lake) == [at(2), at(3)]


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("column_type", "key"),
    [
        ("Nullable(DateTime64(3, 'UTC'))", "toYYYYMM(at)"),
        ("Nullable(Date)", "toStartOfMonth(at)"),
        ("Nullable(Date32)", "(toYear(at), toStartOfMonth(at))"),
        ("Nullable(DateTime('UTC'))", "date_trunc('month', at)"),
    ],
)
def test_rows_without_a_month_are_of_other_months(lake: Lake, column_type: str, key: str) -> None:
    create(lake, column_type, key)
    put(lake, {1: '"2026-10-01"', 2: '"2026-10-31"', 3: "null"})
    refused(lake, r"hold rows of other months \(partition: rows\): \(?NULL(,NULL\))?: 1\.")
    result = lake.load(on_other_months="leave_out")
    assert (result["rows"], numbers(lake)) == (2, [1, 2])


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("column_type", "key"),
    [
        ("LowCardinality(DateTime('UTC'))", "toYYYYMM(at)"),
        ("LowCardinality(Date)", "toStartOfMonth(at)"),
        ("LowCardinality(Nullable(Date))", "toStartOfMonth(at)"),
    ],
)
def test_a_key_of_low_cardinality_is_monthly_too(lake: Lake, column_type: str, key: str) -> None:
    for node in lake.cluster.nodes:
        with node.client(settings={"allow_suspicious_low_cardinality_types": 1}) as client:
            client.execute(
                f"CREATE TABLE {lake.database}.trips (id UInt32, at {column_type}) ENGINE = MergeTree "
                f"PARTITION BY {key} ORDER BY id SETTINGS allow_nullable_key = 1"
            )
    put(lake, {1: '"2026-10-01"', 2: '"2026-10-31"'})
    lake.load()
    assert (numbers(lake), lake.load()["status"]) == ([1, 2], "unchanged")


def test_a_key_that_is_monthly_in_no_time_zone_is_refused(lake: Lake) -> None:
    create(lake, "DateTime('UTC')", "toYYYYMMDD(at, 'America/New_York')")
    put(lake, in_utc(NEW_YORK, 2))
    refused(lake, "is not partitioned by month .* 2026-10 falls into 31 partitions")
