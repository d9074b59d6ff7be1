"""The generator of trips: one seed gives the same bytes for ever, and facts that ClickHouse reads from the files."""

from __future__ import annotations

import gzip

import pytest

from airflow_provider_chs3.testbed.trips import COLUMNS, Trips, create_table_sql, read_facts

FORMATS = ["parquet", "csv.gz", "jsonl", "jsonl.gz"]
PERIOD = "2026-01"


@pytest.mark.parametrize("file_format", FORMATS)
def test_same_seed_gives_same_bytes(file_format):
    first, second = (list(Trips(rows_per_period=500).files(PERIOD, file_format=file_format)) for _ in range(2))
    assert first == second


def test_another_seed_gives_other_bytes():
    assert list(Trips(seed=1).files(PERIOD)) != list(Trips(seed=2).files(PERIOD))


def test_a_period_does_not_depend_on_the_periods_made_before_it():
    trips = Trips(rows_per_period=500)
    alone = list(trips.files(PERIOD))
    list(trips.files("2025-12"))
    assert list(trips.files(PERIOD)) == alone


def test_trip_ids_of_different_periods_are_different():
    trips = Trips(rows_per_period=100_000)
    ids = [trips.table(period)["trip_id"].to_pylist() for period in ("2026-01", "2026-02")]
    assert not set(ids[0]) & set(ids[1])


def test_rows_are_spread_evenly_over_the_files():
    files = dict(Trips(rows_per_period=10, files_per_period=3).files(PERIOD, file_format="csv.gz"))
    rows = {name: len(gzip.decompress(content).splitlines()) - 1 for name, content in files.items()}
    assert rows == {
        "trips-2026-01-000.csv.gz": 3,
        "trips-2026-01-001.csv.gz": 3,
        "trips-2026-01-002.csv.gz": 4,
    }


def test_all_rows_lie_in_the_period():
    pickups = Trips(rows_per_period=5_000).table("2024-02")["pickup_at"].to_pylist()
    assert {(at.year, at.month) for at in pickups} == {(2024, 2)}


def test_wrong_period_rows_lie_in_the_period_before():
    pickups = Trips(rows_per_period=1_000, wrong_period_rows=7).table(PERIOD)["pickup_at"].to_pylist()
    assert sum((at.year, at.month) == (2025, 12) for at in pickups) == 7


def test_facts_count_the_rows_of_the_period_only():
    facts = Trips(rows_per_period=1_000, wrong_period_rows=7).facts(PERIOD)
    assert (facts.rows, facts.rows_by_other_period) == (993, {"2025-12": 7})


@pytest.mark.parametrize("file_format", FORMATS)
def test_clickhouse_reads_the_facts_from_the_files(chs3_cluster, chs3_s3, chs3_bucket, chs3_database, file_format):
    trips = Trips(rows_per_period=2_000, wrong_period_rows=3)
    trips.upload(chs3_s3.client(), PERIOD, bucket=chs3_bucket, prefix="in/", file_format=file_format)
    table = f"{chs3_database}.trips"
    with chs3_cluster.nodes[0].client() as client:
        client.execute(create_table_sql(table))
        client.execute(f"INSERT INTO {table} SELECT {', '.join(COLUMNS)} FROM {_s3(chs3_s3, chs3_bucket, file_format)}")
        assert read_facts(client, table, PERIOD) == trips.facts(PERIOD)


def test_facts_tell_swapped_values(chs3_cluster, chs3_s3, chs3_bucket, chs3_database):
    trips = Trips(rows_per_period=100)
    trips.upload(chs3_s3.client(), PERIOD, bucket=chs3_bucket, prefix="in/")
    table = f"{chs3_database}.trips"
    first, second = trips.table(PERIOD)["trip_id"].to_pylist()[:2]
    swapped = f"transform(trip_id, [{first}, {second}], [{second}, {first}])"
    with chs3_cluster.nodes[0].client() as client:
        client.execute(create_table_sql(table))
        client.execute(
            f"INSERT INTO {table} SELECT * REPLACE ({swapped} AS trip_id) FROM {_s3(chs3_s3, chs3_bucket, 'parquet')}"
        )
        loaded = read_facts(client, table, PERIOD)
    assert (loaded.rows, loaded.trip_id_sum) == (100, trips.facts(PERIOD).trip_id_sum)
    assert loaded != trips.facts(PERIOD)


def _s3(s3, bucket, file_format):
    url = f"{s3.endpoint_url}/{bucket}/in/*"
    clickhouse_format = {"parquet": "Parquet", "csv.gz": "CSVWithNames"}.get(file_format, "JSONEachRow")
    structure = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    return f"s3('{url}', '{s3.access_key}', '{s3.secret_key}', '{clickhouse_format}', $${structure}$$)"
