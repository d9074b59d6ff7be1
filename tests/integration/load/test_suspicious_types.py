"""Tables of what servers forbid by default in a new table, such as staging: they are loaded like any other."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from tests.support.lake import IS_OLDEST, PERIOD, Lake, lake_on
from tests.support.narrow_user import WITH_NARROW_USER
from tests.support.refusal import parquet

ALLOWED = {
    "allow_suspicious_low_cardinality_types": 1,
    "allow_suspicious_fixed_string_types": 1,
    "allow_suspicious_variant_types": 1,
    "allow_suspicious_primary_key": 1,
    "allow_suspicious_ttl_expressions": 1,
    "allow_suspicious_codecs": 1,
}
COLUMNS = (
    "low LowCardinality(UInt64), low_date LowCardinality(Nullable(Date)), lows Array(LowCardinality(Int32)), "
    "long FixedString(300), coded Int32 CODEC(ZSTD, LZ4), expired Int32 TTL toDateTime('2100-01-01 00:00:00')"
)
LOADED: list[dict[str, Any]] = [
    {"at": "2026-10-01", "low": 2**60, "low_date": "2026-10-07", "lows": [1, -1], "long": "x" * 300, "coded": 1},
    {"at": "2026-10-31", "low": 0, "low_date": None, "lows": [], "long": "y" * 300, "coded": -7},
]


def create(lake: Lake, columns: str, order: str = "at", settings: Mapping[str, int] = ALLOWED) -> None:
    for node in lake.cluster.nodes:
        with node.client(settings=settings) as client:
            client.execute(
                f"CREATE TABLE {lake.database}.trips (at Date, {columns}) ENGINE = MergeTree "
                f"PARTITION BY toYYYYMM(at) ORDER BY ({order})"
            )


def as_json(rows: list[dict[str, Any]]) -> tuple[str, bytes]:
    return "jsonl", "\n".join(map(json.dumps, rows)).encode()


def as_csv(rows: list[dict[str, Any]]) -> tuple[str, bytes]:
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0].keys(), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: r"\N" if value is None else value for name, value in row.items()} for row in rows)
    return "csv", text.getvalue().encode()


def as_parquet(rows: list[dict[str, Any]]) -> tuple[str, bytes]:
    return "parquet", parquet(pa.Table.from_pylist(rows))


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("written", [as_json, as_csv, as_parquet])
def test_columns_of_all_formats(lake: Lake, written: Callable[[list[dict[str, Any]]], tuple[str, bytes]]) -> None:
    create(lake, COLUMNS)
    ending, body = written([row | {"expired": 5} for row in LOADED])
    lake.put(f"trips/{PERIOD}/a.{ending}", body)
    lake.load()
    rows = lake.on_every_node(
        f"SELECT toString(at), low, toString(low_date), lows, toString(long), coded FROM {lake.database}.trips"
    )
    found = sorted((row for of_node in rows for row in of_node), reverse=True)
    assert found == [tuple(row.values()) for row in reversed(LOADED)]


@pytest.mark.thorough
def test_expressions_read_dictionaries_of_arrow(lake: Lake) -> None:
    create(lake, "n Int64, day Date32, x Float64, b Bool", settings={})
    at, days = pa.array([dt.date(2026, 10, 5)] * 2), pa.array([dt.date(1969, 7, 20), None])
    columns = {"n": pa.array([2**60, 7]), "day": days, "x": pa.array([0.1, -1e300]), "b": pa.array([True, False])}
    table = pa.table({"at": at, **{name: column.dictionary_encode() for name, column in columns.items()}})
    file = io.BytesIO()
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    lake.put(f"trips/{PERIOD}/a.arrow", file.getvalue())
    lake.load(select={"at": "at", "n": "n - 1", "day": "ifNull(day, toDate32('2000-01-01'))", "x": "x", "b": "b"})
    rows = lake.on_every_node(f"SELECT n, toString(day), toString(x), b FROM {lake.database}.trips ORDER BY ALL")
    assert [row for of_node in rows for row in of_node] == [
        (6, "2000-01-01", "-1e300", False),
        (2**60 - 1, "1969-07-20", "0.1", True),
    ]


@pytest.mark.thorough
def test_the_column_of_a_value_that_does_not_fit_is_named_beside_them(lake: Lake) -> None:
    create(lake, "low LowCardinality(UInt64), numbers Array(UInt8)")
    lake.put(f"trips/{PERIOD}/a.csv", b'at,low,numbers\n2026-10-05,7,"[zz]"\n')
    with pytest.raises(AirflowFailException, match=r"Column 'numbers' is Array\(UInt8\), but row 1 of .* has '\[zz\]'"):
        lake.load()


@pytest.mark.thorough
def test_a_variant_of_similar_types(lake: Lake) -> None:
    create(lake, "n Variant(UInt8, Int64)")
    lake.put(f"trips/{PERIOD}/a.parquet", parquet(pa.table({"at": ["2026-10-05"], "n": [7]})))
    lake.load()
    rows = lake.on_every_node(f"SELECT toString(n) FROM {lake.database}.trips")
    assert [row for of_node in rows for row in of_node] == [("7",)]


@pytest.mark.thorough
def test_a_sorting_key_of_an_aggregate(lake: Lake) -> None:
    create(lake, "n SimpleAggregateFunction(sum, UInt64)", order="at, n")
    lake.put(f"trips/{PERIOD}/a.jsonl", b'{"at": "2026-10-05", "n": 7}')
    assert lake.load()["rows"] == 1


@pytest.mark.thorough
def test_a_user_who_may_not_allow_them_loads_tables_without_them(
    chs3_s3: Any, chs3_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = {} if IS_OLDEST else {"enable_alp_codec": {"max": 0}}
    forbidden = {"constraints": {"allow_suspicious_low_cardinality_types": {"readonly": ""}, **newer}}
    with (
        ClickHouseCluster.start(1, user_settings=forbidden, **WITH_NARROW_USER) as cluster,
        lake_on(cluster, chs3_s3, chs3_bucket, monkeypatch) as lake,
    ):
        create(lake, "n UInt8", settings={})
        lake.put(f"trips/{PERIOD}/a.jsonl", b'{"at": "2026-10-05", "n": 7}')
        assert lake.load()["rows"] == 1
