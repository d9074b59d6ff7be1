"""Evaluate the partition key as the table does: its parts, and the time zone of its periods."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from airflow_provider_chs3.core.model.period import Grain, Period
from airflow_provider_chs3.core.sql.column_types import ColumnType
from airflow_provider_chs3.core.sql.quoting import Sql, elements, identifier, literal, literals, one_of, strings, table
from airflow_provider_chs3.core.steps.operations import Steps
from airflow_provider_chs3.core.target.node_facts import Target
from airflow_provider_chs3.core.target.table_facts import Column, mentions, with_zone

_VALUE = "_partition_value"
_INTEGER_PART = re.compile(r"CAST\((.*) AS U?Int(?:8|16|32|64)\)", re.DOTALL)
#: Types whose values all have a period.
_OF_PERIODS = re.compile(r"Date|Date32|DateTime(?:\('[^']*'\))?|DateTime64\(\d(?:, '[^']*')?\)")
_DATES = ("Nullable(Date)", "LowCardinality(Date)", "LowCardinality(Nullable(Date))")

NUMBERS = {Grain.MONTH: "%Y%m", Grain.HOUR: "%Y%m%d%H"}
#: Functions that return a period's first day.
_FIRST_DAYS = {
    Grain.DAY: "",
    Grain.WEEK: "toMonday",
    Grain.QUARTER: "toStartOfQuarter",
    Grain.YEAR: "toStartOfYear",
}
_DAY_MS = 24 * 60 * 60 * 1000
#: Added before and after a period, as no time zone is further from UTC.
_AROUND = timedelta(days=2)
_TEN_YEARS_MS = 3660 * _DAY_MS
_QUARTER_OF_AN_HOUR_MS = 15 * 60 * 1000
#: Some ten minutes and some three hours, such that each hour, minute, second and millisecond has its turn.
_ODD_STEP_MS = 613_007
_ODD_STEP_OF_OTHERS_MS = 11_003_017


def is_of_days(column: Column) -> bool:
    """Check whether a column's values are dates, or dates with times."""
    return ColumnType(column.type).bare.name in ("Date", "Date32", "DateTime", "DateTime64")


def has_times(column: Column) -> bool:
    """Check whether a column's values are dates with times."""
    return ColumnType(column.type).bare.name in ("DateTime", "DateTime64")


def is_the_month(column: Column, partition_key: str) -> bool:
    """Check whether a key is `toYYYYMM` of a column that is never NULL: October 2026 is partition 202610, and no other.

    Nobody has to be asked: neither the function's value nor its type, UInt32, follows a setting.
    """
    keys = (f"toYYYYMM({column.name})", f"toYYYYMM({identifier(column.name)})")
    return partition_key in keys and bool(_OF_PERIODS.fullmatch(column.type))


@dataclass(frozen=True, slots=True)
class TimeOfKey:
    """The parts of a partition key that are of time."""

    #: The one column that they depend on, with the servers' time zone if it names none. Keys use it, whatever the zone
    #: of the session is; and casts to a type without a zone keep that of the value (seen on 26.9).
    column: Column
    #: Their places in the key, from 0.
    numbers: tuple[int, ...]
    #: Whether it has no other parts, so that a period has one partition.
    is_all: bool


def time_of_key(context: Target) -> TimeOfKey | None:
    """Return the parts of the key that are of time; None if there are none, or not of one column alone."""
    columns = [column for column in context.table_facts.columns if column.in_partition_key]
    of_time = columns if len(columns) == 1 else list(filter(is_of_days, columns))
    if len(of_time) != 1:
        return None
    column, others = of_time[0], [column.name for column in columns if column != of_time[0]]
    parts = elements(context.table_facts.partition_key)
    numbers = tuple(number for number, part in enumerate(parts) if not others or mentions(part, [column.name]))
    if not numbers or any(mentions(parts[number], others) for number in numbers):
        return None
    zone = context.nodes[context.coordinator].time_zone
    return TimeOfKey(replace(column, type=with_zone(column.type, zone)), numbers, is_all=not others)


class PartsOfKey(NamedTuple):
    """The parts of a partition key that tell which partitions are a period's."""

    parts: tuple[str, ...]
    of_part: str

    def value(self, parts: Sequence[str]) -> str:
        """Return the expression for the value of `PeriodPartitions`: what the partitions of a period have in common."""
        return _text_of(parts) if self.of_part else f"partitionId({', '.join(parts)})"


