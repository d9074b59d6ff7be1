"""Whoever follows the advice of a refusal about values gets the values of the file."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tests.integration.valued import AT, PREFIX, create, int96, loaded, parquet
from tests.support.lake import Lake
from tests.support.refusal import refused

TIME = dt.datetime(2026, 10, 5, 1, 2, 3, 456789)
FAR_TICKS = 1_608_822_900_000_000_000
NAIVE = pa.array([TIME], pa.timestamp("us"))


@dataclass(frozen=True)
class Advice:
    """A refusal, and the load that follows its advice."""

    column: str
    key: str
    body: bytes
    says: str
    followed: dict[str, Any] = field(default_factory=dict)
    values: tuple[str, ...] = ()
    widened: str = ""
    given: dict[str, Any] = field(default_factory=dict)


def csv(*texts: str) -> bytes:
    return "\n".join(["ts,n", *(f"{AT},{text}" for text in texts)]).encode()


def select(expression: str) -> dict[str, Any]:
    return {"select": {"ts": "ts", "n": expression}}


def of_text(expression: str) -> dict[str, Any]:
    return {"select": {"ts": "parseDateTimeBestEffort(ts)", "n": expression}}


LOSSY = {"lossy_columns": ["n"]}
CASES = {
    "lossy decimal": Advice(
        "Decimal(5, 2)",
        "a.parquet",
        parquet(n=pa.array([Decimal("1.239")])),
        "'1.239'.*lossy_columns",
        LOSSY,
        ("1.23",),
    ),
    "lossy time": Advice(
        "DateTime('UTC')",
        "a.parquet",
        parquet(n=pa.array([TIME], pa.timestamp("us", "UTC"))),
        "'2026-10-05 01:02:03.456789'.*lossy_columns",
        LOSSY,
        ("2026-10-05 01:02:03",),
    ),
    "lossy time as INT96": Advice(
        "DateTime('UTC')",
        "a.parquet",
        int96(n=NAIVE),
        "'2026-10-05 01:02:03.456789000'.*lossy_columns",
        LOSSY,
        ("2026-10-05 01:02:03",),
    ),
    "lossy text": Advice(
        "Nullable(Date)",
        "a.csv",
        csv("2026-10-05 01:02:03"),
        "'2026-10-05 01:02:03'.*lossy_columns",
        LOSSY,
        ("2026-10-05",),
    ),
    "widened column": Advice(
        "UInt8", "a.parquet", parquet(n=pa.array([256])), "'256'.*Widen the column", values=("256",), widened="UInt16"
    ),
    "expression": Advice("UInt8", "a.csv", csv("5.0"), "'5.0'.*select={…}", of_text("toFloat64(n)"), ("5",)),
    "another zone": Advice(
        "DateTime64(6, 'America/New_York')",
        "a.parquet",
        parquet(n=NAIVE),
        r"toDateTime64\(toString\(`n`\), 6, 'America/New_York'\)",
        {"naive_timestamps": "utc"} | select("toDateTime64(toString(`n`), 6, 'America/New_York')"),
        ("2026-10-05 01:02:03.456789",),
    ),
    "times of day": Advice(
        "DateTime('UTC')",
        "a.parquet",
        parquet(n=pa.array([5], pa.time32("s"))),
        "make the column a Time64",
        values=("00:00:05",),
        widened="Time64(0)",
    ),
    "quotes": Advice(
        "String",
        "a.csv",
        csv("'a,b'"),
        "row 1 of .*a.csv cannot be read .*in csv={…}",
        {"csv": {"quote": "'"}},
        ("a,b",),
    ),
    "blank lines": Advice(
        "UInt8",
        "a.csv",
        csv("5", "6") + b"\n\n\n",
        "row 3 of .*a.csv cannot be read .*csv={",
        {"csv": {"blank_lines": "skip_last"}},
        ("5", "6"),
    ),
    "lines before the names": Advice(
        "UInt8", "a.csv", b"\n" + csv("5"), "csv={'skip_lines': …}", {"csv": {"skip_lines": 1}}, ("5",)
    ),
    "a format that the key does not name": Advice(
        "UInt8", "a.dat", csv("5"), "names no format: set it, such as files=", {"file_format": "CSVWithNames"}, ("5",)
    ),
    "a column that files lack": Advice(
        "UInt8", "a.csv", f"ts\n{AT}\n".encode(), r"'n' is missing .*columns=\[…\]", {"columns": ["ts"]}, ("0",)
    ),
    "an element that a struct lacks": Advice(
        "Tuple(a UInt8, b Nullable(UInt8))",
        "a.parquet",
        parquet(n=pa.array([{"a": 5}])),
        "lacks the element `b`.*select={…}",
        select("(n.a, NULL)"),
        ("(5,NULL)",),
    ),
    "lines of Windows": Advice(
        "String",
        "a.tsv",
        f"ts\tn\r\n{AT}\tx\r\n".encode(),
        "a.tsv cannot be read .*settings={'input_format_tsv_crlf_end_of_line': 1}",
        {"settings": {"input_format_tsv_crlf_end_of_line": 1}},
        ("x",),
    ),
    "array of a text that may be NULL": Advice(
        "Array(Int64)",
        "a.csv",
        csv('"[1,2]"'),
        r"assumeNotNull\(field\)",
        of_text("JSONExtract(assumeNotNull(n), 'Array(Int64)')"),
        ("[1,2]",),
        given=of_text("JSONExtract(n, 'Array(Int64)')"),
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.thorough(but=1)
def test_advice_about_values_is_right(lake: Lake, name: str) -> None:
    case = CASES[name]
    create(lake, f"n {case.column}")
    lake.put(PREFIX + case.key, case.body)
    refused(lake, case.says, **case.given)
    if case.widened:
        lake.on_every_node(f"DROP TABLE {lake.database}.trips SYNC")
        create(lake, f"n {case.widened}")
    assert sorted(loaded(lake, case.key, case.body, "toString(n)", **case.followed)) == list(case.values)


@pytest.mark.thorough
def test_a_time_beyond_the_calendar_is_not_shown_as_its_end(lake: Lake) -> None:
    create(lake, "n DateTime64(6, 'UTC')")
    lake.put(PREFIX + "a.parquet", parquet(n=pa.array([FAR_TICKS], pa.timestamp("us", "UTC"))))
    refused(lake, r"row 1 of \S*a.parquet has 1608822900000(\.0+)? seconds after 1970 for it[^;]*$")


@pytest.mark.thorough
def test_no_loss_is_advised_of_a_value_that_is_not_the_files(lake: Lake) -> None:
    create(lake, "n DateTime('UTC')")
    lake.put(PREFIX + "a.parquet", int96(n=pa.array([dt.datetime(1601, 1, 1)], pa.timestamp("us"))))
    refused(lake, "INT96 timestamp out of range[^;]*$")
    refused(lake, "INT96 timestamp out of range[^;]*$", **LOSSY)
