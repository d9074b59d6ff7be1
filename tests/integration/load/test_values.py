"""Every value is loaded as the file has it, or the load names object, row and column, and nothing is published."""

from __future__ import annotations

import datetime as dt
import gzip
import json
from decimal import Decimal

import pyarrow as pa
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from tests.integration.valued import AT, PREFIX, create, create_each, loaded, parquet, values
from tests.support.lake import Lake
from tests.support.refusal import loaded_or_wrongly_refused, refused

VIRTUAL = ["_path", "_file", "_size", "_time", "_etag"]


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["csv", "csv.gz", "tsv", "jsonl", "parquet"])
def test_source_columns_with_the_names_of_virtual_ones_do_not_matter(lake: Lake, kind: str) -> None:
    create(lake, "n Int32")
    lines = [["ts", "n", *VIRTUAL], [AT, "1", *"x" * 5], [AT, "2", *"y" * 5]]
    bodies = {
        "csv": "\n".join(",".join(line) for line in lines).encode(),
        "csv.gz": gzip.compress("\n".join(",".join(line) for line in lines).encode()),
        "tsv": "\n".join("\t".join(line) for line in lines).encode(),
        "jsonl": "\n".join(json.dumps(dict(zip(lines[0], line, strict=True))) for line in lines[1:]).encode(),
        "parquet": parquet(n=pa.array([1, 2]), **{name: ["x", "y"] for name in VIRTUAL}),
    }
    assert loaded(lake, f"a.{kind}", bodies[kind], "n") == [1, 2]


@pytest.mark.thorough
def test_a_column_that_hides_the_path_of_its_file_is_refused_where_it_is_loaded(lake: Lake) -> None:
    create(lake, "_path String, n Int32")
    lake.put(PREFIX + "a.csv", f"ts,_path,n\n{AT},x,5\n".encode())
    refused(lake, r"have a column '_path'.*Rename the column in the files, or load the others with columns=\[…\]")
    lake.load(columns=["ts", "n"])
    assert values(lake, "n") == [5]


@pytest.mark.thorough
def test_a_quoted_empty_field_of_csv_is_a_text(lake: Lake) -> None:
    create(lake, "s String, n Nullable(String)")
    assert loaded(lake, "a.csv", f'ts,s,n\n{AT},"",""\n'.encode(), "(s, n)") == [("", "")]


@pytest.mark.thorough
def test_a_quoted_empty_field_of_csv_is_nothing_but_a_text(lake: Lake) -> None:
    types = ["Int32", "Date", *(f"Nullable({each})" for each in ("Int32", "Int64", "Decimal(9, 2)", "Float64"))]
    columns = create_each(lake, types)
    quoted = ",".join('""' for _ in columns)
    lake.put(PREFIX + "a.csv", f"ts,{','.join(columns)}\n{AT},{quoted}\n".encode())
    matches = {name: rf"Column '{name}' is .*, but row 1 of .*a.csv has ''" for name in columns}
    assert loaded_or_wrongly_refused(lake, matches) == {}


@pytest.mark.thorough
@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_an_empty_field_is_null(lake: Lake, ending: str) -> None:
    create(lake, "n Nullable(Int32), d Nullable(Date), s String")
    separator = "," if ending == "csv" else "\t"
    body = f"ts{separator}n{separator}d{separator}s\n{AT}{separator * 3}\n".encode()
    assert loaded(lake, f"a.{ending}", body, "(n, d, s)") == [(None, None, "")]


