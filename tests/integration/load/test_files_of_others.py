"""Files as other programs write them, of which ClickHouse by itself makes something else."""

from __future__ import annotations

import gzip
import json
import struct

import pyarrow as pa
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from tests.integration.valued import AT, PREFIX, create, loaded, parquet, values
from tests.support.lake import Lake

JSON_TEXTS = ['{"d":"2026-02-31"}', '{"a":null,"b":1.10}', "[1,2]", "null", '{"z":1, "a.b":2}']
WKB = struct.pack("<BIdd", 1, 1, 1.5, 2.5)
GEO = {"version": "1.0.0", "primary_column": "n", "columns": {"n": {"encoding": "WKB", "geometry_types": ["Point"]}}}


def json_column(texts: list[str]) -> pa.Array:
    return pa.ExtensionArray.from_storage(pa.json_(), pa.array(texts))


@pytest.mark.thorough
@pytest.mark.parametrize("column", ["String", "Nullable(String)", "Dynamic"])
def test_json_in_parquet_is_the_text_that_it_is(lake: Lake, column: str) -> None:
    create(lake, f"n {column}")
    found = loaded(lake, "a.parquet", parquet(n=json_column(JSON_TEXTS)), "toString(n)")
    assert sorted(found) == sorted(JSON_TEXTS)


@pytest.mark.thorough
def test_json_in_parquet_goes_into_a_column_of_json(lake: Lake) -> None:
    create(lake, "n JSON")
    body = parquet(n=json_column(['{"d":"2026-02-31"}']))
    assert loaded(lake, "a.parquet", body, "toString(n.d)") == ["2026-02-31"]


@pytest.mark.thorough
def test_bytes_of_geoparquet_stay_bytes_in_a_column_of_text(lake: Lake) -> None:
    create(lake, "n String")
    body = parquet(metadata={"geo": json.dumps(GEO)}, n=pa.array([WKB], pa.binary()))
    assert loaded(lake, "a.parquet", body, "hex(n)") == [WKB.hex().upper()]


@pytest.mark.thorough
def test_they_are_points_in_a_column_of_points(lake: Lake) -> None:
    create(lake, "n Point")
    body = parquet(metadata={"geo": json.dumps(GEO)}, n=pa.array([WKB], pa.binary()))
    assert loaded(lake, "a.parquet", body, "toString(n)") == ["(1.5,2.5)"]


@pytest.mark.thorough
@pytest.mark.parametrize("file_format", ["CSV", "TabSeparated"])
def test_a_first_row_that_looks_like_names_is_a_row(lake: Lake, file_format: str) -> None:
    create(lake, f"n String, at DateTime('UTC') DEFAULT '{AT}'")
    lake.on_every_node(f"ALTER TABLE {lake.database}.trips MODIFY COLUMN ts DateTime('UTC') DEFAULT '{AT}'")
    lake.put(f"{PREFIX}a.txt", b"n\nx\ny\n")
    lake.load(file_format=file_format, columns=["n"])
    assert sorted(values(lake, "n")) == ["n", "x", "y"]


@pytest.mark.parametrize("column", ["String", "FixedString(26)", "Array(String)", "Dynamic"])
@pytest.mark.thorough
def test_a_time_beyond_the_calendar_is_no_text(lake: Lake, column: str) -> None:
    create(lake, f"n {column}")
    array = pa.array([1_608_822_900_000_000_000], pa.timestamp("us", "UTC"))
    lists = pa.array([[1_608_822_900_000_000_000]], pa.list_(pa.timestamp("us", "UTC")))
    lake.put(f"{PREFIX}a.parquet", parquet(n=lists if column.startswith("Array") else array))
    with pytest.raises(AirflowFailException, match="Column 'n'"):
        lake.load()


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("delimiter", ["\t", " "])
def test_any_one_character_may_part_fields(lake: Lake, delimiter: str) -> None:
    create(lake, "n Int32, m String")
    body = f"n,m,ts\n1,x,{AT}\n".replace(AT, '"' + AT + '"').replace(",", delimiter)
    assert loaded(lake, "a.csv", body.encode(), "(n, m)", csv={"delimiter": delimiter}) == [(1, "x")]


@pytest.mark.thorough
@pytest.mark.parametrize("column", ["Int64", "Nullable(UInt256)"])
def test_whole_numbers_of_json_may_have_a_point(lake: Lake, column: str) -> None:
    create(lake, f"n {column}")
    lines = f'{{"ts":"{AT}","n":7.0}}\n{{"ts":"{AT}","n":8}}\n'
    assert sorted(loaded(lake, "a.jsonl.gz", gzip.compress(lines.encode()), "toInt64(n)")) == [7, 8]
