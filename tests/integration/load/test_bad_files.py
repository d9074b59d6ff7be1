"""Files that do not fit get one clear error that names file and column, and the target is as it was."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from airflow_provider_chs3.testbed.trips import COLUMNS, Trips
from tests.support.lake import PERIOD, Lake
from tests.support.refusal import parquet, refused

TRIPS = Trips(rows_per_period=900, files_per_period=3)
PREFIX = f"trips/{PERIOD}/"


def test_files_without_any_of_the_tables_columns(trips_lake: Lake) -> None:
    trips_lake.on_every_node(
        f"CREATE TABLE {trips_lake.database}.defaults (at DateTime DEFAULT now()) "
        "ENGINE = MergeTree PARTITION BY toYYYYMM(at) ORDER BY at"
    )
    trips_lake.upload(TRIPS)
    refused(trips_lake, "none of the table's columns. They have trip_id, ", table="defaults")


@pytest.mark.thorough
def test_a_column_missing_in_one_file_of_an_expression(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    trips_lake.put(PREFIX + "z.parquet", parquet(TRIPS.table(PERIOD).drop_columns(["promo_code"])))
    refused(trips_lake, "promo_code", select={"pickup_at": "pickup_at", "zone": "coalesce(promo_code, 'none')"})


def test_a_column_missing_in_a_parquet_file(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    trips_lake.put(PREFIX + "z.parquet", parquet(TRIPS.table(PERIOD).drop_columns(["zone"])))
    refused(trips_lake, f"Column 'zone' is missing in {trips_lake.bucket}/{PREFIX}z.parquet")


def test_a_column_missing_in_a_csv_file(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS, file_format="csv.gz")
    trips_lake.put(PREFIX + "z.csv", b"trip_id,pickup_at\n1,2026-10-01 00:00:00\n")
    refused(trips_lake, f"Column 'vendor' is missing in {trips_lake.bucket}/{PREFIX}z.csv")


@pytest.mark.thorough
def test_a_text_where_other_files_have_a_number(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    table = TRIPS.table(PERIOD)
    text = table.set_column(0, "trip_id", pa.array(["x"] * len(table)))
    trips_lake.put(PREFIX + "z.parquet", parquet(text))
    refused(trips_lake, f"Column 'trip_id' is UInt64, but row 1 of {trips_lake.bucket}/{PREFIX}z.parquet has 'x'")


@pytest.mark.thorough
def test_a_number_that_does_not_fit(trips_lake: Lake) -> None:
    table = TRIPS.table(PERIOD)
    wide = table.set_column(4, "passenger_count", pa.array([1] * (len(table) - 1) + [70_000]))
    trips_lake.put(PREFIX + "wide.parquet", parquet(wide))
    refused(trips_lake, rf"Column 'passenger_count' is UInt8, but row 900 of .*{PREFIX}wide.parquet has '70000'")


@pytest.mark.thorough
def test_a_number_in_text_that_does_not_fit(trips_lake: Lake) -> None:
    line = dict.fromkeys(COLUMNS, "0") | {"pickup_at": "2026-10-01 00:00:00", "dropoff_at": "2026-10-01 00:00:00"}
    trips_lake.put(PREFIX + "a.jsonl", json.dumps(line | {"passenger_count": 256}).encode())
    refused(trips_lake, "Column 'passenger_count' is UInt8, but .*a.jsonl has '256'")


def test_a_null_that_the_column_cannot_hold_is_refused_or_the_default_if_the_user_says_so(trips_lake: Lake) -> None:
    trips_lake.on_every_node(f"ALTER TABLE {trips_lake.database}.trips MODIFY COLUMN zone String DEFAULT 'unknown'")
    table = TRIPS.table(PERIOD)
    empty = table.set_column(8, "zone", pa.array([None] * 5 + ["x"] * (len(table) - 5)))
    trips_lake.put(PREFIX + "a.parquet", parquet(empty))
    refused(
        trips_lake,
        r"Column 'zone' is String, but .*NULL, or missing.*\(5 such rows in all\).*casts={'null_as_default': True}",
    )
    trips_lake.load(null_as_default=True)
    zones = trips_lake.on_every_node(f"SELECT count() FROM {trips_lake.database}.trips WHERE zone = 'unknown'")
    assert sum(rows[0][0] for rows in zones) == 5


@pytest.mark.thorough
def test_a_file_that_is_no_parquet(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    trips_lake.put(PREFIX + "a.parquet", b"certainly not")
    refused(trips_lake, f"{trips_lake.bucket}/{PREFIX}a.parquet cannot be read as Parquet")
