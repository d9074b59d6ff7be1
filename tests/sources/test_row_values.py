"""Each type of a database arrives as the database itself writes it, or is refused by the name of its column."""

from __future__ import annotations

import random
import struct
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from tests.sources.row_lake import RowLake

#: Name → type in the database, type in ClickHouse, value in the database's SQL, value in ClickHouse.
POSTGRES = {
    "small": ("smallint", "Int16", "-32768", -32768),
    "whole": ("integer", "Int32", "2147483647", 2147483647),
    "large": ("bigint", "Int64", "-9223372036854775808", -9223372036854775808),
    "exact": ("numeric(38, 10)", "Decimal(38, 10)", "'1234567890123456789012345678.0123456789'",
              Decimal("1234567890123456789012345678.0123456789")),
    "any_digits": ("numeric", "Decimal(76, 40)", "'-0.1234567890123456789012345678901234567891'",
                   Decimal("-0.1234567890123456789012345678901234567891")),
    "single": ("real", "Float32", "'0.1'", struct.unpack("f", struct.pack("f", 0.1))[0]),
    "dbl": ("double precision", "Float64", "'5e-324'", 5e-324),
    "flag": ("boolean", "Bool", "true", True),
    "txt": ("text", "String", "E'ü \\\\ \\t \\n \\'\\'\"'", "ü \\ \t \n ''\""),
    "label": ("varchar(9)", "LowCardinality(String)", "''", ""),
    "padded": ("char(5)", "String", "'ü'", "ü    "),
    "day": ("date", "Date32", "'1950-02-28'", date(1950, 2, 28)),
    "naive": ("timestamp", "DateTime64(6, 'UTC')", "'2026-01-05 23:59:59.999999'",
              datetime(2026, 1, 5, 23, 59, 59, 999999, tzinfo=UTC)),
    "instant": ("timestamptz", "DateTime64(6, 'Europe/Berlin')", "'2026-01-05 01:00:00.5+05:30'",
                datetime(2026, 1, 4, 19, 30, 0, 500000, tzinfo=UTC)),
    "second": ("timestamptz", "DateTime('UTC')", "'2026-01-05 01:00:00+00'", datetime(2026, 1, 5, 1, tzinfo=UTC)),
    "tod": ("time", "String", "'23:59:59.5'", "23:59:59.5"),
    "ident": ("uuid", "UUID", "'6f1b7c1e-0000-4000-8000-000000000001'", "6f1b7c1e-0000-4000-8000-000000000001"),
    "doc": ("jsonb", "String", "'{\"a\": 1.10}'", '{"a": 1.10}'),
    "raw": ("bytea", "String", "'\\x00ff0a5c'", b"\x00\xff\n\\"),
    "list": ("integer[]", "String", "'{1,NULL,3}'", "{1,NULL,3}"),
    "addr": ("inet", "String", "'10.0.0.1/8'", "10.0.0.1/8"),
    "nothing": ("text", "Nullable(String)", "NULL", None),
}  # fmt: skip
MYSQL = {
    "tiny": ("tinyint(1)", "Int8", "-128", -128),
    "utiny": ("tinyint unsigned", "UInt8", "255", 255),
    "large": ("bigint unsigned", "UInt64", "18446744073709551615", 18446744073709551615),
    "bits": ("bit(64)", "UInt64", "b'1000000000000000000000000000000000000000000000000000000000000001'", 2**63 + 1),
    "yr": ("year", "UInt16", "2026", 2026),
    "exact": ("decimal(38, 10)", "Decimal(38, 10)", "'1234567890123456789012345678.0123456789'",
              Decimal("1234567890123456789012345678.0123456789")),
    "single": ("float", "Float32", "0.1", struct.unpack("f", struct.pack("f", 0.1))[0]),
    "dbl": ("double", "Float64", "5e-324", 5e-324),
    "txt": ("text", "String", "'ü 🚕 \\\\ \\t \\n \"'", 'ü 🚕 \\ \t \n "'),
    "latin": ("varchar(9) character set latin1", "String", "'ü'", "ü"),
    "day": ("date", "Date32", "'1950-02-28'", date(1950, 2, 28)),
    "naive": ("datetime(6)", "DateTime64(6, 'UTC')", "'2026-01-05 23:59:59.999999'",
              datetime(2026, 1, 5, 23, 59, 59, 999999, tzinfo=UTC)),
    "instant": ("timestamp(3)", "DateTime64(3, 'Europe/Berlin')", "'2026-01-05 01:00:00.5'",
                datetime(2026, 1, 5, 1, 0, 0, 500000, tzinfo=UTC)),
    "tod": ("time", "String", "'-838:59:59'", "-838:59:59"),
    "choice": ("enum('a', 'b')", "Enum8('a' = 1, 'b' = 2)", "'b'", "b"),
    "several": ("set('x', 'y')", "String", "'x,y'", "x,y"),
    "doc": ("json", "String", "'{\"a\": 1.10}'", '{"a": 1.10}'),
    "raw": ("varbinary(9)", "String", "x'00ff0a5c'", b"\x00\xff\n\\"),
    "nothing": ("text", "Nullable(String)", "NULL", None),
}  # fmt: skip
#: A date and an instant, as PostgreSQL is given them; texts of the date, of the instant without a zone, and with it.
TIMES = (
    ("2026-01-05", "2026-01-05 01:00:00.5+05:30", "2026-01-05", "2026-01-04 19:30:00.5", "2026-01-04T19:30:00.5Z"),
    ("0001-01-01", "0001-01-01 00:00:00+00", "0001-01-01", "0001-01-01 00:00:00", "0001-01-01T00:00:00Z"),
    ("9999-12-31", "9999-12-31 23:59:59.999999+00", "9999-12-31", "9999-12-31 23:59:59.999999",
     "9999-12-31T23:59:59.999999Z"),
    ("1899-12-31", "1899-12-31 23:59:59.10+00", "1899-12-31", "1899-12-31 23:59:59.1", "1899-12-31T23:59:59.1Z"),
    ("20000-02-29", "20000-02-29 10:00:00+00", "20000-02-29", "20000-02-29 10:00:00", "20000-02-29T10:00:00Z"),
    ("0044-03-15 BC", "0044-03-15 10:00:00+00 BC", "0044-03-15 BC", "0044-03-15 10:00:00 BC", "0044-03-15 10:00:00 BC"),
    ("infinity", "infinity", "infinity", "infinity", "infinity"),
    ("-infinity", "-infinity", "-infinity", "-infinity", "-infinity"),
)  # fmt: skip
#: Type in the database, in ClickHouse, and a value that does not fit.
REFUSED_POSTGRES = (
    ("numeric", "Decimal(38, 2)", "'NaN'"),
    ("numeric", "Decimal(9, 2)", "1.239"),
    ("timestamp", "DateTime64(6, 'UTC')", "'infinity'"),
    ("date", "Date32", "'0044-03-15 BC'"),
    ("timestamptz", "DateTime64(6, 'UTC')", "'0044-03-15 10:00:00+00 BC'"),
    ("bigint", "Int32", "2147483648"),
    ("text", "UUID", "'no uuid'"),
    ("text", "String", "NULL"),
    ("integer[]", "Array(Int32)", "'{1}'"),
)
REFUSED_MYSQL = (
    ("date", "Date32", "'0000-00-00'"),
    ("datetime", "DateTime('UTC')", "'0000-00-00'"),
    ("timestamp NULL", "DateTime('UTC')", "'0000-00-00'"),
    ("date", "Date32", "'2026-02-30'"),
    ("datetime(6)", "DateTime64(6, 'UTC')", "'2026-02-30'"),
    ("datetime", "DateTime('UTC')", "'2026-01-00'"),
    ("time", "UInt8", "'25:00:00'"),
    ("bigint unsigned", "Int64", "18446744073709551615"),
    ("text", "String", "NULL"),
)


