"""Random cases, from any source of randomness: a seed, or hypothesis, which then makes failing ones smaller."""

from __future__ import annotations

import calendar
import inspect
import random
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from tests.fidelity.arrow_values import NOT_HELD, near_type
from tests.fidelity.cases import Case, Column, Lane, SourceFile
from tests.fidelity.codecs import ending
from tests.fidelity.column_types import ZONES, Type, backticked, random_type, read_in
from tests.fidelity.formats import FORMATS, FileFormat
from tests.fidelity.json_files import json_layout
from tests.fidelity.oracle import judge
from tests.fidelity.other_kinds import type_of_another_kind
from tests.fidelity.pens import NoSuchValueError, Pen, pen_of
from tests.fidelity.text_files import text_layout
from tests.fidelity.typed_files import arrow_layout, is_writable, orc_layout, parquet_layout
from tests.fidelity.values import sample

_PERIODS = (
    "2024-05",
    "2024-02",
    "2024-03",
    "2024-10",
    "2024-11",
    "2024-04",
    "1999-12",
    "1971-01",
    "2038-01",
    "2100-02",
)
_NAMES = ("a", "b", "c", "B", "with space", "ünï", 'qu"ote', "it's", "back`tick", "back\\slash", "select", "1", "a,b")
#: Names that ClickHouse has meanings for, or that differ from the table's by case alone.
_EXTRA_NAMES = ("extra", "_path", "_file", "_size", "_time", "_etag", "A", "TS", "ID", "_row_number", "_id")
#: Not bz2, which the engine of the test bed was built without.
_CODECS = ("", "", "", "gz", "zst", "lz4", "xz", "gz2")
_TRIES = 30
#: How many columns of files of types hold another kind of values, and how many any values that may load.
_OF_ANOTHER_KIND, _TAKES_ANY = 0.1, 0.5
_KNOWS_NAIVE = "naive_timestamps" in inspect.signature(S3ToClickHouseOperator).parameters
ID = Type("UInt", bits=32)


def generate(
    choose: random.Random, *, formats: tuple[str, ...] = tuple(FORMATS), server_zones: tuple[str, ...] = ("UTC",)
) -> Case:
    """A random case."""
    own = server_zones[0] if len(set(server_zones)) == 1 else ""
    zone = own if own and choose.random() < 0.5 else choose.choice(ZONES)
    with read_in(zone):
        # The servers' zone is that of periods, and the other one that of texts.
        case = replace(_case(choose, formats, has_key_without_zone=zone == own), zone=zone)
    if zone != own:
        case.arguments["settings"] = {"session_timezone": zone}
    return case


def _case(choose: random.Random, formats: tuple[str, ...], *, has_key_without_zone: bool) -> Case:
    pen = pen_of(FORMATS[choose.choice(formats)])
    period = choose.choice(_PERIODS)
    columns = _columns(choose, pen.file_format, has_key_without_zone=has_key_without_zone)
    case = Case(period=period, format=pen.file_format.name, columns=columns, files=[])
    if not pen.file_format.has_names:
        case.arguments["file_format"] = pen.file_format.clickhouse
    if pen.file_format.read_as == "arrow" and choose.random() < 0.4 and _KNOWS_NAIVE:
        case.arguments["naive_timestamps"] = choose.choice(("utc", "column_zone"))
        pen = replace(pen, reading=replace(pen.reading, naive_timestamps=case.arguments["naive_timestamps"]))
    first_id = 0
    for number in range(choose.choice((1, 1, 2, 3))):
        file = _file(choose, case, pen, number=number, first_id=first_id)
        first_id += 100
        case.files.append(file)
    if choose.random() < 0.3:
        _spoil(choose, case, pen)
    if pen.file_format.family == "arrow" and choose.random() < 0.3:
        _select(choose, case)
    return case


def _select(choose: random.Random, case: Case) -> None:
    """Load each column through an expression that changes nothing."""
    if any("date64" in str(lane.written_as) for file in case.files for lane in file.lanes):
        # There, it is what ClickHouse makes of it.
        return
    fields = {column.name: backticked(column.name) for column in case.columns}
    case.arguments["select"] = {
        name: choose.choice((field, f"if(1, {field}, {field})", f"materialize({field})"))
        for name, field in fields.items()
    }