UNFIT_TEXTS = [
    ("Date", "2026-02-31"),
    ("Date32", "2026-13-01"),
    ("DateTime('UTC')", "2026-10-01 25:00:00"),
    ("DateTime64(3, 'UTC')", "2026-10-01 10:75:00"),
    ("DateTime('America/New_York')", "2026-03-08 02:30:00"),
    ("DateTime('UTC')", "2026-10-01 10:00:00.5"),
    ("Decimal(9, 2)", "1.239"),
    ("Decimal(9, 2)", "1e-3"),
    ("Decimal(5, 2)", "12345.67"),
    ("Int128", "340282366920938463463374607431768211455"),
    ("Float64", "1e400"),
    ("UInt8", "256"),
    ("Int32", "5.0"),
    ("Int32", "NA"),
]


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(("ending", "nullable"), [("csv", False), ("csv", True), ("tsv", False), ("jsonl", True)])
def test_texts_that_the_columns_cannot_hold_as_they_are_written(lake: Lake, ending: str, nullable: bool) -> None:
    # JSON has no 5.0 that is not 5, see below.
    unfit = [each for each in UNFIT_TEXTS if ending != "jsonl" or each[1] != "5.0"]
    columns = create_each(lake, [f"Nullable({of})" if nullable else of for of, _ in unfit])
    good = ["2026-10-01" if of.startswith("Date") else "1" for of, _ in unfit]
    lake.put(f"{PREFIX}a.{ending}", _lines(ending, columns, good, [text for _, text in unfit]).encode())
    matches = dict.fromkeys(columns, rf"row 2 of {lake.bucket}/{PREFIX}a.{ending}")
    assert loaded_or_wrongly_refused(lake, matches) == {}


def _lines(ending: str, columns: list[str], good: list[str], bad: list[str]) -> str:
    if ending != "jsonl":
        separator = "," if ending == "csv" else "\t"
        return "\n".join(separator.join(line) for line in (["ts", *columns], [AT, *good], [AT, *bad]))
    # In the second line, numbers are written as such.
    values = [json.dumps(text) if ":" in text or text.count("-") == 2 or text == "NA" else text for text in bad]
    second = ", ".join(f'"{name}": {value}' for name, value in zip(columns, values, strict=True))
    return json.dumps({"ts": AT, **dict(zip(columns, good, strict=True))}) + f'\n{{"ts": "{AT}", {second}}}'


@pytest.mark.thorough
@pytest.mark.newer("cast to Time or NULL that is NULL for the wrong ones alone: its error names the first row")
def test_a_time_of_day_that_there_is_not_is_refused(lake: Lake) -> None:
    create(lake, "n Nullable(Time)")
    lake.put(PREFIX + "a.csv", f"ts,n\n{AT},10:06:00\n{AT},10:61:00\n".encode())
    refused(lake, r"'n' is .*row 2 of .*a.csv has '10:61:00'")


@pytest.mark.thorough
def test_times_of_day_and_wide_integers_of_typed_files(lake: Lake) -> None:
    create(lake, "t Time64(6), n Int128")
    times = pa.array([0, 86_399_999_999], pa.time64("us"))
    body = parquet(t=times, n=pa.array([Decimal(-55), Decimal(10) ** 37], pa.decimal128(38, 0)))
    found = loaded(lake, "a.parquet", body, "(toString(t), n)")
    assert found == [("00:00:00.000000", -55), ("23:59:59.999999", 10**37)]


@pytest.mark.thorough
def test_texts_in_containers_of_tsv_are_escaped_once(lake: Lake) -> None:
    create(lake, "t Tuple(a Nullable(Date), b String), l Array(String)")
    body = f"ts\tt\tl\n{AT}\t(NULL,'\\\\N')\t['it\\'s','\\t']\n".encode()
    assert loaded(lake, "a.tsv", body, "(t.1, t.2, l)") == [(None, "\\N", ["it's", "\t"])]


@pytest.mark.thorough
def test_null_of_typed_files_is_null_in_narrower_types(lake: Lake) -> None:
    create(lake, "t Nullable(Time), d Nullable(DateTime('Australia/Lord_Howe'))")
    body = parquet(t=pa.array([None, 5], pa.time32("s")), d=pa.array([None, 86_400], pa.timestamp("s")))
    found = loaded(lake, "a.parquet", body, "(toString(t), toString(d))", naive_timestamps="column_zone")
    assert sorted(found, key=str) == [("00:00:05", "1970-01-02 00:00:00"), (None, None)]