def _make(row_lake: RowLake, columns: dict[str, tuple[str, str]], values: list[list[str]]) -> str:
    """Make a table in the database and one in ClickHouse, both with a period."""
    name = f"{row_lake.rows.table}_v"
    quoted = row_lake.store().listing().dialect.quoted
    written = ", ".join(f"{quoted(each)} {of}" for each, (of, _) in columns.items())
    with closing(row_lake.rows.connection()) as connection:
        cursor = connection.cursor()
        if row_lake.is_mysql:
            cursor.execute("SET sql_mode = 'ALLOW_INVALID_DATES'")
        cursor.execute(f"CREATE TABLE {name} (at date, {written})")
        for row in values:
            cursor.execute(f"INSERT INTO {name} VALUES ('2026-01-05', {', '.join(row)})")
        connection.commit()
    read = ", ".join(f"`{each}` {of}" for each, (_, of) in columns.items())
    row_lake.on_every_node(
        f"CREATE TABLE {row_lake.database}.typed (at Date, {read}) ENGINE = MergeTree PARTITION BY toYYYYMM(at) "
        "ORDER BY tuple()"
    )
    return name


def _load(row_lake: RowLake, name: str) -> dict[str, Any]:
    return row_lake.load(table="typed", source_table=name, time_column="at", key_column=None)


