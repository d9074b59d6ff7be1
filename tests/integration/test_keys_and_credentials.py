"""Hostile keys, and every way of giving credentials."""

from __future__ import annotations

import datetime
import io
import json
import logging
from typing import Any

import pyarrow
import pyarrow as pa
import pyarrow.parquet
import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.exceptions import ClickHouseServerError
from airflow_provider_chs3.testbed.pytest_plugin import S3_NAMED_COLLECTION
from airflow_provider_chs3.testbed.s3 import S3Server
from airflow_provider_chs3.testbed.trips import Trips
from tests.integration.lake import MONTH, Lake

TRIPS = Trips(rows_per_month=2_400, files_per_month=24)
NAMES = [
    "plain",
    "with space",
    "quote's",
    'double"quote',
    "back\\slash",
    "percent%20",
    "hash#tag",
    "plus+plus",
    "amp&ersand",
    "question?",
    "star*",
    "two**stars",
    "{braces}",
    "{a,b}",
    "{1..3}",
    "[brackets]",
    "ünïcödé",
    "東京",
    "semi;colon",
    "a :: b",
    "co,mma",
    "equals=1",
    "back`tick",
    "dollar$",
]


def put_under_hostile_names(lake: Lake, prefix: str) -> None:
    for (_, content), name in zip(TRIPS.files(MONTH), NAMES, strict=True):
        lake.put(f"{prefix}{name}.parquet", content)


@pytest.mark.parametrize("prefix", ["trips/2026-10/", "Trips & möre/2026-10/"])
@pytest.mark.parametrize("credentials", [{}, {"named_collection": S3_NAMED_COLLECTION}], ids=["keys", "collection"])
def test_keys_of_any_characters_load_right(trips_lake: Lake, prefix: str, credentials: dict[str, Any]) -> None:
    put_under_hostile_names(trips_lake, prefix)
    key = prefix.replace(MONTH, "{YYYY-MM}")
    if credentials:
        key, credentials = f"{trips_lake.bucket}/{key}", credentials | {"bucket": None}
    trips_lake.load(key=key + "*.parquet", **credentials)
    assert trips_lake.facts() == TRIPS.facts(MONTH)


def test_keys_with_braces_on_several_levels_load_right(trips_lake: Lake) -> None:
    for number, (name, content) in enumerate(TRIPS.files(MONTH)):
        trips_lake.put(f"trips/{MONTH}/" + "{x}/" * (number % 3) + name, content)
    result = trips_lake.load()
    assert len(result["query_ids"]) == 3
    assert trips_lake.facts() == TRIPS.facts(MONTH)


