"""Hostile keys, and every way of giving credentials."""

from __future__ import annotations

import datetime
import io
import json
import re
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.sources.s3.listing import S3Listing
from airflow_provider_chs3.sources.s3.reading import Credentials
from airflow_provider_chs3.testbed.pytest_plugin import S3_NAMED_COLLECTION
from airflow_provider_chs3.testbed.s3 import S3Endpoint, S3Server
from airflow_provider_chs3.testbed.trips import Trips
from tests.integration.valued import AT, PREFIX, create, values
from tests.support.lake import PERIOD, Lake
from tests.support.refusal import refused
from tests.support.temporary_keys import TemporaryKeys

TRIPS = Trips(rows_per_period=2_400, files_per_period=24)
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
    for (_, content), name in zip(TRIPS.files(PERIOD), NAMES, strict=True):
        lake.put(f"{prefix}{name}.parquet", content)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("prefix", ["trips/2026-10/", "Trips & möre/2026-10/"])
@pytest.mark.parametrize("credentials", [{}, {"named_collection": S3_NAMED_COLLECTION}], ids=["keys", "collection"])
def test_keys_of_any_characters_load_right(trips_lake: Lake, prefix: str, credentials: dict[str, Any]) -> None:
    put_under_hostile_names(trips_lake, prefix)
    key = prefix.replace(PERIOD, "{YYYY-MM}")
    if credentials:
        key, credentials = f"{trips_lake.bucket}/{key}", credentials | {"bucket": None}
    trips_lake.load(key=key + "*.parquet", **credentials)
    assert trips_lake.facts() == TRIPS.facts(PERIOD)


#: Keys that only differ in characters of which none may stand in a glob.
ALIKE = [
    ("a+b c", "a b+c"),
    ("a%2Bb", "a%20b"),
    ("a+b", "a b"),
    ("a%2B", "a+++"),
    ("caf\u00e9", "caf\u00e8"),
    ("caf\u00e9", "cafe\u0301"),
    ("a#b", "a&b"),
    ("(a)", "[a]"),
    ("a;b", "a:b"),
]


@pytest.mark.thorough
@pytest.mark.parametrize("credentials", [{}, {"named_collection": S3_NAMED_COLLECTION}], ids=["keys", "collection"])
def test_keys_that_look_alike_are_told_apart(lake: Lake, credentials: dict[str, Any]) -> None:
    create(lake, "n Int32, s String DEFAULT 'none'")
    for number, names in enumerate(ALIKE):
        for name, letter in zip(names, "ab", strict=True):
            body = f"n,ts,s\n{number},{AT},{letter}\n"
            lake.put(f"trips/{PERIOD}/{number}/{name}.csv", body.encode())
    key = {"key": f"{lake.bucket}/trips/{{YYYY-MM}}/", "bucket": None} if credentials else {}
    lake.load(file_format="CSVWithNames", **key, **credentials)
    assert values(lake, "(n, s)") == [(number, letter) for number in range(len(ALIKE)) for letter in "ab"]
    lake.put(f"trips/{PERIOD}/0/{ALIKE[0][1]}.csv", f"n,ts\n0,{AT}\n".encode())
    with pytest.raises(AirflowFailException, match=rf"'s' is missing in .*{re.escape(ALIKE[0][1])}"):
        lake.load(file_format="CSVWithNames", **key, **credentials)


@pytest.mark.thorough
def test_keys_with_braces_on_several_levels_load_right(trips_lake: Lake) -> None:
    for number, (name, content) in enumerate(TRIPS.files(PERIOD)):
        trips_lake.put(f"trips/{PERIOD}/" + "{x}/" * (number % 3) + name, content)
    result = trips_lake.load()
    assert len(result["query_ids"]) == 2
    assert trips_lake.facts() == TRIPS.facts(PERIOD)