@pytest.mark.thorough
def test_an_empty_name_of_an_enum_is_no_null_in_tsv(lake: Lake) -> None:
    create(lake, "e Nullable(Enum8('' = 0, 'a' = 1))")
    body = f"ts\te\n{AT}\t\n{AT}\ta\n{AT}\t\\N\n".encode()
    found = loaded(lake, "a.tsv", body, "toString(e)")
    assert sorted(found, key=str) == ["", None, "a"]


@pytest.mark.thorough
def test_tiny_doubles_keep_their_digits_in_wide_decimals(lake: Lake) -> None:
    create(lake, "n Decimal(76, 62)")
    found = loaded(lake, "a.parquet", parquet(n=pa.array([-4.77e-60, 1e-62])), "n")
    assert sorted(found) == [Decimal("-4.77e-60"), Decimal("1e-62")]


@pytest.mark.thorough
def test_doubles_become_the_nearest_decimal(lake: Lake) -> None:
    create(lake, "n Decimal(9, 2)")
    cents = list(range(10_000))
    found = loaded(lake, "a.parquet", parquet(n=pa.array([cent / 100 for cent in cents])), "n")
    assert found == [Decimal(cent).scaleb(-2) for cent in cents]


UNFIT_VALUES = [
    ("Decimal(9, 2)", pa.array([0.29, 1.239])),
    ("Nullable(Decimal(9, 2))", pa.array([Decimal("0.290"), Decimal("1.239")])),
    ("Array(Decimal(9, 2))", pa.array([[Decimal("0.290")], [Decimal("1.239")]])),
    ("Decimal(5, 2)", pa.array([Decimal("1.00"), Decimal("12345.67")])),
    ("DateTime('UTC')", pa.array([0, 500], pa.timestamp("ms", "UTC"))),
    ("Date", pa.array([0, 1], pa.timestamp("s", "UTC"))),
    ("Float32", pa.array([0.1, 1e300])),
    ("Bool", pa.array([1, 2])),
    # Microseconds of the year 52951, as nanoseconds that are declared as such have them.
    ("DateTime64(6, 'UTC')", pa.array([0, 1_608_822_900_000_000_000], pa.timestamp("us", "UTC"))),
    (
        "Array(DateTime64(3, 'UTC'))",
        pa.array([[0], [0, 1_608_822_900_000_000]], pa.list_(pa.timestamp("ms", "UTC"))),
    ),
    ("Time64(3)", pa.array([1_000_000, 100_000], pa.time64("ns"))),
    ("Time", pa.array([1000, -1000], pa.time32("ms"))),
    ("Int128", pa.array([Decimal("-55.00"), Decimal("0.50")])),
    ("Nullable(Int32)", pa.array(["1", "x"])),
    ("Array(Nullable(Int32))", pa.array([["1"], ["x"]])),
    ("Tuple(a Nullable(Int32))", pa.array([{"a": "1"}, {"a": "x"}])),
]


def test_typed_values_that_the_columns_cannot_hold(lake: Lake) -> None:
    columns = create_each(lake, [column_type for column_type, _ in UNFIT_VALUES])
    arrays = [array for _, array in UNFIT_VALUES]
    lake.put(PREFIX + "a.parquet", parquet(**dict(zip(columns, arrays, strict=True))))
    matches = {name: rf"Column '{name}' is .*row 2 of .*a.parquet" for name in columns}
    assert loaded_or_wrongly_refused(lake, matches) == {}


@pytest.mark.thorough
def test_first_and_last_days_of_calendars_are_loaded(lake: Lake) -> None:
    create(lake, "n DateTime64(6, 'UTC')")
    far = [dt.datetime(1900, 1, 1), dt.datetime(2299, 12, 31, 23, 59, 59, 999999)]
    assert loaded(lake, "a.parquet", parquet(n=pa.array(far, pa.timestamp("us", "UTC"))), "toString(n)") == [
        "1900-01-01 00:00:00.000000",
        "2299-12-31 23:59:59.999999",
    ]


