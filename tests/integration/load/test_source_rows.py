"""Rows of files that are not Parquet: the insert's own reading proves how many there are, and nothing is read twice."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.testbed.s3 import S3Server
from airflow_provider_chs3.testbed.trips import Trips
from tests.integration.load.distributed import BY_KEY, create_distributed
from tests.support import deferring
from tests.support.lake import PERIOD, Lake

TRIPS = Trips(rows_per_period=3_000, files_per_period=5)
#: Ending of the keys → ClickHouse's format.
ENDINGS = {
    "csv.gz": "CSVWithNames",
    "tsv": "TabSeparatedWithNames",
    "jsonl.zst": "JSONEachRow",
    "native": "Native",
    "orc": "ORC",
    "arrow": "Arrow",
}


@pytest.fixture
def numbers(lake: Lake) -> Lake:
    """A lake with a table of numbers and texts."""
    lake.on_every_node(
        f"CREATE TABLE {lake.database}.trips (at DateTime('UTC'), a UInt64, text String) "
        "ENGINE = MergeTree PARTITION BY toYYYYMM(at) ORDER BY at"
    )
    return lake


def write(lake: Lake, s3: Any, ending: str, *, files: int, rows: int) -> None:
    """Have ClickHouse write files, the first of these rows, and each with one more than the one before."""
    for number in range(files):
        url = f"{s3.endpoint_url}/{lake.bucket}/trips/{PERIOD}/{number}.{ending}"
        lake.on_node(
            0,
            f"INSERT INTO FUNCTION s3('{url}', '{s3.access_key}', '{s3.secret_key}', '{ENDINGS[ending]}') SELECT "
            f"toDateTime('2026-10-01', 'UTC') + number AS at, number AS a, hex(cityHash64(number)) AS text "
            f"FROM numbers({rows + number})",
        )


def second_reads(lake: Lake) -> int:
    """Statements that counted the period's objects."""
    lake.on_every_node("SYSTEM FLUSH LOGS query_log")
    sql = (
        "SELECT count() FROM system.query_log WHERE is_initial_query AND type = 'QueryStart' "
        f"AND startsWith(query, 'SELECT _path AS file, count() FROM s3') AND position(query, '{lake.bucket}') > 0"
    )
    return sum(count for ((count,),) in lake.on_every_node(sql))


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("ending", ENDINGS)
def test_each_object_is_read_once(numbers: Lake, chs3_s3: Any, ending: str) -> None:
    write(numbers, chs3_s3, ending, files=4, rows=500)
    result = numbers.load()
    assert (result["rows"], result["counted_by"]) == (2_006, "insert")
    assert second_reads(numbers) == 0
    sql = f"SELECT counted_by FROM {numbers.database}.chs3_loads WHERE event = 'load'"
    assert numbers.on_node(0, sql) == [("insert",)]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"settings": {"max_download_buffer_size": 20_000}}, id="in ranges"),
        pytest.param({"settings": {"max_block_size": 100, "max_insert_block_size": 100}}, id="in many blocks"),
    ],
)
def test_however_they_are_read(numbers: Lake, chs3_s3: Any, options: dict[str, Any]) -> None:
    write(numbers, chs3_s3, "tsv", files=1, rows=5_000)
    result = numbers.load(**options)
    assert (result["rows"], result["counted_by"]) == (5_000, "insert")


@pytest.mark.thorough
def test_also_where_rows_lie_by_the_sharding_key(trips_lake: Lake) -> None:
    create_distributed(trips_lake)
    trips_lake.upload(TRIPS, file_format="csv.gz")
    assert trips_lake.load(**BY_KEY)["counted_by"] == "insert"
    assert trips_lake.facts() == TRIPS.facts(PERIOD)


@pytest.mark.thorough
def test_also_keys_that_only_wildcards_match(trips_lake: Lake) -> None:
    for number, (_, content) in enumerate(TRIPS.files(PERIOD, file_format="jsonl")):
        trips_lake.put(f"trips/{PERIOD}/a {number}.jsonl", content)
    assert trips_lake.load()["counted_by"] == "insert"
    assert trips_lake.facts() == TRIPS.facts(PERIOD)


@pytest.mark.thorough
def test_where_a_wildcard_opens_other_objects_too_they_are_counted(trips_lake: Lake) -> None:
    *files, (_, other) = TRIPS.files(PERIOD, file_format="jsonl")
    for number, (_, content) in enumerate(files):
        trips_lake.put(f"trips/{PERIOD}/a {number}.jsonl", content)
    trips_lake.put(f"trips/{PERIOD}/a+0.jsonl", other)
    result = trips_lake.load(key="trips/{YYYY-MM}/a *.jsonl")
    assert (result["rows"], result["counted_by"]) == (2_400, "second read")


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("file_format", ["jsonl", "parquet"])
def test_servers_that_find_fewer_objects_than_the_worker_listed_fail_the_load(
    trips_lake: Lake, file_format: Any
) -> None:
    # Keys that only wildcards match: of others, servers say themselves that they are missing.
    files = {f"trips/{PERIOD}/a {name}": body for name, body in TRIPS.files(PERIOD, file_format=file_format)}
    with S3Server.start(anonymous=True) as mirror:
        mirror.client().create_bucket(Bucket=trips_lake.bucket)
        for key, body in files.items():
            trips_lake.put(key, body)
            if key != min(files):
                mirror.client().put_object(Bucket=trips_lake.bucket, Key=key, Body=body)
        with pytest.raises(AirflowFailException, match=r"5 objects were listed, .* found 4 of them, and not .*-000\."):
            trips_lake.load(endpoint_url=mirror.endpoint_url)
    assert sum(trips_lake.rows_per_node()) == 0


@pytest.mark.thorough
def test_a_file_without_rows_is_found(numbers: Lake, chs3_s3: Any) -> None:
    write(numbers, chs3_s3, "tsv", files=2, rows=0)
    result = numbers.load(count_again=True)
    assert (result["rows"], result["objects"], result["counted_by"]) == (1, 2, "second read")


@pytest.mark.thorough
def test_rows_of_other_periods_that_are_left_out_are_counted(trips_lake: Lake) -> None:
    trips = Trips(rows_per_period=3_000, files_per_period=3, wrong_period_rows=7)
    trips_lake.upload(trips, file_format="jsonl")
    result = trips_lake.load(on_other_periods="leave_out")
    assert (result["other_period_rows"], result["counted_by"]) == (7, "insert")


@pytest.mark.thorough
def test_footers_tell_the_rows_of_parquet(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    assert trips_lake.load()["counted_by"] == "footers"


def test_a_user_can_ask_for_a_second_read_and_the_log_says_so(
    trips_lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    trips_lake.upload(TRIPS, file_format="csv.gz")
    assert trips_lake.load(count_again=True)["counted_by"] == "second read"
    log = capfd.readouterr().out
    assert f"Counting the rows of {PERIOD} by reading them a second time: files={{'count_again': True}}." in log
    assert second_reads(trips_lake) == 1


@pytest.mark.thorough
@pytest.mark.newer("setting send_profile_events")
def test_where_the_connection_tells_no_counters_the_nodes_logs_do(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS, file_format="csv.gz")
    assert trips_lake.load(settings={"send_profile_events": 0})["counted_by"] == "insert"


@pytest.mark.thorough
def test_also_of_a_deferrable_load(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS, file_format="csv.gz")
    assert deferring.run(trips_lake, {})["counted_by"] == "insert"
