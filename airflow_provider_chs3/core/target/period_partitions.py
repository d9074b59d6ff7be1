"""The partitions that hold a period, as the key of the table has them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import NamedTuple

from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.core.model.period import FIRST_YEAR, LAST_YEAR, WHOLE_TABLE, Grain, Period, range_text
from airflow_provider_chs3.core.model.quantities import quantity
from airflow_provider_chs3.core.sql.quoting import Sql, elements, identifier, in_table, literal, one_of, table
from airflow_provider_chs3.core.steps.operations import QueryNodes, Row, Steps
from airflow_provider_chs3.core.target.node_facts import Target
from airflow_provider_chs3.core.target.partition_key import (
    NUMBERS,
    PartsOfKey,
    has_times,
    is_of_days,
    is_the_month,
    number_in,
    number_of,
    partitions_query,
    parts_of_key,
    time_of_key,
    zones_of_key,
)
from airflow_provider_chs3.core.target.table_facts import Column
from airflow_provider_chs3.exceptions import ConfigurationError, PreflightError, SourceError


@dataclass(frozen=True, slots=True)
class PeriodPartitions:
    """The condition for partitions of a table to belong to a period."""

    #: What they have in common: the id of the only one, or the text of the parts of the key that are of time.
    value: str = ""
    #: SQL for that text of a row of `system.parts`; empty where a period has one partition.
    of_part: str = ""

    def __str__(self) -> str:
        return f"partitions of {self.value}" if self.of_part else f"partition {self.value}"

    @property
    def columns(self) -> str:
        """Further columns of `partition_states`: what several partitions have in common, and how each is shown."""
        shown = "anyIf(partition, NOT startsWith(partition_id, 'patch-'))"
        return f"anyIf({self.of_part}, NOT startsWith(partition_id, 'patch-')) AS own, {shown}" if self.of_part else ""

    def rows_of(self, name: TableName) -> str:
        """Return the condition on the rows of a table that finds those of its partitions."""
        if not self.of_part:
            return f"_partition_id = {literal(self.value)}"
        return (
            f"_partition_id IN (SELECT partition_id FROM system.parts WHERE active AND {self.parts} "
            f"AND {in_table(name)})"
        )

    @property
    def parts(self) -> str:
        """The condition on `system.parts`, or on `system.merges`, that finds them."""
        return parts_of([self])


def parts_of(owns: Sequence[PeriodPartitions]) -> str:
    """Return the condition on `system.parts`, or on `system.merges`, that finds the partitions of periods."""
    return one_of(owns[0].of_part or "partition_id", [partitions.value for partitions in owns])


_USUAL_KEY = re.compile(r"(\w+)\([^()]+\)")
_SECONDS, _DAY = "%s", "%Y%m%d"
#: Function of the usual keys → the length of their periods, and the ids of their partitions: the second at which a
#: period begins, or its date.
_IDS = {
    "toStartOfHour": (Grain.HOUR, _SECONDS),
    "toDate": (Grain.DAY, _DAY),
    "toYYYYMMDD": (Grain.DAY, _DAY),
    "toMonday": (Grain.WEEK, _DAY),
    "toStartOfWeek": (Grain.WEEK, _DAY),
    "toYYYYMM": (Grain.MONTH, "%Y%m"),
    "toStartOfMonth": (Grain.MONTH, _DAY),
    "toStartOfQuarter": (Grain.QUARTER, _DAY),
    "toYear": (Grain.YEAR, "%Y"),
    "toStartOfYear": (Grain.YEAR, _DAY),
}
#: The partition of a table without a key.
_ID_OF_ALL = "all"
#: A moment in the middle of a period of each length.
_ANY_MOMENT = datetime(2026, 5, 13, 12)
#: Length of a period → the function of it by which to partition a table.
KEYS = {
    Grain.HOUR: "toStartOfHour",
    Grain.DAY: "toYYYYMMDD",
    Grain.WEEK: "toMonday",
    Grain.MONTH: "toYYYYMM",
    Grain.QUARTER: "toStartOfQuarter",
    Grain.YEAR: "toYear",
}
_SHARES = "shares a partition with other"


def period_of_partition(partition_id: str, *, key: str) -> Period | None:
    """Return the period of a partition's id with the usual keys; None with other keys.

    A period that was loaded records its partition: this is for all others.
    """
    if partition_id == _ID_OF_ALL:
        return WHOLE_TABLE
    matched = _USUAL_KEY.fullmatch(key)
    if not matched or matched[1] not in _IDS:
        return None
    grain, form = _IDS[matched[1]]
    try:
        at = (
            datetime.fromtimestamp(int(partition_id), UTC)
            if form == _SECONDS
            else datetime.strptime(partition_id, form)
        )
        period = Period.of(at.replace(tzinfo=None), grain)
    except (ValueError, OverflowError, OSError, ConfigurationError):
        return None
    return period if _id_of(period, form) == partition_id else None


def usual_partition_ids(period: Period) -> list[str]:
    """Return the ids that the usual keys give the partition of a period."""
    if period is WHOLE_TABLE:
        return [_ID_OF_ALL]
    return sorted({_id_of(period, form) for grain, form in _IDS.values() if grain is period.grain})


def _id_of(period: Period, form: str) -> str:
    return str(int(period.begin.replace(tzinfo=UTC).timestamp())) if form == _SECONDS else f"{period.begin:{form}}"


def partitions_of_one(context: Target, period: Period) -> Steps[PeriodPartitions]:
    """Return the partitions of a period, as in `partitions_of`."""
    return (yield from partitions_of(context, (period,)))[period]


def _explain_misfit(periods: Sequence[Period], rows: Sequence[Row]) -> str:
    ids, numbers = defaultdict[int, set[str]](set), defaultdict[str, set[int]](set)
    for number, partition_id in rows:
        ids[number].add(partition_id)
        numbers[partition_id].add(number)
    for period in periods:
        partition_ids = ids[number_of(period)]
        if len(partition_ids) > 1:
            return f"{period} falls into {len(partition_ids)} partitions"
        if not partition_ids or len(numbers[next(iter(partition_ids))]) > 1:
            return f"{period} {_SHARES} {period.grain}s"
    return ""


def grain_of_key(context: Target) -> Steps[Grain]:
    """Return how long the periods are that the target is partitioned by, as the servers compute its key."""
    table_facts, of_time = context.table_facts, time_of_key(context)
    if not table_facts.is_partitioned:
        return Grain.ALL
    if of_time and is_the_month(of_time.column, table_facts.partition_key):
        return Grain.MONTH
    key, errors = (yield from _key_of_time(context, Grain.MONTH)), dict[Grain, PreflightError]()
    for grain in (Grain.MONTH, Grain.DAY, Grain.HOUR, Grain.YEAR, Grain.WEEK, Grain.QUARTER):
        try:
            yield from _partitions_by(context, key, [Period.of(_ANY_MOMENT, grain)])
        except PreflightError as error:
            errors[grain] = error
        else:
            return grain
    # The longest that is constant, but comes back, is what the key means: toISOWeek is by week.
    repeating = (grain for grain in reversed(KEYS) if _SHARES in str(errors[grain]))
    raise errors[next(repeating, Grain.MONTH)]


def part_of_time(context: Target) -> Steps[PeriodPartitions]:
    """Return what `PeriodPartitions` of any period of the table have in common: their value is empty."""
    grain = yield from grain_of_key(context)
    if grain is Grain.ALL:
        raise PreflightError(
            f"Table {context.target} has no partitions, so its rows cannot be spread over periods: leave out "
            "policies={'on_other_periods': 'spread'}, and set period='all'."
        )
    any_period = Period.of(_ANY_MOMENT, grain)
    return replace((yield from partitions_of(context, [any_period]))[any_period], value="")


def periods_of_rows(
    context: Target,
    name: TableName,
    values: Mapping[str, str],
    *,
    objects_with: Callable[[str | None], Steps[list[str]]],
    done: str = "published",
) -> Steps[dict[Period, PeriodPartitions]]:
    """Return the periods of the rows of a table shaped as the target, by `PeriodPartitions.value` of its partitions."""
    grain, of_time = (yield from grain_of_key(context)), time_of_key(context)
    assert of_time
    time = identifier(of_time.column.name)
    is_zoned = has_times(of_time.column) and grain is not Grain.HOUR
    for zone in (*((yield from zones_of_key(context)) if is_zoned else ()), None):
        number = number_in(grain, time, zone)
        # Parts know their first and last time, so no rows are read unless some may be NULL.
        times = f"[min({time}), max({time}), if(count({time}) < count(), NULL, min({time}))]"
        of_parts = f"SELECT _partition_id, arrayJoin({times}) AS {time} FROM {table(name)} GROUP BY _partition_id"
        sql = Sql(f"SELECT DISTINCT _partition_id, toString({number}) FROM ({of_parts})")
        answers = yield from QueryNodes(name="Find the periods of the rows", sql=dict.fromkeys(context.publishers, sql))
        periods = dict[str, Period]()
        for key, text in (row for rows in answers.values() for row in rows):
            period = _period_of_number(text, grain)
            if period is None:
                paths = yield from objects_with(values[key] if text else None)
                when = f"rows of {_written(text, grain)}" if text else "rows without a time"
                raise SourceError(
                    f"{_named(paths) or f'{name} has'} {when} in {of_time.column.name!r}, by which {context.target} is "
                    f"partitioned: they belong to no period between {FIRST_YEAR} and {LAST_YEAR}. Nothing was {done}. "
                    "Correct them, or set another value of the column with select={…}."
                )
            periods[values[key]] = period
        partitions = yield from partitions_of(context, sorted(set(periods.values())))
        if all(partitions[period].value == value for value, period in periods.items()):
            return {period: partitions[period] for period in sorted(set(periods.values()))}
    raise PreflightError(_does_not_fit(context, grain, "rows of one partition are of several periods"))


def _period_of_number(text: str | None, grain: Grain) -> Period | None:
    try:
        return Period.of(datetime.strptime(text or "", NUMBERS.get(grain, "%Y%m%d")), grain)
    except (ValueError, ConfigurationError):
        return None


def _written(number: str, grain: Grain) -> str:
    """Write a number of `number_in` as periods are, whatever its year."""
    date = "-".join(filter(None, (number[:4], number[4:6], number[6:8])))
    return f"{date}T{number[8:]}Z" if grain is Grain.HOUR else date


def _named(paths: Sequence[str]) -> str:
    """Name the first of objects, as the beginning of a sentence."""
    more = f" and {quantity(len(paths) - 1, 'more object')} have" if len(paths) > 1 else " has"
    return f"{paths[0]}{more}" if paths else ""


def partitions_of(context: Target, periods: Sequence[Period]) -> Steps[dict[Period, PeriodPartitions]]:
    """Return the partitions of periods, as the servers compute them; those of `toYYYYMM` are known.

    A partition key fits periods if its parts of time are constant in each and different in those before and after, in
    the time zone that the key names, or else in that of its column. Parts of other columns give a period several
    partitions. A table without partitions is one period.
    """
    grain, key = periods[0].grain, context.table_facts.partition_key
    has_key = context.table_facts.is_partitioned
    if grain is Grain.ALL or not has_key:
        if grain is Grain.ALL and not has_key:
            return {WHOLE_TABLE: PeriodPartitions(_ID_OF_ALL)}
        reason = "it has one" if has_key else "it has none, so the whole table is one period: set period='all'"
        raise PreflightError(_does_not_fit(context, grain, reason))
    of_time = time_of_key(context)
    if of_time and grain is Grain.MONTH and is_the_month(of_time.column, key):
        return {period: PeriodPartitions(str(number_of(period))) for period in periods}
    return (yield from _partitions_by(context, (yield from _key_of_time(context, grain)), periods))


class _KeyOfTime(NamedTuple):
    column: Column
    parts: PartsOfKey
    zones: tuple[str, ...]


def _key_of_time(context: Target, grain: Grain) -> Steps[_KeyOfTime]:
    """Return the parts of the key that are of time, as the servers read them; only hours need none of its zones."""
    of_time = time_of_key(context)
    if of_time is None or not is_of_days(of_time.column):
        reason = "a part of it must depend on a Date or DateTime column alone, and the others on no such column"
        raise PreflightError(_does_not_fit(context, grain, reason))
    parts = yield from parts_of_key(context, of_time)
    zones = (yield from zones_of_key(context)) if has_times(of_time.column) and grain is not Grain.HOUR else ()
    return _KeyOfTime(of_time.column, parts, zones)


def _partitions_by(
    context: Target, key: _KeyOfTime, periods: Sequence[Period]
) -> Steps[dict[Period, PeriodPartitions]]:
    grain, whys = periods[0].grain, list[str]()
    # Hours are in UTC, whatever zone the key names.
    for zone in (*(() if grain is Grain.HOUR else key.zones), None):
        sql = Sql(partitions_query(key.column, key.parts, periods, zone=zone))
        name = f"Ask for the partition of {range_text(periods)}"
        rows = yield from context.on_coordinator(name=name, sql=sql, settings=context.evaluating)
        reason = _explain_misfit(periods, rows)
        if not reason:
            ids = {number: str(partition_id) for number, partition_id in rows}
            return {period: PeriodPartitions(ids[number_of(period)], key.parts.of_part) for period in periods}
        whys.append(reason)
    raise PreflightError(_does_not_fit(context, grain, whys[0]))


def _does_not_fit(context: Target, grain: Grain, reason: str) -> str:
    table_facts = context.table_facts
    key = table_facts.partition_key or "none"
    if grain is Grain.ALL:
        way_out = (
            "name one of its own periods, such as 2026-01 or 2026-01-05"
            if _has_time(context)
            else f"create it without a key, or with {_use(context)}"
        )
        return f"Table {context.target} is not one period (its partition key is {key!r}): {way_out}."
    article = "an" if grain is Grain.HOUR else "a"
    return (
        f"Table {context.target} is not partitioned by {grain} (its key is {key!r}; {reason}), so {article} {grain} "
        f"cannot be replaced: name a period that its key knows, or create it with {_use(context, grain)}."
    )


def _use(context: Target, grain: Grain = Grain.MONTH) -> str:
    """Return a key by which periods can be replaced: of one without time its parts, and one of time."""
    columns, key = context.table_facts.columns, context.table_facts.partition_key
    dates = [column.name for column in columns if is_of_days(column)]
    if not dates:
        return f"a Date or DateTime column and PARTITION BY {KEYS[grain]} of it"
    of_time = f"{KEYS[grain]}({identifier(dates[0])})"
    if key and not _has_time(context):
        of_time = f"({', '.join([*elements(key), of_time])})"
    return f"PARTITION BY {of_time}"


def _has_time(context: Target) -> bool:
    return any(column.in_partition_key and is_of_days(column) for column in context.table_facts.columns)
