"""The DAG of files by arrival, run by real Airflow: each month holds the trips that the files have for it."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_chs3.testbed.trips import COLUMNS, Trips
from tests.system.example_nights import Nights, events, nights, states, without_retries

if TYPE_CHECKING:
    from airflow.sdk import DAG

__all__ = ["nights"]

NIGHT = datetime(2026, 3, 12, 3, tzinfo=UTC)
#: A sixth of the trips of each file are of the month before.
LATE = Trips(rows_per_period=600, files_per_period=2, wrong_period_rows=100)


@pytest.fixture(scope="module")
def dag(airflow_db: Path) -> DAG:
    return without_retries("chs3_arrivals")


def arrive(nights: Nights, day: str, month: str, *, seed: int = 1) -> None:
    trips = Trips(seed, LATE.rows_per_period, LATE.files_per_period, LATE.wrong_period_rows)
    trips.upload(nights.s3, month, bucket=nights.bucket, prefix=f"arrived/{day}/{month}-")


def assert_exact(nights: Nights) -> None:
    """Compare the table with a plain INSERT of all files."""
    connection = json.loads(os.environ["AIRFLOW_CONN_AWS_DEFAULT"])
    files = f"{connection['extra']['endpoint_url']}/{nights.bucket}/arrived/**.parquet"
    read = f"s3('{files}', '{connection['login']}', '{connection['password']}')"
    with nights.cluster.nodes[0].client() as client:
        columns = ", ".join(COLUMNS)
        client.execute(f"CREATE OR REPLACE TABLE {nights.database}.plain AS {nights.database}.trips ENGINE = Memory")
        client.execute(f"INSERT INTO {nights.database}.plain ({columns}) SELECT {columns} FROM {read}")
        plain, loaded = (
            client.execute(f"SELECT {columns} FROM {nights.database}.{name} ORDER BY ALL")
            for name in ("plain", "trips_all")
        )
    assert loaded == plain


def test_each_month_holds_the_trips_that_files_have_for_it(nights: Nights) -> None:
    arrive(nights, "2026-03-10", "2026-03")
    arrive(nights, "2026-03-11", "2026-03", seed=2)
    arrive(nights, "2026-03-11", "2026-01", seed=3)
    done = nights.run(NIGHT)
    assert done.state == "success"
    of_load = "2026-03-10 … 2026-03-11 (2 days)"
    assert states(done) == {
        "plan": "success",
        f"period.load {of_load}: published": "success",
        "period.merges 2025-12 … 2026-03 (4 months): healthy": "success",
        f"period.emit {of_load}: emitted": "success",
        "end": "success",
    }
    assert sorted(event["period"] for event in events(done)) == ["2025-12", "2026-01", "2026-02", "2026-03"]
    assert_exact(nights)

    # A file is withdrawn, another one comes late.
    nights.s3.delete_object(Bucket=nights.bucket, Key=nights_file(nights, "2026-03-11/2026-01-"))
    arrive(nights, "2026-03-10", "2025-11", seed=4)
    done = nights.run(NIGHT)
    assert done.state == "success"
    assert sorted(event["period"] for event in events(done)) == ["2025-10", "2025-11", "2025-12", "2026-01"]
    assert_exact(nights)


def nights_file(nights: Nights, begin: str) -> str:
    listed = nights.s3.list_objects_v2(Bucket=nights.bucket, Prefix=f"arrived/{begin}")["Contents"]
    return str(listed[0]["Key"])