@pytest.mark.thorough
def test_only_the_periods_objects_are_opened(trips_lake: Lake) -> None:
    # ClickHouse reads whatever its glob matches, and would fail over this.
    trips_lake.upload(TRIPS)
    trips_lake.put(f"trips/{PERIOD}/trips-{PERIOD}-000.parquet.tmp", b"not a trip")
    assert trips_lake.load(key="trips/{YYYY-MM}/*.parquet")["objects"] == 24


@pytest.mark.thorough
def test_several_files_of_a_period_beside_those_of_others(trips_lake: Lake) -> None:
    for period in ("2026-09", PERIOD):
        TRIPS.upload(trips_lake.s3, period, bucket=trips_lake.bucket, prefix="all/")
    trips_lake.load(key="all/trips-{YYYY-MM}-*.parquet")
    assert trips_lake.facts() == TRIPS.facts(PERIOD)
    assert trips_lake.facts("2026-09").rows == 0


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", ["a//b.csv", "a?versionId=1.csv"])
def test_keys_that_clickhouse_cannot_read_are_named(trips_lake: Lake, name: str) -> None:
    trips_lake.put(f"trips/{PERIOD}/{name}", b"pickup_at\n")
    with pytest.raises(AirflowFailException, match=rf"cannot read .*{re.escape(name)}: .* Copy the object"):
        trips_lake.load(key="trips/{YYYY-MM}/**")


@pytest.mark.thorough
def test_hive_style_keys_add_no_columns(trips_lake: Lake) -> None:
    TRIPS.upload(trips_lake.s3, PERIOD, bucket=trips_lake.bucket, prefix="t/year=2026/month=10/zone=X/")
    trips_lake.load(key="t/year={YYYY}/month={MM}/")
    assert trips_lake.facts() == TRIPS.facts(PERIOD)


def test_a_named_collection_lists_and_reads_what_the_worker_sees(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    key = f"{trips_lake.bucket}/trips/{{YYYY-MM}}/"
    by_servers = trips_lake.load(named_collection=S3_NAMED_COLLECTION, bucket=None, key=key, aws_conn_id="not_there")
    assert by_servers["objects"] == 24
    assert trips_lake.facts() == TRIPS.facts(PERIOD)
    by_worker = trips_lake.load()
    assert (by_worker["status"], by_worker["fingerprint"]) == ("unchanged", by_servers["fingerprint"])


@pytest.mark.thorough
def test_a_public_bucket_needs_no_keys(trips_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    with S3Server.start(anonymous=True) as public:
        client = public.client()
        client.create_bucket(Bucket="public")
        for name, content in TRIPS.files(PERIOD):
            client.put_object(Bucket="public", Key=f"{PERIOD}/{name}", Body=content, ACL="public-read")
        monkeypatch.setenv("AWS_ENDPOINT_URL", public.endpoint_url)
        trips_lake.load(aws_conn_id=None, bucket="public", key="{YYYY-MM}/", endpoint_url=public.endpoint_url)
    assert trips_lake.facts() == TRIPS.facts(PERIOD)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"session_token": "not-of-these-keys"}, "the session token is not known there"),
        ({"secret_key": "not-of-this-key"}, "the secret key is wrong"),
    ],
)
def test_temporary_keys_that_do_not_fit_together_fail_at_once(
    trips_lake: Lake, chs3_s3: S3Endpoint, monkeypatch: pytest.MonkeyPatch, changed: dict[str, str], told: str
) -> None:
    trips_lake.upload(TRIPS)
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", TemporaryKeys.of(chs3_s3).airflow_connection(**changed))
    refused(trips_lake, rf"Cannot list s3://.*{told}")


