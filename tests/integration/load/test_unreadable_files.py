"""Files that cannot be loaded get one error that says object, row and column, and the way out."""

from __future__ import annotations

import gzip
import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.integration.valued import AT, PREFIX, arrow, create, loaded
from tests.support.lake import Lake
from tests.support.refusal import refused


def ipc_stream() -> bytes:
    table, stream = pa.table({"n": [1]}), io.BytesIO()
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    return stream.getvalue()


FILES: dict[str, tuple[str, str, bytes, str]] = {
    "UTF-16, as Excel writes it": (
        "n Int32",
        "a.csv",
        f"ts,n\n{AT},1\n".encode("utf-16"),
        r"column names of \S+a.csv are not UTF-8: b'\\xff.* Write the file as UTF-8",
    ),
    "a name in Latin-1, of a column that is not loaded": (
        "n Int32",
        "a.csv",
        f"ts,n,caf\xe9\n{AT},1,2\n".encode("latin-1"),
        r"are not UTF-8: b'caf\\xe9'",
    ),
    "the name of an element with escapes": (
        "t Tuple(id Int32, `größe` Nullable(Float64))",
        "a.jsonl",
        json.dumps({"ts": AT, "t": {"id": 1, "größe": 1.5}}).encode(),
        r"a.jsonl, column 't' has the key 'gr\\u00f6\\u00dfe', written with escapes.* ensure_ascii=False",
    ),
    "a column twice that is loaded": (
        "n Int32",
        "a.csv",
        f"ts,n,n\n{AT},1,2\n".encode(),
        r"a.csv cannot be read as CSVWithNames: .*n.* Rename one of them in the file",
    ),
    "an IPC stream": ("n Int32", "a.arrow", ipc_stream(), r"a.arrow cannot be read as Arrow: .* pyarrow.ipc.new_file"),
    "NULL in an array of CSV": (
        "v Array(Int32)",
        "a.csv",
        f'ts,v\n{AT},"[1]"\n{AT},"[1,null]"\n'.encode(),
        r"Column 'v' is Array\(Int32\), but row 2 of \S+a.csv has '\[1,null\]' for it: Cannot read array",
    ),
    "a number out of range in an array of CSV": (
        "v Array(Int8)",
        "a.csv",
        f'ts,v\n{AT},"[1]"\n{AT},"[300]"\n'.encode(),
        r"Column 'v' is Array\(Int8\), but row 2 of \S+a.csv has '\[300\]' for it\. Widen",
    ),
    "compressed data that ends too early": (
        "n Int32",
        "a.csv.gz",
        gzip.compress(b"ts,n\n" + b"".join(f"{AT},{n * n}\n".encode() for n in range(9_000)))[:-2_000],
        r"a.csv.gz cannot be read as CSVWithNames: inflate failed.*damaged, or not compressed as its key says",
    ),
    "compressed data that is none": (
        "n Int32",
        "a.csv.gz",
        b"hello",
        r"a.csv.gz cannot be read .*files={'compression': …}",
    ),
    "a first row that is too short": (
        "n Int32, m Int32",
        "a.csv",
        f"ts,n,m\n{AT},1\n".encode(),
        r"^row 1 of \S+a.csv\b.* cannot be read as CSVWithNames",
    ),
    "a first row that is too long": (
        "n Int32",
        "a.csv",
        f"ts,n\n{AT},1,2\n".encode(),
        r"^row 1 of \S+a.csv cannot be read as CSVWithNames: Expected end of line",
    ),
    "text behind a quote in the first row": (
        "s String",
        "a.csv",
        f'ts,s\n{AT},"ab"c\n'.encode(),
        r"^row 1 of \S+a.csv cannot be read as CSVWithNames: Expected end of line",
    ),
    "line ends of old Macs": (
        "n Int32",
        "a.csv",
        f"ts,n\r{AT},1\r{AT},2\r".encode(),
        r"Lines seem to end with \\r alone: end them with \\n",
    ),
    "a line end, and nothing else": ("n Int32", "a.csv", b"\n", r"a.csv begins with an empty line .*'skip_lines'"),
    "keys in capitals": (
        "n Int32",
        "a.jsonl",
        json.dumps({"TS": AT, "N": 1}).encode(),
        r"Names must match exactly, and 'TS' does not\. (?!.*null_as_default)",
    ),
}


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("what", FILES)
def test_a_file_is_refused_with_its_reason(lake: Lake, what: str) -> None:
    columns, key, body, told = FILES[what]
    create(lake, columns)
    lake.put(PREFIX + key, body)
    refused(lake, told)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("header", "options"), [("ts,n,x,x", {}), ("ts,n,x,x", {"columns": ["ts", "n"]}), ("ts,n,,", {})]
)
def test_names_that_come_twice_do_not_matter_where_they_are_not_loaded(
    lake: Lake, header: str, options: dict[str, Any]
) -> None:
    create(lake, "n Int32")
    assert loaded(lake, "a.csv", f"{header}\n{AT},1,2,3\n".encode(), "n", **options) == [1]


