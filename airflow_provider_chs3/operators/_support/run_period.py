"""The period or periods of a DAG run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from airflow_provider_chs3.core.model.period import WHOLE_TABLE, Grain, Period, example_of
from airflow_provider_chs3.exceptions import ConfigurationError

_NIGHTLY_TIMETABLE = 'CronDataIntervalTimetable("0 3 * * *", timezone="UTC")'
#: Schedules with a run for each period, and what their timetables and mappers would write of it.
_CRONS = {
    **{Grain.HOUR: "0 * * * *", Grain.DAY: "0 0 * * *", Grain.WEEK: "0 0 * * 1", Grain.MONTH: "0 0 1 * *"},
    **{Grain.QUARTER: "0 0 1 */3 *", Grain.YEAR: "0 0 1 1 *"},
}
_FORMATS = {Grain.HOUR: "%Y-%m-%dT%H", Grain.DAY: "%Y-%m-%d", Grain.WEEK: "%G-W%V", Grain.YEAR: "%Y"}

#: The keys of Airflow's timetables and mappers for periods and times.
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}(:\d{2}){0,2}(\.\d+)?(Z|[+-]\d{2}:?\d{2})?)?")
#: The mapper of weeks writes the day first: `2026-10-05 (W41)`.
_WEEK = re.compile(r"(?P<day>\d{4}-\d{2}-\d{2}) \(W\d{2}\)")


@dataclass(frozen=True, kw_only=True)
class DagRun:
    """Facts of a DAG's run that tell its periods."""

    partition_key: str | None = None
    partition_date: datetime | None = None
    partition_end: datetime | None = None
    key_timezone: tzinfo | None = None
    start: datetime | None
    end: datetime | None
    timezone: tzinfo
    is_scheduled: bool = True
    conf: Mapping[str, Any] = field(default_factory=dict)


def period_of_run(run: DagRun, grain: Grain = Grain.MONTH) -> Period:
    """Return the period of a run."""
    periods = periods_of_run(run, grain)
    if len(periods) == 1:
        return periods[0]
    if run.partition_key:
        raise ConfigurationError(
            f"This run's partition key {run.partition_key!r} covers {len(periods)} {grain}s, but this task takes one: "
            f"set period='{example_of(grain)}', or map the task over the output of PlanLoadsOperator."
        )
    first, last = (at.astimezone(run.timezone).isoformat() for at in (run.start, run.end) if at)
    raise ConfigurationError(
        f"This run's data interval ({first} to {last}) covers more than one {grain}: schedule the DAG with "
        f"{_timetable(grain)}, or set period='{example_of(grain)}'."
    )


def periods_of_run(run: DagRun, grain: Grain = Grain.MONTH, *, argument: str = "period") -> tuple[Period, ...]:
    """Return the periods of a run's partition key, else those that its data interval touches, in order."""
    if asked := [name for name in ("period", "periods") if run.conf.get(name)]:
        raise ConfigurationError(
            f"The run's conf has {asked[0]}={run.conf[asked[0]]!r}, but this task takes its period from the run: to "
            "load periods again, pass the conf chs3_reload; to let the conf decide, set "
            f'{argument}="{{{{ params.{asked[0]} }}}}" for the task, and a param {asked[0]!r} of the DAG, which '
            "also says that another task reads it."
        )
    if grain is Grain.ALL:
        return (WHOLE_TABLE,)
    if run.partition_key:
        return _periods_of_key(run, grain, argument)
    start, end, example = run.start, run.end, example_of(grain)
    if not run.is_scheduled and (start is None or start == end):
        raise ConfigurationError(
            f"The DAG has no schedule, so its runs cover no time and have no period: set {argument}='{example}', or, "
            f'for months, {argument}="{{{{ ds[:7] }}}}", that of its logical date, or schedule it with '
            f"{_NIGHTLY_TIMETABLE}."
        )
    if start is None or end is None:
        raise ConfigurationError(
            "This run has no data interval and so no period, as it was triggered without a logical date: trigger it "
            f"with one (airflow dags trigger … --logical-date 2026-02-15), or set {argument}='{example}'."
        )
    if start == end:
        raise ConfigurationError(
            f"This run's data interval is empty ({start.isoformat()}), as it is with a plain cron schedule or "
            f"'@monthly' since Airflow 3: schedule the DAG with {_timetable(grain)} ({_NIGHTLY_TIMETABLE} for every "
            f"night), or set {argument}='{example}'."
        )
    return _periods_in(start, end, run, grain)