def _text_of(parts: Sequence[str]) -> str:
    texts = ", ',', ".join(f"toString({part})" for part in parts)
    return f"ifNull({f'concat({texts})' if len(parts) > 1 else texts}, '')"


def parts_of_key(context: Target, of_time: TimeOfKey) -> Steps[PartsOfKey]:
    """Return how the partitions of a period are found: the one by its id, several by the parts that are of time.

    The id of a tuple differs from the id of its parts, which the table uses. And each part must have the type that it
    has in the table, which follows from the profile with which the server started, not from this session (seen on 26.9:
    toStartOfMonth of a DateTime64 is a Date, or a Date32 with `enable_extended_results_for_datetime_functions`, and
    their ids differ). `partitionId` takes a Nullable or LowCardinality Date for a Date with the id 20240501, where the
    table writes the number of the day, 19844 (seen on 26.9).

    Servers show a partition as a text, and parse each part of it again. Patches of lightweight updates have none.
    """
    key = context.table_facts.partition_key
    if any(is_the_month(column, key) for column in context.table_facts.columns):
        return PartsOfKey((_typed(key, "UInt32"),), "")
    rows = yield from context.on_coordinator(
        name="Ask for the types of the partition key",
        sql=Sql(f"DESCRIBE TABLE {table(context.target)}"),
        settings={"describe_include_virtual_columns": 1},
    )
    of_key = next(ColumnType(row[1]) for row in rows if row[0] == _VALUE)
    typed = list(zip(elements(key), of_key.inner, strict=True))
    if of_time.is_all:
        return PartsOfKey(tuple(_typed(part, of.text) for part, of in typed), "")
    zone, value = context.nodes[context.coordinator].time_zone, f"CAST(partition, {literal(of_key.text)})"
    # A text of a time without a zone is the server's.
    parts = (
        f"CAST({part} AS {with_zone(of.text, zone)})" for part, of in (typed[number] for number in of_time.numbers)
    )
    text = _text_of([f"tupleElement({value}, {number + 1})" for number in of_time.numbers])
    return PartsOfKey(tuple(parts), f"if(startsWith(partition_id, 'patch-'), '', {text})")


def _typed(part: str, of: str) -> str:
    value = f"CAST({part} AS {of})"
    return f"toUInt16({value})" if of in _DATES else value


def zones_of_key(context: Target) -> Steps[tuple[str, ...]]:
    """Return the time zones that the key names, as in `toYYYYMM(at, 'America/New_York')`."""
    names = strings(context.table_facts.partition_key)
    if not names:
        return ()
    sql = Sql(f"SELECT time_zone FROM system.time_zones WHERE {one_of('time_zone', names)}")
    rows = yield from context.on_coordinator(name="Ask for the time zones of the partition key", sql=sql)
    return tuple(name for name in names if (name,) in rows)


def zone_of_periods(context: Target) -> Steps[str | None]:
    """Return the time zone in which the periods of the target begin; None if its key has no times."""
    of_time = time_of_key(context)
    if of_time is None or not has_times(of_time.column):
        return None
    named = yield from zones_of_key(context)
    return (*named, *strings(of_time.column.type))[0]