@pytest.mark.thorough
def test_half_a_surrogate_pair_stays_as_it_is_written_if_the_user_says_so(lake: Lake) -> None:
    create(lake, "s String")
    row = json.dumps({"ts": AT, "s": "a", "other": "\ud800", "more": [{"x": "\udbff!"}]})
    written = json.dumps({"ts": AT, "s": "b\ud800!"})
    lake.put(f"{PREFIX}a.jsonl", f"{row}\n{written}\n".encode())
    told = r"^row 1 of \S+a.jsonl.* cannot be read .*: [^.]*surrogate[^.]*\. Half of a surrogate pair .*_escape"
    refused(lake, told)
    settings = {"input_format_json_throw_on_bad_escape_sequence": 0}
    assert loaded(lake, "a.jsonl", f"{row}\n{written}\n".encode(), "s", settings=settings) == ["a", r"b\ud800!"]


@pytest.mark.thorough
@pytest.mark.parametrize("codec", ["snappy", "lz4", "zstd", "gzip"])
def test_a_page_without_a_byte_of_values_is_called_valid(lake: Lake, codec: str) -> None:
    create(lake, "n Int32, f Nullable(Float32)")
    lake.put(f"{PREFIX}a.parquet", as_spark_writes_nulls(codec))
    if codec in ("snappy", "lz4"):
        refused(
            lake, r"a.parquet cannot be read as Parquet: .* or it is valid but .* Leave the column out with columns="
        )
        lake.load(columns=["ts", "n"])
    else:
        lake.load()
    assert lake.on_node(0, f"SELECT n, f FROM {lake.database}.trips") == [(1, None), (2, None)]


def as_spark_writes_nulls(codec: str) -> bytes:
    """A page of version 2 that says that its values are compressed, and has not a byte of them."""
    nulls, moments = pa.array([None, None], pa.float32()), pa.array([f"{AT}Z"] * 2).cast(pa.timestamp("s", "UTC"))
    table, file = pa.table({"ts": moments, "n": pa.array([1, 2], pa.int32()), "f": nulls}), io.BytesIO()
    pq.write_table(
        table, file, data_page_version="2.0", compression=codec, use_dictionary=False, write_statistics=False
    )
    start = pq.ParquetFile(file).metadata.row_group(0).column(2).data_page_offset
    # No bytes of repetition levels, and `is_compressed`, which pyarrow sets to false here, and Spark to true.
    at = file.getvalue().index(bytes.fromhex("1500121c"), start)
    return file.getvalue()[: at + 2] + b"\x11" + file.getvalue()[at + 3 :]


def test_an_expression_that_fails_tells_object_and_row(lake: Lake) -> None:
    create(lake, "n Nullable(String)")
    lake.put(PREFIX + "a.csv", f"ts,n\n{AT},1\n{AT},2\n{AT},3\n".encode())
    lake.put(PREFIX + "b.csv", f"ts,n\n{AT},1\nnonsense,2\n{AT},3\n".encode())
    told = r"^Column 'ts' cannot be filled from row 2 of \S+b.csv: Cannot read DateTime: unexpected word\. Fix the file"
    refused(lake, told, select={"n": "n", "ts": "parseDateTimeBestEffort(ts)"})


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("column", "key", "body"),
    [
        ("Map(String, Int32)", "a.csv", f"ts,v\n{AT},\n".encode()),
        ("Tuple(a String, b String)", "a.jsonl", json.dumps({"ts": AT, "v": None}).encode()),
        ("Array(String)", "a.jsonl", json.dumps({"ts": AT}).encode()),
    ],
)
def test_what_stands_for_a_missing_container_is_never_loaded(lake: Lake, column: str, key: str, body: bytes) -> None:
    create(lake, f"v {column}")
    lake.put(PREFIX + key, body)
    refused(lake, r"Column 'v' is .*has NULL, or missing, for it .*select=\{…\}\.$", null_as_default=True)


UNREAD = {
    "run_end": pa.RunEndEncodedArray.from_arrays(pa.array([2], pa.int32()), pa.array([7], pa.int32())),
    "list_view": pa.array([[1], [2]], pa.list_view(pa.int32())),
    "interval": pa.array([pa.MonthDayNano([1, 2, 3]), None], pa.month_day_nano_interval()),
}


class TestColumnsOfArrowThatServersDoNotRead:
    @pytest.mark.thorough
    def test_do_not_matter_where_they_are_not_loaded(self, lake: Lake) -> None:
        create(lake, "n Int32, m Nullable(String), d String DEFAULT 'x'")
        body = arrow(n=pa.array([1, 2]), m=pa.nulls(2), nulls=pa.nulls(2), **UNREAD)
        assert loaded(lake, "a.arrow", body, "(n, m, d)") == [(1, None, "x"), (2, None, "x")]
        select = {"ts": "ts", "n": "n + 1", "m": "ifNull(nulls, 'y')"}
        assert loaded(lake, "a.arrow", body, "(n, m, d)", select=select) == [(2, "y", "x"), (3, "y", "x")]

    @pytest.mark.parametrize("name", UNREAD)
    @pytest.mark.thorough(but=1)
    def test_are_named_where_they_are_loaded_and_no_default_stands_for_them(self, lake: Lake, name: str) -> None:
        create(lake, f"n Int32, {name} String DEFAULT 'x'")
        body = arrow(n=pa.array([1, 2]), **{name: UNREAD[name]})
        lake.put(PREFIX + "a.arrow", body)
        for options in ({}, {"select": {"ts": "ts", name: f"toString({name})"}}):
            refused(lake, rf"a.arrow cannot be read as Arrow: .*{name}.*Leave the column out with columns=", **options)
        assert loaded(lake, "a.arrow", body, "n", columns=["ts", "n"]) == [1, 2]