def _timetable(grain: Grain) -> str:
    return f'CronDataIntervalTimetable("{_CRONS[grain]}", timezone="UTC")'


def _periods_of_key(run: DagRun, grain: Grain, argument: str) -> tuple[Period, ...]:
    """Return the periods of a partition key; of one with several parts, such as `us|2026-10`, one must be a period."""
    key, date, until = str(run.partition_key), run.partition_date, run.partition_end
    spans = [span for part in key.split("|") if (span := _span(part.strip()))]
    if not spans and date and until:
        spans = [(_in_key(date, run, grain),) * 2]
    if len(spans) == 1:
        begin, end = spans[0]
        if begin == end and until:
            # A time of a timetable stands for all until its next one.
            until = until if begin.tzinfo else _in_key(until, run, grain)
            return tuple(_period_at(begin, run, grain).through(_period_at(until, run, grain).shifted(-1)))
        return _periods_in(begin, end, run, grain)
    format_of_key = _FORMATS.get(grain, "%Y-%m")
    raise ConfigurationError(
        f"This run's partition key {key!r} names {'several periods' if spans else 'no period'}: set "
        f"key_format='{format_of_key}' in its timetable or output_format='{format_of_key}' in its mapper, or set "
        f"{argument}='{example_of(grain)}'."
    )


def _span(text: str) -> tuple[datetime, datetime] | None:
    """Return the first moment that a part of a key names, and that after the last; the same one for a time."""
    if matched := _WEEK.fullmatch(text):
        monday = Period.of(datetime.fromisoformat(matched["day"]), Grain.WEEK)
        return monday.begin, monday.end
    with suppress(ConfigurationError):
        period = Period.parse(text)
        zone = UTC if period.grain is Grain.HOUR else None
        return None if period is WHOLE_TABLE else (period.begin.replace(tzinfo=zone), period.end.replace(tzinfo=zone))
    if not _TIME.fullmatch(text):
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigurationError(f"This run's partition key {text!r} is not a time: {error}.") from None
    return at, at


def _periods_in(begin: datetime, end: datetime, run: DagRun, grain: Grain) -> tuple[Period, ...]:
    """Return the periods from one moment to another, in order; the last moment does not belong to them."""
    # Clocks may skip midnight: the moment before it is of the day before.
    last = max(begin, end - timedelta(microseconds=1))
    return tuple(_period_at(begin, run, grain).through(_period_at(last, run, grain)))


def _in_key(at: datetime, run: DagRun, grain: Grain) -> datetime:
    """Return what keys call a moment; of hours, which they may call the same, the moment."""
    return at if grain is Grain.HOUR else at.astimezone(run.key_timezone or run.timezone).replace(tzinfo=None)


def _period_at(at: datetime, run: DagRun, grain: Grain) -> Period:
    """Return the period of a moment; one without an offset is what keys, or periods, call it."""
    if grain is Grain.HOUR:
        if not at.tzinfo:
            zone, date = run.key_timezone or run.timezone, run.partition_date
            # If clocks show a time twice, the date knows which it is.
            at = at.replace(tzinfo=zone, fold=date.astimezone(zone).fold if date else 0)
        at = at.astimezone(UTC)
    elif at.tzinfo:
        at = at.astimezone(run.timezone)
    return Period.of(at.replace(tzinfo=None), grain)