def _read(row_lake: RowLake, columns: str) -> list[tuple[Any, ...]]:
    found = row_lake.on_every_node(f"SELECT {columns} FROM {row_lake.database}.typed")
    return [row for rows in found for row in rows]


def test_values_arrive_as_they_are(row_lake: RowLake) -> None:
    cases = MYSQL if row_lake.is_mysql else POSTGRES
    columns = {name: (of, read) for name, (of, read, _, _) in cases.items()}
    name = _make(row_lake, columns, [[value for _, _, value, _ in cases.values()]])
    assert _load(row_lake, name)["rows"] == 1
    ((*found,),) = _read(row_lake, ", ".join(f"`{each}`" for each in cases))
    for (case, (_, _, _, wanted)), value in zip(cases.items(), found, strict=True):
        shown = (
            str(value)
            if case == "ident"
            else value.encode()
            if isinstance(wanted, bytes) and isinstance(value, str)
            else value
        )
        assert shown == wanted, case


@pytest.mark.thorough
def test_columns_may_have_names_that_a_load_gives(row_lake: RowLake) -> None:
    # Among them is that of the whole number that is 1 where a text looks like hexadecimal digits.
    names = {"chs3_0": "int", "chs3_1": "varchar(9)", "chs3_is_other": "int", "chs30_0": "int", "chs3_value_0": "int"}
    columns = {name: (of, "String" if of.startswith("v") else "Int32") for name, of in names.items()}
    name = _make(row_lake, columns, [["1", "'6162'", "1", "2", "3"]])
    _load(row_lake, name)
    assert _read(row_lake, ", ".join(names)) == [(1, "6162", 1, 2, 3)]


@pytest.mark.thorough(but=1, first=1)
def test_a_column_named_path_is_refused(row_lake: RowLake) -> None:
    name = _make(row_lake, {"_path": ("int", "Int32")}, [["1"]])
    with pytest.raises(AirflowFailException, match=r"has a column '_path'.*load a view that renames it"):
        _load(row_lake, name)


@pytest.mark.thorough
def test_a_domain_of_a_domain_is_read_as_its_type(row_lake: RowLake) -> None:
    if row_lake.is_mysql:
        pytest.skip("MySQL has no domains")
    inner, outer = f"{row_lake.rows.table}_inner", f"{row_lake.rows.table}_outer"
    row_lake.run(f"CREATE DOMAIN {inner} AS bytea")
    row_lake.run(f"CREATE DOMAIN {outer} AS {inner}")
    name = _make(row_lake, {"raw": (outer, "String")}, [["'\\x00ff'"]])
    _load(row_lake, name)
    assert _read(row_lake, "hex(raw)") == [("00FF",)]


@pytest.mark.thorough(but=1, first=1)
def test_any_double_keeps_its_last_bit(row_lake: RowLake) -> None:
    random.seed(7)
    doubles = [struct.unpack("d", random.randbytes(8))[0] for _ in range(500)]
    doubles = [double for double in doubles if abs(double) < 1.7e308]
    kind = "double" if row_lake.is_mysql else "double precision"
    name = _make(row_lake, {"d": (kind, "Float64")}, [[f"'{double!r}'"] for double in doubles])
    if not row_lake.is_mysql:
        # Settings of roles that want short texts.
        row_lake.run("ALTER ROLE CURRENT_USER SET extra_float_digits = -5")
    try:
        _load(row_lake, name)
    finally:
        if not row_lake.is_mysql:
            row_lake.run("ALTER ROLE CURRENT_USER RESET extra_float_digits")
    assert sorted(value for (value,) in _read(row_lake, "d")) == sorted(doubles)