def _columns(choose: random.Random, file_format: FileFormat, *, has_key_without_zone: bool) -> list[Column]:
    names = choose.sample(_NAMES[: choose.choice((3, len(_NAMES)))], choose.choice((1, 2, 3)))
    by_clickhouse = file_format.family == "clickhouse"
    found = [Column("id", ID), Column("ts", _time_type(choose, has_key_without_zone=has_key_without_zone))]
    for name in names:
        of = random_type(choose)
        unwritten = ("JSON", "Dynamic", "Variant") if by_clickhouse else ()
        unwritten += ("Tuple",) if file_format.clickhouse.startswith("CSV") else ()
        while of.mentions(*unwritten):
            of = random_type(choose)
        found.append(Column(name, of))
    return found


def _time_type(choose: random.Random, *, has_key_without_zone: bool) -> Type:
    kind = choose.choice(("DateTime", "DateTime", "DateTime64", "Date", "Date32"))
    zones = ("UTC", *ZONES, "" if has_key_without_zone else "UTC")
    zone = choose.choice(zones) if kind.startswith("DateTime") else ""
    return Type(kind, zone=zone, precision=choose.choice((3, 6)) if kind == "DateTime64" else 0)


def _in_period(choose: random.Random, of: Type, period: str) -> Any:
    year, number = map(int, period.split("-"))
    last = calendar.monthrange(year, number)[1]
    day = date(year, number, choose.choice((1, last, choose.randint(1, last))))
    if of.kind in ("Date", "Date32"):
        return day
    seconds = choose.choice((0, 86_399, choose.randint(0, 86_399), 12 * 3600))
    hours, rest = divmod(seconds, 3600)
    shown = datetime(day.year, day.month, day.day, hours, rest // 60, rest % 60, tzinfo=ZoneInfo(of.zone_name))
    instant = int((shown.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
    return instant * 10**of.precision


def _file(choose: random.Random, case: Case, pen: Pen, *, number: int, first_id: int) -> SourceFile:
    rows = choose.choice((1, 2, 3, 5, 8, 0))
    layout = _layout(choose, pen.file_format)
    lanes = []
    for column in case.columns:
        lane_type = _lane_type(choose, case, column, pen)
        if column.name == "id":
            cells = [pen.exactly(choose, first_id + row, ID, _exact_type(pen, ID), layout) for row in range(rows)]
            lane_type = _exact_type(pen, ID)
        elif column.name == "ts":
            lane_type, cells = _time_lane(choose, column.type, case.period, pen, layout, rows)
        else:
            # A column of another kind must not load at all.
            takes_any = choose.random() < _TAKES_ANY
            cells = [_fitting(choose, column.type, lane_type, pen, layout, takes_any=takes_any) for _ in range(rows)]
            lane_type, cells = _settled(choose, column.type, lane_type, cells, pen, layout)
        lanes.append(Lane(column.name, column.type, lane_type, cells))
    name = f"{number}.{pen.file_format.ending}{ending(layout.get('codec', ''))}"
    file = SourceFile(name, lanes, layout)
    if pen.file_format.has_names:
        _drift(choose, file, pen, rows)
    return file


def _lane_type(choose: random.Random, case: Case, column: Column, pen: Pen) -> Any:
    """Any type for the column; often one near to that in the file before, as writers change theirs a little."""
    before = [lane.written_as for file in case.files for lane in file.lanes if lane.name == column.name]
    if before and isinstance(before[-1], pa.DataType) and choose.random() < 0.4:
        near = near_type(choose, before[-1])
        if is_writable(near, pen.file_format.clickhouse):
            return near
    if pen.file_format.family == "arrow" and choose.random() < _OF_ANOTHER_KIND:
        other = type_of_another_kind(choose, column.type)
        if other is not None and is_writable(other, pen.file_format.clickhouse):
            return other
    return pen.lane_type(choose, column.type)


def _exact_type(pen: Pen, of: Type) -> Any:
    return pa.int64() if pen.file_format.family == "arrow" else of


def _layout(choose: random.Random, file_format: FileFormat) -> dict[str, Any]:
    name, family = file_format.clickhouse, file_format.family
    if family in ("csv", "tsv"):
        layout = text_layout(choose, has_quotes=family == "csv")
    elif family == "json":
        layout = json_layout(choose)
    elif family == "arrow":
        return {"Parquet": parquet_layout, "ORC": orc_layout, "Arrow": arrow_layout}[name](choose)
    else:
        layout = {}
    typed = name in ("Parquet", "ORC", "Arrow")
    return layout if typed else layout | {"codec": choose.choice(_CODECS)}


def _time_lane(
    choose: random.Random, of: Type, period: str, pen: Pen, layout: dict[str, Any], rows: int
) -> tuple[Any, list[Any]]:
    values = [_in_period(choose, of, period) for _ in range(rows)]
    lane_type: Any = of
    if pen.file_format.family == "arrow":
        zone = None if of.zone_name == "UTC" and choose.random() < 0.3 else "UTC"
        # With nine digits, 64 bits do not hold the periods of all years.
        stamp = pa.timestamp(choose.choice(("us", "ms")), zone)
        lane_type = pa.date32() if of.kind in ("Date", "Date32") else stamp
        if of.precision == 6:
            lane_type = pa.timestamp("us", zone)
    return lane_type, [pen.exactly(choose, value, of, lane_type, layout) for value in values]


def _settled(
    choose: random.Random, of: Type, lane_type: Any, cells: list[Any], pen: Pen, layout: dict[str, Any]
) -> tuple[Any, list[Any]]:
    """Another type where the first has too few values that fit."""
    for attempt in range(_TRIES):
        if NoSuchValueError not in cells:
            return lane_type, cells
        lane_type = pen.lane_type(choose, of)
        # Some types have no values of which a load must take any.
        cells = [_fitting(choose, of, lane_type, pen, layout, takes_any=attempt > _TRIES // 3) for _ in cells]
    raise NoSuchValueError(of.sql)


def _fitting(
    choose: random.Random, of: Type, lane_type: Any, pen: Pen, layout: dict[str, Any], *, takes_any: bool = False
) -> Any:
    """A cell whose value must load; one that may, now and then, or where none must."""
    takes_any = takes_any or choose.random() < 0.04
    for _ in range(_TRIES // 3):
        found = _judged(choose, of, lane_type, pen, layout)
        if found and (found[1].must_load or (takes_any and found[1].values)):
            return found[0]
    return NoSuchValueError


def _judged(choose: random.Random, of: Type, lane_type: Any, pen: Pen, layout: dict[str, Any]) -> Any:
    try:
        cell = pen.cell(choose, of, lane_type, layout)
        return cell, judge(pen.source(cell, lane_type), of, pen.reading)
    except NOT_HELD:
        return None


def _spoil(choose: random.Random, case: Case, pen: Pen) -> None:
    """One value that its column does not hold."""
    file = choose.choice(case.files)
    lanes = [lane for lane in file.lanes if lane.of and lane.name not in ("id", "ts")]
    if not file.rows or not lanes:
        return
    lane = choose.choice(lanes)
    for _ in range(_TRIES):
        found = _judged(choose, lane.of or ID, lane.written_as, pen, file.layout)
        if found and not found[1].values:
            lane.cells[choose.randrange(file.rows)] = found[0]
            return


def _drift(choose: random.Random, file: SourceFile, pen: Pen, rows: int) -> None:
    """Columns in another order, one too many, one too few."""
    if choose.random() < 0.25:
        choose.shuffle(file.lanes)
    if choose.random() < 0.25:
        name = choose.choice([name for name in _EXTRA_NAMES if all(lane.name != name for lane in file.lanes)])
        of = Type("Int", bits=64) if choose.random() < 0.5 else Type("String")
        lane_type = (
            _exact_type(pen, of) if of.kind == "Int" else (pa.string() if pen.file_format.family == "arrow" else of)
        )
        cells = [pen.exactly(choose, sample(choose, of), of, lane_type, file.layout) for _ in range(rows)]
        file.lanes.insert(choose.randint(0, len(file.lanes)), Lane(name, of, lane_type, cells))
    if choose.random() < 0.04:
        file.lanes = [lane for lane in file.lanes if lane.name in ("id", "ts")]