def test_objects_that_look_alike_but_are_not_the_months_are_not_read(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    for key in ("trips/2026-10/notes.txt", "trips/2026-10-old/a.parquet", "trips/2026-1/a.parquet"):
        trips_lake.put(key, b"not a trip")
    assert trips_lake.load(key="trips/{YYYY-MM}/*.parquet")["objects"] == 24


def test_only_the_months_objects_are_opened(trips_lake: Lake) -> None:
    # ClickHouse reads whatever its glob matches, and would fail over this.
    trips_lake.upload(TRIPS)
    trips_lake.put(f"trips/{MONTH}/_committed_1", b"not a trip")
    assert trips_lake.load(key="trips/{YYYY-MM}/*")["objects"] == 24


def test_files_of_several_lengths_of_a_fixed_column_keep_their_values(trips_lake: Lake) -> None:
    for name, zone in (("a", b"12345678"), ("b", b"1234")):
        table = TRIPS.table(MONTH).slice(0, 10)
        fixed = pa.array([zone] * 10, pa.binary(len(zone)))
        buffer = io.BytesIO()
        pq.write_table(table.set_column(9, "promo_code", fixed), buffer)
        trips_lake.put(f"trips/{MONTH}/{name}.parquet", buffer.getvalue())
    trips_lake.load()
    codes = f"SELECT DISTINCT promo_code FROM cluster(chs3, {trips_lake.database}, trips) ORDER BY 1"
    assert trips_lake.on_node(0, codes) == [("1234",), ("12345678",)]


def test_several_files_of_a_month_beside_those_of_others(trips_lake: Lake) -> None:
    for month in ("2026-09", MONTH):
        TRIPS.upload(trips_lake.s3, month, bucket=trips_lake.bucket, prefix="all/")
    trips_lake.load(key="all/trips-{YYYY-MM}-*.parquet")
    assert trips_lake.facts() == TRIPS.facts(MONTH)
    assert trips_lake.facts("2026-09").rows == 0


def test_hive_style_keys_add_no_columns(trips_lake: Lake) -> None:
    TRIPS.upload(trips_lake.s3, MONTH, bucket=trips_lake.bucket, prefix="t/year=2026/month=10/zone=X/")
    trips_lake.load(key="t/year={YYYY}/month={MM}/")
    assert trips_lake.facts() == TRIPS.facts(MONTH)


def test_a_named_collection_lists_and_reads(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    key = f"{trips_lake.bucket}/trips/{{YYYY-MM}}/*.parquet"
    result = trips_lake.load(named_collection=S3_NAMED_COLLECTION, bucket=None, key=key, aws_conn_id="not_there")
    assert result["objects"] == 24
    assert trips_lake.facts() == TRIPS.facts(MONTH)


def test_worker_and_servers_see_the_same_objects(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    by_worker = trips_lake.load()
    key = f"{trips_lake.bucket}/trips/{{YYYY-MM}}/"
    by_servers = trips_lake.load(named_collection=S3_NAMED_COLLECTION, bucket=None, key=key)
    assert by_servers["fingerprint"] == by_worker["fingerprint"]
    assert by_servers["status"] == "unchanged"


def test_a_public_bucket_needs_no_keys(trips_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    with S3Server.start(anonymous=True) as public:
        client = public.client()
        client.create_bucket(Bucket="public")
        for name, content in TRIPS.files(MONTH):
            client.put_object(Bucket="public", Key=f"{MONTH}/{name}", Body=content, ACL="public-read")
        monkeypatch.setenv("AWS_ENDPOINT_URL", public.endpoint_url)
        trips_lake.load(aws_conn_id=None, bucket="public", key="{YYYY-MM}/", endpoint_url=public.endpoint_url)
    assert trips_lake.facts() == TRIPS.facts(MONTH)


class TestSecrets:
    """The secret key, and the password of ClickHouse, are nowhere to be seen."""

    def test_in_logs_and_result(
        self, trips_lake: Lake, chs3_s3: Any, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
    ) -> None:
        caplog.set_level(logging.DEBUG)
        trips_lake.upload(TRIPS)
        capfd.readouterr()
        operator = trips_lake.operator()
        result = operator.execute({})
        shown = caplog.text + "".join(capfd.readouterr()) + json.dumps(result) + repr(operator.__dict__)
        assert chs3_s3.secret_key not in shown
        assert "[HIDDEN]" in shown
        assert trips_lake.cluster.airflow_connection()["password"] not in shown

    def test_in_errors_of_the_servers(self, trips_lake: Lake, chs3_s3: Any) -> None:
        trips_lake.upload(TRIPS)
        with pytest.raises(ClickHouseServerError, match="Connection refused") as failed:
            trips_lake.load(endpoint_url="http://127.0.0.1:1")
        error: BaseException | None = failed.value
        while error:
            assert chs3_s3.secret_key not in f"{error}{error!r}{error.args}"
            error = error.__cause__

    def test_in_the_ledger_and_in_the_servers_logs(self, trips_lake: Lake, chs3_s3: Any) -> None:
        trips_lake.upload(TRIPS)
        trips_lake.load()
        trips_lake.on_every_node("SYSTEM FLUSH LOGS")
        found = trips_lake.on_every_node(
            "SELECT count() FROM system.query_log WHERE query LIKE concat('%', "
            f"reverse('{chs3_s3.secret_key[::-1]}'), '%')"
        )
        assert found == [[(0,)]] * 3


def put_numbers(lake: Lake, name: str, column: str, values: pyarrow.Array) -> None:
    body = io.BytesIO()
    day = [datetime.date(2026, 10, 5)] * len(values)
    pyarrow.parquet.write_table(pyarrow.table({"day": day, column: values}), body)
    lake.put(f"trips/{MONTH}/{name}", body.getvalue())


@pytest.fixture
def numbers_lake(lake: Lake) -> Lake:
    table = f"{lake.database}.{lake.table}"
    lake.on_every_node(
        f"CREATE TABLE {table} (day Date, n Nullable(Int64)) ENGINE = MergeTree PARTITION BY toYYYYMM(day) ORDER BY day"
    )
    return lake


def test_a_file_is_read_by_its_own_columns_and_not_by_those_of_one_named_alike(numbers_lake: Lake) -> None:
    put_numbers(numbers_lake, "Trips (2).parquet", "n", pyarrow.array([2**40], pyarrow.int64()))
    put_numbers(numbers_lake, "Trips (12).parquet", "n", pyarrow.array([1], pyarrow.int32()))
    numbers_lake.load()
    rows = numbers_lake.on_every_node(f"SELECT n FROM {numbers_lake.database}.{numbers_lake.table}")
    assert sorted(value for node in rows for (value,) in node) == [1, 2**40]


def test_files_that_no_glob_tells_apart_are_refused(numbers_lake: Lake) -> None:
    put_numbers(numbers_lake, "a b.parquet", "n", pyarrow.array([2**40], pyarrow.int64()))
    put_numbers(numbers_lake, "a+b.parquet", "n", pyarrow.array([1], pyarrow.int32()))
    with pytest.raises(AirflowFailException, match="rename one of them"):
        numbers_lake.load()