@pytest.mark.thorough
def test_temporary_keys_that_the_servers_find_expired_fail_at_once(
    trips_lake: Lake, chs3_s3: S3Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    trips_lake.upload(TRIPS)
    keys = TemporaryKeys.of(chs3_s3)
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", keys.airflow_connection())
    access = S3Listing.access

    def expired(listing: S3Listing) -> tuple[Credentials, str]:
        # Between the worker's listing and the servers' reading, which is hours in a long load.
        credentials, endpoint_url = access(listing)
        return replace(credentials, session_token="of-yesterday"), endpoint_url

    monkeypatch.setattr(S3Listing, "access", expired)
    refused(trips_lake, "The storage refused the servers' keys")


def put_numbers(lake: Lake, name: str, column: str, values: pyarrow.Array) -> None:
    body = io.BytesIO()
    day = [datetime.date(2026, 10, 5)] * len(values)
    pyarrow.parquet.write_table(pyarrow.table({"day": day, column: values}), body)
    lake.put(f"trips/{PERIOD}/{name}", body.getvalue())


@pytest.fixture
def numbers_lake(lake: Lake) -> Lake:
    table = f"{lake.database}.{lake.table}"
    lake.on_every_node(
        f"CREATE TABLE {table} (day Date, n Nullable(Int64)) ENGINE = MergeTree PARTITION BY toYYYYMM(day) ORDER BY day"
    )
    return lake


@pytest.mark.thorough
def test_a_file_is_read_by_its_own_columns_and_not_by_those_of_one_named_alike(numbers_lake: Lake) -> None:
    put_numbers(numbers_lake, "Trips (2).parquet", "n", pyarrow.array([2**40], pyarrow.int64()))
    put_numbers(numbers_lake, "Trips (12).parquet", "n", pyarrow.array([1], pyarrow.int32()))
    numbers_lake.load()
    rows = numbers_lake.on_every_node(f"SELECT n FROM {numbers_lake.database}.{numbers_lake.table}")
    assert sorted(value for node in rows for (value,) in node) == [1, 2**40]


@pytest.mark.thorough
def test_files_that_no_glob_tells_apart_are_read_by_their_own_columns(numbers_lake: Lake) -> None:
    put_numbers(numbers_lake, "a{.parquet", "n", pyarrow.array([2**40], pyarrow.int64()))
    put_numbers(numbers_lake, "ab.parquet", "n", pyarrow.array([1], pyarrow.int32()))
    numbers_lake.load()
    assert values(numbers_lake, "n") == [1, 2**40]


#: If keys differ only in one or two of these, a glob of one matches others.
HOSTILE = "ab{}[]*?%#&,;:'\"\\ +=~!$^()|<>@`ü東"


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(2, 30))])
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_exactly_the_listed_keys_are_read_whatever_they_are(lake: Lake, ending: str, seed: int) -> None:
    create(lake, "n Int64")
    random = Random(seed)
    names = {f"a{''.join(random.choices(HOSTILE, k=random.randint(1, 2)))}" for _ in range(16)} | {"a :: b", "a*", "ab"}
    for number, name in enumerate(sorted(names)):
        lake.put(f"{PREFIX}{name}.{ending}", hostile_body(ending, number, random))
    lake.put(f"{PREFIX}a*.{ending}.tmp", b"not of the period")
    lake.load(key=f"trips/{{YYYY-MM}}/*.{ending}")
    assert values(lake, "n") == list(range(len(names)))


def hostile_body(ending: str, number: int, random: Random) -> bytes:
    """A row of a file whose columns have an order and a type of their own."""
    row = {"ts": AT, "n": number, "x": "y" * random.randint(0, 2)}
    names = random.sample(sorted(row), 3)
    if ending == "csv":
        return f"{','.join(names)}\n{','.join(str(row[name]) for name in names)}\n".encode()
    if ending == "jsonl":
        return f"{json.dumps({name: row[name] for name in names})}\n".encode()
    body, of_n = io.BytesIO(), random.choice([pyarrow.int8(), pyarrow.int64(), pyarrow.float64(), pyarrow.string()])
    texts = {name: pyarrow.array([str(row[name])]) for name in names}
    pyarrow.parquet.write_table(pyarrow.table(texts | {"n": texts["n"].cast(of_n)}), body)
    return body.getvalue()
