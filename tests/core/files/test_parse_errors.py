"""The error for a file that ClickHouse cannot read: its own reason, without SQL, and the way out."""

from __future__ import annotations

import pytest

from airflow_provider_chs3.core.files.parse_errors import file_of, reason_of, unreadable
from airflow_provider_chs3.core.model.store_kind import format_named
from airflow_provider_chs3.exceptions import ClickHouseServerError

PARSED = (
    "Received from node:9000. Cannot parse input: expected ',' before: 'x': (while reading the value of key n): "
    "(at row 1234)\n: Buffer has gone: (in file/uri lake/trips/a (1).jsonl): While executing "
    "ParallelParsingBlockInputFormat: While executing Read"
)
CAST = (
    "Received from node:9000. Cannot read array from text, expected comma or end of array, found 'n': while executing "
    "'FUNCTION CAST(__table1.v :: 0, 'Array(Int256)'_String :: 3) -> CAST(__table1.v, 'Array(Int256)'_String) : 1'"
)
WRAPPED = (
    "The table structure cannot be extracted from a CSVWithNames format file. Error:\nCode: 354. inflate failed: data "
    "error: While reading from: lake/a.csv.gz. (ZLIB_INFLATE_FAILED) (version 26.9.2.1).\nYou can specify the "
    "structure manually: (in file/uri trips/2026-10/a.csv.gz)"
)
UNKNOWN = (
    "Tuple doesn't have element with name 'x', enable setting input_format_json_ignore_unknown_keys_in_named_tuple: "
    "(while reading the value of key t): (at row 2)\n: (in file/uri lake/a.jsonl): While executing Read"
)

LACKING = (
    "JSON object doesn't contain tuple element y. If you want to insert defaults in case of missing elements, enable "
    "setting input_format_json_defaults_for_missing_elements_in_named_tuple: (while reading the value of key n)"
)


def error(message: str) -> ClickHouseServerError:
    return ClickHouseServerError(117, "INCORRECT_DATA", message, "node:9000")


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (PARSED, "Cannot parse input: expected ',' before: 'x'"),
        (CAST, "Cannot read array from text, expected comma or end of array, found 'n'"),
        (WRAPPED, "inflate failed: data error"),
        (UNKNOWN, "Tuple doesn't have element with name 'x'"),
        (LACKING, "JSON object doesn't contain tuple element y"),
        ("Unexpected number of elements. Expected no more than 2 (consider enabling a setting)", None),
    ],
)
def test_the_reason_is_clickhouses_own_without_sql_or_settings(message, reason):
    assert reason_of(error(message)) == (reason or "Unexpected number of elements. Expected no more than 2")


def test_the_file_is_that_of_the_message():
    assert [file_of(error(each)) for each in (PARSED, CAST)] == ["lake/trips/a (1).jsonl", ""]


def test_row_and_column_are_told():
    assert unreadable("lake/a.jsonl", format_named("JSONEachRow"), error(PARSED)) == (
        "row 1,234 of lake/a.jsonl, column 'n' cannot be read as JSONEachRow: Cannot parse input: expected ',' before: "
        "'x'. Fix the file."
    )


@pytest.mark.parametrize(
    ("message", "way_out"),
    [
        ("found \\r (CR) not followed by \\n (LF): (at row 1)", "Its lines end with \\r alone"),
        ('Duplicate column name found while schema inference: "x".', "Rename one of them in the file"),
        ("Cannot add column x: column with this name already exists.", "Rename one of them in the file"),
        ("ZSTD stream decoding failed: error 'Unknown frame descriptor'", "not compressed as its key says"),
        ("lzma_stream_decoder failed: error code: error code LZMA_BUF_ERROR", "not compressed as its key says"),
        ("Malformed compressed page: read stage: ColumnData: column: f", "or it is valid"),
        ("Error while reading Parquet data: IOError: Corrupt Lz4 compressed data", "or it is valid"),
        ("Incorrect surrogate pair of unicode escape sequences in JSON", "Half of a surrogate pair"),
        ("Nullable/LowCardinality(Nullable) types are not allowed inside Variant type", "leave the key out"),
        ("Expected end of line: (at row 1)", "describe how its fields are written in csv={…}"),
    ],
)
def test_the_way_out_follows_from_the_reason(message, way_out):
    assert way_out in unreadable("lake/a.csv", format_named("CSVWithNames"), error(message))
