"""Loads of 2,000 columns: a record names each of them, and is longer than statements may be by default."""

from __future__ import annotations

import datetime as dt
import io
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from tests.support.deferring import hurry, start
from tests.support.lake import PERIOD, Lake

COLUMNS = 2_000
#: Column type of the table → of the files; the first is cast.
TYPES = {"Decimal(18, 3)": pa.float64(), "Nullable(Int64)": pa.int64(), "String": pa.string()}
KEY = "wide/{YYYY-MM}/"


@pytest.fixture
def wide(lake: Lake) -> Lake:
    lake.table = "wide"
    columns = ", ".join(f"column_{n} {[*TYPES][n % len(TYPES)]}" for n in range(COLUMNS))
    lake.on_every_node(
        f"CREATE TABLE {lake.database}.wide (day Date32, {columns}) ENGINE = MergeTree PARTITION BY toYYYYMM(day) "
        "ORDER BY tuple()"
    )
    return lake


def put(lake: Lake, name: str, value: int, *, period: str = PERIOD) -> None:
    columns = {f"column_{n}": pa.array([str(value)]).cast([*TYPES.values()][n % len(TYPES)]) for n in range(COLUMNS)}
    file = io.BytesIO()
    pq.write_table(pa.table({"day": pa.array([dt.date.fromisoformat(f"{period}-05")]), **columns}), file)
    lake.put(f"wide/{period}/{name}.parquet", file.getvalue())


def rows(lake: Lake) -> list[list[Decimal]]:
    found = lake.on_node(0, f"SELECT * EXCEPT day FROM {lake.database}.wide ORDER BY column_0")
    return [[*map(Decimal, row)] for row in found]


def exactly(*values: int) -> list[list[Decimal]]:
    return [[Decimal(value)] * COLUMNS for value in values]


@pytest.mark.thorough
def test_a_period_and_its_increments(wide: Lake) -> None:
    put(wide, "a", 3)
    assert wide.load(key=KEY)["status"] == "published"
    put(wide, "b", 5)
    assert wide.load(key=KEY)["loaded_objects"] == 1
    assert rows(wide) == exactly(3, 5)
    assert wide.load(key=KEY)["status"] == "unchanged"


@pytest.mark.thorough
def test_a_deferred_load(wide: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)
    put(wide, "a", 3)
    assert start(wide, key=KEY).resume()["status"] == "published"
    assert rows(wide) == exactly(3)


@pytest.mark.thorough
def test_several_periods_together(wide: Lake) -> None:
    periods = ["2026-09", PERIOD]
    for value, period in enumerate(periods):
        put(wide, "a", value + 3, period=period)
    operator = S3ToClickHouseOperator(
        task_id="load",
        bucket=wide.bucket,
        key=KEY,
        database=wide.database,
        table=wide.table,
        periods=periods,
        cluster=wide.cluster.name,
    )
    assert [each["status"] for each in operator.execute({})] == ["published", "published"]
    assert rows(wide) == exactly(3, 4)
