"""Columns of every kind, from Parquet and from JSON: what is in the table is what is in the files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from ipaddress import IPv4Address, IPv6Address
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from tests.support.lake import PERIOD, Lake
from tests.support.refusal import parquet

ID = UUID("6217087c-a134-43f2-91a1-f241100032db")
AT = [datetime(2026, 10, 5, 6, 7, 8, tzinfo=UTC), datetime(2026, 10, 31, 23, 59, 59, tzinfo=UTC)]
WIDE = Decimal("12345678901234567890123456789012345.678")


@dataclass(frozen=True)
class Kind:
    """A column of the table, the same in the files, and what is read from the table afterwards."""

    type: str
    arrow: pa.DataType
    values: list[Any]
    shown: list[Any] | None = None
    as_json: list[Any] | None = None


KINDS = {
    "nullable": Kind("Nullable(Int32)", pa.int32(), [-5, None]),
    "low": Kind("LowCardinality(String)", pa.dictionary(pa.int32(), pa.string()), ["東京", "x"]),
    "low_nullable": Kind("LowCardinality(Nullable(String))", pa.string(), ["a", None]),
    "array": Kind("Array(UInt16)", pa.list_(pa.uint16()), [[1, 65_535], []]),
    "array_nullable": Kind("Array(Nullable(String))", pa.list_(pa.string()), [["a", None], []]),
    "arrays": Kind("Array(Array(Int64))", pa.list_(pa.list_(pa.int64())), [[[1], [-2, 3]], [[]]]),
    "map": Kind(
        "Map(LowCardinality(String), UInt32)",
        pa.map_(pa.string(), pa.uint32()),
        [[("a", 1), ("b", 4_000_000_000)], []],
        shown=[{"a": 1, "b": 4_000_000_000}, {}],
        as_json=[{"a": 1, "b": 4_000_000_000}, {}],
    ),
    "map_of_arrays": Kind(
        "Map(String, Array(String))",
        pa.map_(pa.string(), pa.list_(pa.string())),
        [[("a", ["x", "y"])], []],
        shown=[{"a": ["x", "y"]}, {}],
        as_json=[{"a": ["x", "y"]}, {}],
    ),
    "tuple": Kind(
        "Tuple(b String, a UInt8)",
        pa.struct([("a", pa.uint8()), ("b", pa.string())]),
        [{"a": 1, "b": "x"}, {"a": 255, "b": ""}],
        shown=[("x", 1), ("", 255)],
    ),
    "tuples": Kind(
        "Array(Tuple(a Int8, b Nullable(Float64)))",
        pa.list_(pa.struct([("a", pa.int8()), ("b", pa.float64())])),
        [[{"a": -1, "b": 0.5}, {"a": 2, "b": None}], []],
        shown=[[(-1, 0.5), (2, None)], []],
    ),
    "enum": Kind("Enum8('on' = 1, 'it''s off' = -2)", pa.string(), ["on", "it's off"]),
    "enum16": Kind("Enum16('a' = 1000, 'b' = 2)", pa.dictionary(pa.int8(), pa.string()), ["a", "b"]),
    "enum_nullable": Kind("Nullable(Enum8('on' = 1))", pa.string(), ["on", None]),
    "decimal": Kind(
        "Decimal(18, 4)",
        pa.decimal128(18, 4),
        [Decimal("-99999999999999.9999"), Decimal("0.0001")],
        as_json=["-99999999999999.9999", 0.0001],
    ),
    "decimal_wide": Kind("Decimal(38, 3)", pa.decimal128(38, 3), [WIDE, -WIDE], as_json=[str(WIDE), str(-WIDE)]),
    "decimal_widest": Kind(
        "Decimal(76, 3)", pa.decimal256(76, 3), [WIDE * 10**30, -WIDE], as_json=[str(WIDE * 10**30), str(-WIDE)]
    ),
    "milliseconds": Kind(
        "DateTime64(3, 'UTC')",
        pa.timestamp("ms", tz="UTC"),
        [AT[0].replace(microsecond=123_000), AT[1].replace(microsecond=999_000)],
        as_json=["2026-10-05 06:07:08.123", "2026-10-31 23:59:59.999"],
    ),
    "microseconds": Kind(
        "DateTime64(6, 'Europe/Berlin')",
        pa.timestamp("us", tz="UTC"),
        [AT[0].replace(microsecond=123_456), AT[1].replace(microsecond=1)],
        as_json=["2026-10-05 08:07:08.123456", "2026-11-01 00:59:59.000001"],
    ),
    "date": Kind("Date", pa.date32(), [date(2026, 10, 5), date(1970, 1, 1)], as_json=["2026-10-05", "1970-01-01"]),
    "date32": Kind("Date32", pa.date32(), [date(1900, 1, 1), date(2299, 12, 31)], as_json=["1900-01-01", "2299-12-31"]),
    "float": Kind("Float32", pa.float32(), [0.5, -1.25]),
    "bool": Kind("Bool", pa.bool_(), [True, False]),
    "fixed": Kind("FixedString(4)", pa.string(), ["abcd", "x"]),
    "uuid": Kind("UUID", pa.string(), [str(ID), str(UUID(int=0))], shown=[ID, UUID(int=0)]),
    "ipv4": Kind(
        "IPv4", pa.string(), ["10.0.0.1", "255.255.255.255"], [IPv4Address("10.0.0.1"), IPv4Address("255.255.255.255")]
    ),
    "ipv6": Kind("IPv6", pa.string(), ["::1", "2001:db8::2"], [IPv6Address("::1"), IPv6Address("2001:db8::2")]),
    "int128": Kind("Int128", pa.string(), [str(-(2**127)), str(2**127 - 1)], [-(2**127), 2**127 - 1]),
    "uint64": Kind("UInt64", pa.uint64(), [2**64 - 1, 0]),
    "int8": Kind("Int8", pa.int64(), [-128, 127]),
}


def create(lake: Lake, columns: str, *, clauses: str = "PARTITION BY toYYYYMM(at) ORDER BY at") -> None:
    lake.on_every_node(
        f"CREATE TABLE {lake.database}.trips ({columns}, at DateTime('UTC')) ENGINE = MergeTree {clauses}"
    )


def read(lake: Lake, columns: str) -> list[tuple[Any, ...]]:
    rows = lake.on_every_node(f"SELECT {columns} FROM {lake.database}.trips ORDER BY at")
    return sorted((row for each in rows for row in each), key=lambda row: row[0])


def every_kind(lake: Lake) -> dict[str, list[Any]]:
    rows = read(lake, f"at, {', '.join(KINDS)}")
    return dict(zip(KINDS, map(list, list(zip(*rows, strict=True))[1:]), strict=True))


def expected() -> dict[str, list[Any]]:
    return {name: each.shown or each.values for name, each in KINDS.items()}


def test_parquet(lake: Lake) -> None:
    """The file has the columns in another order than the table."""
    create(lake, ", ".join(f"{name} {each.type}" for name, each in KINDS.items()))
    columns = {"at": pa.array(AT, pa.timestamp("ms", tz="UTC"))}
    columns |= {name: pa.array(each.values, each.arrow) for name, each in reversed(KINDS.items())}
    lake.put(f"trips/{PERIOD}/a.parquet", parquet(pa.table(columns)))
    lake.load()
    assert every_kind(lake) == expected()


@pytest.mark.thorough
def test_json(lake: Lake) -> None:
    create(lake, ", ".join(f"{name} {each.type}" for name, each in KINDS.items()))
    lines = [
        {name: (each.as_json or each.values)[row] for name, each in reversed(KINDS.items())}
        | {"at": AT[row].strftime("%Y-%m-%d %H:%M:%S")}
        for row in range(2)
    ]
    lake.put(f"trips/{PERIOD}/a.jsonl", "\n".join(json.dumps(line) for line in lines).encode())
    lake.load()
    assert every_kind(lake) == expected()


def put(lake: Lake, **columns: list[Any]) -> None:
    at = pa.array(AT, pa.timestamp("ms", tz="UTC"))
    lake.put(f"trips/{PERIOD}/a.parquet", parquet(pa.table({**columns, "at": at})))


@pytest.mark.thorough
def test_a_default_goes_by_the_other_columns_where_the_files_have_none(lake: Lake) -> None:
    create(lake, "a UInt8, b UInt16 DEFAULT a * 100, c String DEFAULT 'none'")
    put(lake, a=[1, 2], c=["x", ""])
    lake.load()
    assert read(lake, "a, b, c") == [(1, 100, "x"), (2, 200, "")]


def test_materialized_and_alias_columns_are_the_servers_also_where_the_files_have_them(
    lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    create(lake, "a UInt8, m UInt16 MATERIALIZED a + 1, l UInt16 ALIAS a + 2")
    put(lake, a=[1, 2], m=[70, 71], l=[80, 81])
    lake.load()
    assert read(lake, "a, m, l") == [(1, 2, 3), (2, 3, 4)]
    assert "Columns in the files that are not loaded: m, l." in capfd.readouterr().out


@pytest.mark.thorough
def test_an_ephemeral_column_is_what_a_default_is_made_of(lake: Lake) -> None:
    create(lake, "a UInt8, raw String EPHEMERAL, length UInt64 DEFAULT length(raw)")
    put(lake, a=[1, 2], raw=["abc", ""])
    lake.load()
    assert read(lake, "a, length") == [(1, 3), (2, 0)]


@pytest.mark.thorough
def test_an_ephemeral_column_is_not_looked_for_in_json(lake: Lake) -> None:
    create(lake, "a UInt8, raw String EPHEMERAL, length UInt64 DEFAULT length(raw)")
    lake.put(f"trips/{PERIOD}/a.jsonl", b'{"at": "2026-10-05 00:00:00", "a": 1, "length": 5}')
    lake.load()
    assert read(lake, "a, length") == [(1, 5)]


@pytest.mark.thorough
def test_nested_columns_are_loaded_by_expressions(lake: Lake) -> None:
    create(lake, "n Nested(a UInt8, b String)")
    put(lake, x=[[1, 2], []], y=[["p", "q"], []])
    lake.load(select={"at": "at", "n.a": "x", "n.b": "y"})
    assert read(lake, "at, n.a, n.b") == [(AT[0], [1, 2], ["p", "q"]), (AT[1], [], [])]


@pytest.mark.thorough
def test_states_of_aggregates_are_loaded_by_expressions(lake: Lake) -> None:
    create(lake, "n AggregateFunction(uniq, String)", clauses="PARTITION BY toYYYYMM(at) ORDER BY at")
    put(lake, words=[["p", "q", "p"], ["x"]])
    lake.load(select={"at": "at", "n": "arrayReduce('uniqState', CAST(words, 'Array(String)'))"})
    assert read(lake, "at, finalizeAggregation(n)") == [(AT[0], 2), (AT[1], 1)]


def test_skip_indices_projections_codecs_and_constraints_come_with_the_period(lake: Lake) -> None:
    create(
        lake,
        "a UInt64 CODEC(Delta, ZSTD), b String, INDEX of_a a TYPE minmax, INDEX of_b b TYPE bloom_filter, "
        "CONSTRAINT small CHECK a < 1000, PROJECTION sums (SELECT b, sum(a) GROUP BY b), "
        "PROJECTION sorted (SELECT * ORDER BY a)",
    )
    put(lake, a=[1, 2], b=["x", "y"])
    lake.load()
    parts = read(
        lake,
        "1, (SELECT any(secondary_indices_compressed_bytes > 0) FROM system.parts WHERE active AND rows > 0 "
        f"AND database = '{lake.database}' AND table = 'trips'), "
        "(SELECT sum(rows) FROM system.projection_parts WHERE active "
        f"AND database = '{lake.database}' AND table = 'trips' AND name = 'sorted')",
    )
    assert {row[1:] for row in parts} == {(1, 2)}
    by_projection = "GROUP BY b ORDER BY b SETTINGS force_optimize_projection = 1"
    rows = lake.on_every_node(f"SELECT b, sum(a) FROM {lake.database}.trips {by_projection}")
    assert [row for each in rows for row in each] == [("x", 1), ("y", 2)]


@pytest.mark.thorough
@pytest.mark.three_nodes
def test_a_row_that_a_constraint_forbids_stops_the_load(lake: Lake) -> None:
    create(lake, "a UInt64, CONSTRAINT small CHECK a < 1000")
    put(lake, a=[1, 1000])
    with pytest.raises(AirflowFailException, match=r"Constraint .*small"):
        lake.load()
    assert not any(lake.rows_per_node())
