"""Columns and row-wise expressions."""

from __future__ import annotations

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.testbed.trips import Trips
from tests.integration.valued import AT, PREFIX, create, loaded
from tests.support.lake import Lake
from tests.support.several_periods import PERIODS, Periods, periods

#: Fixtures.
__all__ = ["periods"]

TRIPS = Trips(rows_per_period=900, files_per_period=3)


def column(lake: Lake, expression: str) -> list[object]:
    rows = lake.on_node(
        0, f"SELECT DISTINCT {expression} AS value FROM cluster(chs3, {lake.database}, trips) ORDER BY 1"
    )
    return [value for (value,) in rows]


def test_expressions_make_the_columns(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    trips_lake.load(select={"pickup_at": "pickup_at", "zone": "upper('x') || 'y' -- done", "vendor": "_file"})
    assert column(trips_lake, "zone") == ["Xy"]
    assert column(trips_lake, "vendor") == [f"trips-2026-10-{number:03}.parquet" for number in range(3)]


def test_columns_that_are_not_named_get_their_defaults(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    trips_lake.load(columns=["pickup_at", "trip_id"])
    assert column(trips_lake, "zone") == [""]
    assert trips_lake.facts().trip_id_sum == TRIPS.facts("2026-10").trip_id_sum


@pytest.mark.thorough
def test_in_text_expressions_read_strings(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS, file_format="csv.gz")
    trips_lake.load(select={"pickup_at": "toDateTime(pickup_at, 'UTC')", "zone": "toTypeName(trip_id)"})
    assert column(trips_lake, "zone") == ["Nullable(String)"]


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("expression", "told"),
    [
        (
            "n * 2",
            r"rejects select: .* have at, n\. All of these are text in select: convert them, as in toInt64",
        ),
        ("n > 3", "an expression in `select`, where fields of CSV, TSV and JSON are text"),
        ("concat(n, 'x')", r"row 1 of .* has '5x' .* Change its expression in select=.* \(fields are text there\)"),
    ],
)
def test_errors_of_expressions_say_that_fields_of_csv_are_text(lake: Lake, expression: str, told: str) -> None:
    columns = "at DateTime('UTC'), n UInt64"
    by_month = "ENGINE = MergeTree PARTITION BY toYYYYMM(at) ORDER BY n"
    lake.on_every_node(f"CREATE TABLE {lake.database}.trips ({columns}) {by_month}")
    lake.put("trips/2026-10/a.csv", b"at,n\n2026-10-05 12:00:00,5\n")
    with pytest.raises(AirflowFailException, match=told):
        lake.load(select={"at": "at", "n": expression})


@pytest.mark.thorough
def test_a_key_of_json_may_have_values_of_any_types(lake: Lake) -> None:
    create(lake, "v String")
    large = ["18446744073709551615", "18446744073709551616", "-9223372036854775809"]
    texts = ["-1", *large, "1e400", "[-1]", *(f"[{each}]" for each in large), '{"a":1}', "true"]
    body = "".join(f'{{"ts": "{AT}", "v": {text}}}\n' for text in texts).encode()
    assert loaded(lake, "a.jsonl", body, "v") == sorted(texts)
    lake.put(f"{PREFIX}a.jsonl", body + body)
    lake.load(select={"ts": "toDateTime(ts, 'UTC')", "v": "v"})
    assert lake.on_node(0, f"SELECT v, count() FROM {lake.database}.trips GROUP BY v ORDER BY v") == [
        (text, 2) for text in sorted(texts)
    ]


@pytest.mark.thorough
def test_an_expression_sees_the_files_columns_and_not_the_other_expressions(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    select = {"pickup_at": "pickup_at", "passenger_count": "trip_id + 70000", "trip_id": "toUInt8(7)"}
    with pytest.raises(AirflowFailException, match="'passenger_count' is UInt8"):
        trips_lake.load(select=select)


@pytest.mark.thorough
def test_a_file_that_lacks_a_column_is_named_and_costs_no_other_period(periods: Periods) -> None:
    periods.file_format = "csv"
    for period in PERIODS[:2]:
        periods.put(period, "a")
    periods.lake.put(f"n/{PERIODS[0]}/z.csv", b"day\n2026-07-03\n")
    with pytest.raises(AirflowFailException, match=rf"Column 'n' is missing in .*n/{PERIODS[0]}/z\.csv. It has 'day'"):
        periods.load(*PERIODS[:2], key="n/{YYYY-MM}/*.csv", select={"day": "day", "n": "toUInt32(n) + 1"})
    found = periods.found()
    assert (list(found), len(found[PERIODS[1]])) == ([PERIODS[1]], 40)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("body", "what"), [("(SELECT count() FROM system.tables)", "a sub-query"), ("arrayJoin([n, n])", "arrayJoin")]
)
def test_functions_of_users_are_looked_into(trips_lake: Lake, body: str, what: str) -> None:
    trips_lake.upload(TRIPS)
    name = f"each_of_{trips_lake.database}"
    trips_lake.on_every_node(f"CREATE FUNCTION {name} AS n -> {body}")
    try:
        with pytest.raises(AirflowFailException, match=f"A function in select holds {what}"):
            trips_lake.load(select={"pickup_at": "pickup_at", "trip_id": f"{name}(trip_id)"})
    finally:
        trips_lake.on_every_node(f"DROP FUNCTION {name}")
    assert column(trips_lake, "trip_id") == []