@pytest.mark.thorough
def test_null_in_json_is_null(lake: Lake) -> None:
    create_each(
        lake,
        [
            "Nullable(Float32)",
            "Nullable(Float64)",
            "Tuple(a Nullable(Int32), b String)",
            "Array(Nullable(Float64))",
            "Int8",
        ],
    )
    lines = [
        ["null", "null", '{"a": null, "b": "x"}', "[null]", "0"],
        ["253", "1e3", '{"a": 1, "b": ""}', "[1, null]", "1"],
        ["0.5", "1", '{"a": 1, "b": ""}', "[]", "2"],
    ]
    body = "\n".join(
        f'{{"ts": "{AT}", ' + ", ".join(f'"v{number}": {text}' for number, text in enumerate(line)) + "}"
        for line in lines
    )
    assert loaded(lake, "a.jsonl", body.encode(), "(v4, v0, v1, v2, v3)") == [
        (0, None, None, (None, "x"), [None]),
        (1, 253.0, 1000.0, (1, ""), [1.0, None]),
        (2, 0.5, 1.0, (1, ""), []),
    ]


@pytest.mark.thorough
@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_a_decimal_may_have_an_exponent(lake: Lake, ending: str) -> None:
    create(lake, "n Decimal(76, 3)")
    texts = ["1.234567890123456789012345679E+64", "15e-1", "100E-2", "0.5e+1"]
    if ending == "csv":
        body = "\n".join(["ts,n", *(f"{AT},{text}" for text in texts)])
    else:
        body = "\n".join(f'{{"ts": "{AT}", "n": {text}}}' for text in texts)
    assert loaded(lake, f"a.{ending}", body.encode(), "n") == sorted(map(Decimal, texts))


@pytest.mark.thorough
@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_maps_of_text(lake: Lake, ending: str) -> None:
    create(lake, "m Map(String, UInt8)")
    separator = "," if ending == "csv" else "\t"
    lines = [f"ts{separator}m", f"{AT}{separator}{{'a':1}}", f"{AT}{separator}{{}}"]
    assert loaded(lake, f"a.{ending}", "\n".join(lines).encode(), "toString(m)") == ["{'a':1}", "{}"]
    lake.put(f"{PREFIX}a.{ending}", "\n".join([*lines, f"{AT}{separator}"]).encode())
    refused_again(lake, f"row 3 of .*a.{ending}")


def refused_again(lake: Lake, match: str) -> None:
    """The load stops, and the period is as it was published before."""
    before = values(lake, "tuple(*)")
    with pytest.raises(AirflowFailException, match=match):
        lake.load()
    assert values(lake, "tuple(*)") == before


@pytest.mark.thorough
def test_nested_columns_of_json_lines(lake: Lake) -> None:
    create(lake, "n Nested(a UInt8, b String)")
    lines = f'{{"ts": "{AT}", "n": {{"a": [1, 2], "b": ["x", "y"]}}}}'.encode()
    assert loaded(lake, "a.jsonl", lines, "(n.a, n.b)") == [([1, 2], ["x", "y"])]


def test_a_key_that_a_line_lacks_is_no_empty_value(lake: Lake) -> None:
    types = ["Array(UInt8)", "Map(String, UInt8)", "Tuple(a UInt8, b Array(String))", "Nested(a UInt8)", "JSON"]
    columns = create_each(lake, types)
    columns[3] += ".a"
    lake.put(PREFIX + "a.jsonl", f'{{"ts": "{AT}", "m": 1}}'.encode())
    matches = {name: rf"Column '{name}' is .*row 1 of .*a.jsonl" for name in columns}
    assert loaded_or_wrongly_refused(lake, matches) == {}


@pytest.mark.thorough
def test_keys_of_json_lines_differ_by_case(lake: Lake) -> None:
    create(lake, "c Int32")
    assert loaded(lake, "a.jsonl", f'{{"ts": "{AT}", "C": 4, "c": 3}}'.encode(), "c") == [3]


@pytest.mark.thorough
def test_a_key_of_a_tuple_that_writers_escape_is_not_lost(lake: Lake) -> None:
    create(lake, "v Array(Tuple(n Int32, `R&D` Nullable(Int32)))")
    lake.put(PREFIX + "a.jsonl", f'{{"ts": "{AT}", "v": [{{"n": 1, "R\\u0026D": 2}}]}}'.encode())
    refused(lake, "R")