@pytest.mark.parametrize("rows", ["mysql"], indirect=True)
def test_times_of_mysql_have_the_digits_that_count(row_lake: RowLake) -> None:
    kinds = {"d": "date", "s": "datetime", "f": "datetime(6)", "z": "timestamp NULL", "y": "timestamp(3) NULL"}
    rows = (
        (
            "2026-01-05",
            "2026-01-05 10:00:00",
            "2026-01-05 10:00:00.5",
            "2026-01-05 10:00:00",
            "2026-01-05 10:00:00.120",
        ),
        ("0044-03-15", "0044-03-15 10:00:00", "0044-03-15 10:00:00", "1970-01-01 00:00:01", "1970-01-01 00:00:01"),
        ("9999-12-31", "9999-12-31 23:59:59", "9999-12-31 23:59:59.999999", "2038-01-19 03:14:07", None),
        ("2026-02-30", "2026-02-30 20:00:00", "2026-02-30 20:00:00.00001", None, "0000-00-00 00:00:00"),
        ("0000-00-00", "0000-00-00 00:00:00", "0000-00-00 00:00:00", "0000-00-00 00:00:00", None),
    )
    values = [[str(number), *(f"'{each}'" if each else "NULL" for each in row)] for number, row in enumerate(rows)]
    columns = {"n": ("int", "UInt8")} | {name: (kind, "Nullable(String)") for name, kind in kinds.items()}
    _load(row_lake, _make(row_lake, columns, values))
    found = sorted(_read(row_lake, "n, d, s, f, z, y"))
    assert [row[1:4] for row in found] == [row[:3] for row in rows]
    assert [row[4] for row in found] == ["2026-01-05T10:00:00Z", "1970-01-01T00:00:01Z", "2038-01-19T03:14:07Z", None,
                                         "0000-00-00 00:00:00"]  # fmt: skip
    assert [row[5] for row in found] == ["2026-01-05T10:00:00.12Z", "1970-01-01T00:00:01Z", None, "0000-00-00 00:00:00",
                                         None]  # fmt: skip


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("style", ["ISO, YMD", "German", "SQL, DMY", "Postgres"])
@pytest.mark.parametrize("rows", ["postgres"], indirect=True)
def test_times_of_any_year_have_one_text_whatever_the_role_has_set(row_lake: RowLake, style: str) -> None:
    kinds = {"n": "int", "d": "date", "s": "timestamp", "z": "timestamptz"}
    columns = {name: (kind, "UInt8" if kind == "int" else "Nullable(String)") for name, kind in kinds.items()}
    values = [
        [str(number), f"'{day}'", f"timestamptz '{at}' AT TIME ZONE 'UTC'", f"'{at}'"]
        for number, (day, at, *_) in enumerate(TIMES)
    ]
    name = _make(row_lake, columns, [*values, ["99", "NULL", "NULL", "NULL"]])
    for setting, value in {"DateStyle": style, "TimeZone": "Asia/Kathmandu"}.items():
        row_lake.run(f"ALTER ROLE CURRENT_USER SET {setting} = '{value}'")
    try:
        _load(row_lake, name)
    finally:
        row_lake.run("ALTER ROLE CURRENT_USER RESET ALL")
    wanted = [(number, *texts) for number, (_, _, *texts) in enumerate(TIMES)]
    assert sorted(_read(row_lake, "n, d, s, z")) == [*wanted, (99, None, None, None)]


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("number", range(9))
def test_what_does_not_fit_is_refused_by_name(row_lake: RowLake, number: int) -> None:
    cases = REFUSED_MYSQL if row_lake.is_mysql else REFUSED_POSTGRES
    if number >= len(cases):
        pytest.skip("the other database has more of these")
    of, read, value = cases[number]
    name = _make(row_lake, {"column of it": (of, read)}, [[value]])
    with pytest.raises(AirflowFailException, match="'column of it'"):
        _load(row_lake, name)
    assert set(_read(row_lake, "count()")) == {(0,)}


@pytest.mark.thorough
@pytest.mark.three_nodes
def test_a_day_that_no_period_has_is_refused_by_name_whichever_node_reads_it(row_lake: RowLake) -> None:
    if not row_lake.is_mysql:
        pytest.skip("PostgreSQL keeps no such day")
    columns = {"k": ("int", "Int32"), "since": ("datetime(6)", "DateTime64(6, 'UTC')")}
    days = ["2026-01-05", "2026-02-01", "2026-02-30"]
    name = _make(row_lake, columns, [[str(number), f"'{day}'"] for number, day in enumerate(days)])
    row_lake.on_every_node(
        f"CREATE TABLE {row_lake.database}.naive (k Int32, since DateTime64(6, 'UTC')) ENGINE = MergeTree "
        "PARTITION BY toYYYYMM(since) ORDER BY k"
    )
    options: dict[str, Any] = {"table": "naive", "source_table": name, "time_column": "since", "key_column": "k"}
    assert row_lake.load(**options)["rows"] == 1
    for number in range(3):
        row_lake.run(f"UPDATE {name} SET k = {number} WHERE since > '2026-02-01'")
        with pytest.raises(AirflowFailException, match=r"Column 'since' is DateTime64.*'2026-02-30.*fix the row"):
            row_lake.load(**options, period="2026-02")