def partitions_query(column: Column, key: PartsOfKey, periods: Sequence[Period], *, zone: str | None) -> str:
    """Return a SELECT of periods, by the number of `number_of`, each with `PeriodPartitions.value` of its moments.

    Other periods are among them only where they share a value with one of these.

    The server makes the moments, and says which period each belongs to: texts of local times would name some that
    a change of the clock skips. They are the first and last millisecond of each quarter of an hour of the periods and
    of two days before and after each, as no time zone is further from UTC; odd times in them; and odd times of ten
    years before and after.
    """
    spans = _spans(periods)
    # No more than a DateTime holds.
    first = max(spans[0][0] - _TEN_YEARS_MS, 0)
    last = min(spans[-1][1] + _TEN_YEARS_MS, _ms(datetime(2106, 1, 1)))
    ranges = [(first, last, _ODD_STEP_OF_OTHERS_MS)]
    for begin, end in spans:
        ranges += [
            (begin, end, _QUARTER_OF_AN_HOUR_MS),
            (begin - 1, end, _QUARTER_OF_AN_HOUR_MS),
            (begin, end, _ODD_STEP_MS),
        ]
    # A range for each row: as one constant, the moments of sixty periods took 189 MB and ten times as long.
    moments = f"SELECT arrayJoin([{', '.join(map(str, ranges))}]) AS `chs3: range`"
    moment = "arrayJoin(range(`chs3: range`.1, `chs3: range`.2, `chs3: range`.3))"
    instant = f"fromUnixTimestamp64Milli(toInt64({moment}), 'UTC')"
    name = identifier(column.name)
    period_of = number_in(periods[0].grain, name, zone)
    # No column is called so.
    values = [f"`chs3: key {number}`" for number, _ in enumerate(key.parts)]
    keys = ", ".join(f"{part} AS {value}" for part, value in zip(key.parts, values, strict=True))
    # An id for each value of the key, rather than for each of tens of thousands of moments: ids take the longest.
    numbers = ", ".join(str(number_of(period)) for period in periods)
    return (
        "SELECT arrayJoin(`chs3: periods`), `chs3: value` FROM ("
        f"SELECT groupUniqArray(`chs3: period`) AS `chs3: periods`, {key.value(values)} AS `chs3: value` "
        f"FROM (SELECT DISTINCT {period_of} AS `chs3: period`, {keys} "
        f"FROM (SELECT CAST({instant} AS {column.type}) AS {name} FROM ({moments}))) "
        f"GROUP BY `chs3: value` HAVING hasAny(`chs3: periods`, [{numbers}]))"
    )


def is_of_period(column: Column, key: PartsOfKey, value: str, owns: Mapping[str, str], of_file: str) -> str:
    """Return the condition that a value belongs to a partition of its file's period."""
    typed = f"CAST({value} AS {column.type})"
    files, ids = list(owns), list(owns.values())
    matched = _INTEGER_PART.fullmatch(key.parts[0]) if len(key.parts) == 1 else None
    if matched:
        # The id of an integer is its digits. Comparing numbers is cheaper than making texts.
        wanted, none, of_row = f"[{', '.join(ids)}]", "-1", f"toInt64({key.parts[0]})"
    else:
        wanted, none, of_row = f"[{literals(ids)}]", "''", key.value(key.parts)
    if matched and is_the_month(column, matched[1]):
        of_row = f"toInt64(toYYYYMM({typed}))"
    else:
        of_row = _of_value(column, of_row, value)
    return f"{of_row} = transform({of_file}, [{literals(files)}], {wanted}, {none})"


def period_value(column: Column, key: PartsOfKey, value: str) -> str:
    """Return the expression for `PeriodPartitions.value` of a value as it is written."""
    return _of_value(column, key.value(key.parts), value)


def _of_value(column: Column, expression: str, value: str) -> str:
    """Return an expression over a column for a value as it is written."""
    # A lambda gives the value the column's name, which the key's text has.
    return f"arrayMap({identifier(column.name)} -> {expression}, [CAST({value} AS {column.type})])[1]"


def number_of(period: Period) -> int:
    """Return a period as a number: 202610, or its first day or hour."""
    return int(f"{period.begin:{NUMBERS.get(period.grain, '%Y%m%d')}}")


def number_in(grain: Grain, name: str, zone: str | None) -> str:
    """Return the expression for the number of a moment's period, as `number_of` gives it."""
    arguments = f"{name}, {literal(zone)}" if zone else name
    if grain is Grain.MONTH:
        return f"toYYYYMM({arguments})"
    if grain is Grain.HOUR:
        return f"intDiv(toYYYYMMDDhhmmss({name}, 'UTC'), 10000)"
    return f"toYYYYMMDD({_FIRST_DAYS[grain]}(toDate32({arguments})))"


def _spans(periods: Sequence[Period]) -> list[tuple[int, int]]:
    """Return the spans of periods with what is around them, in milliseconds; those that touch are one."""
    spans: list[tuple[int, int]] = []
    for period in sorted(periods):
        begin, end = _ms(period.begin - _AROUND), _ms(period.end + _AROUND)
        if spans and begin <= spans[-1][1]:
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((begin, end))
    return spans


def _ms(at: datetime) -> int:
    return int(at.replace(tzinfo=UTC).timestamp()) * 1000
