"""Unloads of the lake's table into its bucket, and what a reader of the manifest finds there."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pyarrow.parquet
import pytest

from airflow_provider_chs3.client.runner import Runner
from airflow_provider_chs3.client.shared_objects import SharedObjects
from airflow_provider_chs3.testbed.trips import Trips
from airflow_provider_chs3.transfers.clickhouse_to_s3 import ClickHouseToS3Operator
from tests.support.killing import performing
from tests.support.lake import PERIOD, Lake

FOLDER = f"exports/{PERIOD}/"
MANIFEST = f"{FOLDER}_manifest.json"
TRIPS = Trips(rows_per_period=600, files_per_period=6)
OTHER_TRIPS = Trips(seed=2, rows_per_period=500, files_per_period=6)


@pytest.fixture
def loaded(trips_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A lake whose table has a period; unloads run as a user that may."""
    trips_lake.upload(TRIPS)
    trips_lake.load()
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(trips_lake.cluster.airflow_connection()))
    return trips_lake


def operator(lake: Lake, **options: Any) -> ClickHouseToS3Operator:
    arguments = {
        "task_id": "unload",
        "period": PERIOD,
        "bucket": lake.bucket,
        "key": "exports/{YYYY-MM}/",
        **lake.target,
    }
    return ClickHouseToS3Operator(**(arguments | options))


def unload(lake: Lake, **options: Any) -> dict[str, Any]:
    return operator(lake, **options).execute({})


def keys(lake: Lake) -> list[str]:
    listed = lake.s3.list_objects_v2(Bucket=lake.bucket, Prefix="exports/")
    return [each["Key"] for each in listed.get("Contents", ())]


def body(lake: Lake, key: str) -> bytes:
    return lake.s3.get_object(Bucket=lake.bucket, Key=key)["Body"].read()


def manifest(lake: Lake) -> dict[str, Any]:
    return json.loads(body(lake, MANIFEST))


def ids(lake: Lake) -> list[int]:
    """The trips that a reader of the manifest finds, as another library reads them."""
    files = (body(lake, each["key"]) for each in manifest(lake)["files"])
    tables = [pyarrow.parquet.read_table(io.BytesIO(file)) for file in files]
    return sorted(trip for table in tables for trip in table.column("trip_id").to_pylist())


def ids_of_table(lake: Lake) -> list[int]:
    rows = lake.on_every_node(f"SELECT trip_id FROM {lake.database}.{lake.table} WHERE toYYYYMM(pickup_at) = 202610")
    return sorted(trip for of_node in rows for (trip,) in of_node)


PERFORM = Runner.__dict__["perform"]


class Killed(BaseException):
    """The worker is gone: nothing of the attempt runs any more."""


@contextmanager
def killed_at(step: int, *, has_effect: bool) -> Iterator[None]:
    """Kill what runs at a step, before it or right after it; statements and requests to S3 are steps."""
    steps = count()

    def struck(act: Callable[[], Any]) -> Any:
        number = next(steps)
        if number > step or (number == step and not has_effect):
            raise Killed
        answer = act()
        if number == step:
            raise Killed
        return answer

    tried = SharedObjects._tried
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SharedObjects, "_tried", lambda self, *arguments: struck(lambda: tried(self, *arguments)))
        with performing(lambda runner, each: struck(lambda: PERFORM.__get__(runner, Runner)(each))):
            yield
