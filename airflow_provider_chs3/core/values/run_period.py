"""The period or periods of a DAG run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from airflow_provider_chs3.core.values.period import WHOLE_TABLE, Grain, Period, grain_of
from airflow_provider_chs3.exceptions import ConfigurationError

_TIMETABLE = 'CronDataIntervalTimetable("0 0 1 * *", timezone="UTC")'
_NIGHTLY_TIMETABLE = 'CronDataIntervalTimetable("0 3 * * *", timezone="UTC")'

#: The keys of Airflow's timetables and mappers for periods and times.
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}(:\d{2}){0,2}(\.\d+)?(Z|[+-]\d{2}:?\d{2})?)?")
#: The mapper of weeks writes the day first: `2026-10-05 (W41)`.
_WEEK = re.compile(r"(?P<day>\d{4}-\d{2}-\d{2}) \(W\d{2}\)")


@dataclass(frozen=True, kw_only=True)
class DagRun:
    """What a run of a DAG says of its periods.

    Args:
        partition_key: Its partition key, such as `2026-10`; overrides all others. Default: none.
        partition_date: When the period of that key begins, in the time zone of the timetable. Default: unknown.
        start: Start of its data interval.
        end: End of its data interval, exclusive.
        timezone: Time zone of the periods.
        is_scheduled: Whether its DAG has a schedule. Default: True.
        conf: Its conf, without what the DAG declares as parameters. Default: empty.
    """

    partition_key: str | None = None
    partition_date: datetime | None = None
    start: datetime | None
    end: datetime | None
    timezone: tzinfo
    is_scheduled: bool = True
    conf: Mapping[str, Any] = field(default_factory=dict)


def period_of_run(run: DagRun, grain: Grain = Grain.MONTH) -> Period:
    """Return the period of a run.

    Args:
        run: The run.
        grain: The length of the table's periods. Default: months.

    Raises:
        ConfigurationError: If the run covers no period or several.
    """
    periods = periods_of_run(run, grain)
    if len(periods) == 1:
        return periods[0]
    if run.partition_key:
        raise ConfigurationError(
            f"This run's partition key {run.partition_key!r} covers {len(periods)} {grain}s, and this task takes one: "
            "give period='YYYY-MM', or map the task over the output of PlanLoadsOperator."
        )
    first, last = (at.astimezone(run.timezone).isoformat() for at in (run.start, run.end) if at)
    raise ConfigurationError(
        f"This run's data interval ({first} to {last}) covers more than one {grain}: schedule the DAG with "
        f"{_TIMETABLE}, or give period='YYYY-MM'."
    )


def given_period(period: str | None) -> Period:
    """Parse the argument `period` after its template is rendered.

    Args:
        period: The rendered value.

    Raises:
        ConfigurationError: If it is not a period.
    """
    if period is None or str(period).strip() in ("", "None"):
        raise ConfigurationError(
            f"period={period!r}: its template rendered to nothing. Give the run a value for it, or leave period out "
            "for the run's own period."
        )
    return Period.parse(period)


def periods_of_run(run: DagRun, grain: Grain = Grain.MONTH, *, argument: str = "period") -> tuple[Period, ...]:
    """Return the periods of a run's partition key, else those that its data interval touches, in order.

    Args:
        run: The run.
        grain: The length of the table's periods. Default: months.
        argument: The task's argument that would name the period instead; `period` by default.

    Raises:
        ConfigurationError: If the run covers no period, or its conf asks for periods that nothing reads.
    """
    if asked := [name for name in ("period", "periods") if run.conf.get(name)]:
        raise ConfigurationError(
            f"The run's conf has {asked[0]}={run.conf[asked[0]]!r}, but this task takes its period from the run: to "
            "load periods again, give the conf chs3_reload; to let the conf decide, give the task "
            f'{argument}="{{{{ params.{asked[0]} }}}}" and the DAG a param {asked[0]!r}, which also says that another '
            "task reads it."
        )
    if grain is Grain.ALL:
        return (WHOLE_TABLE,)
    if run.partition_key:
        return _periods_of_key(run, grain, argument)
    start, end = run.start, run.end
    if not run.is_scheduled and (start is None or start == end):
        raise ConfigurationError(
            f"The DAG has no schedule, so its runs cover no time and have no period: give {argument}='YYYY-MM', such "
            f'as {argument}="{{{{ ds[:7] }}}}" for that of its logical date, or schedule it with {_NIGHTLY_TIMETABLE}.'
        )
    if start is None or end is None:
        raise ConfigurationError(
            "This run has no data interval and so no period, as it was triggered without a logical date: trigger it "
            f"with one (airflow dags trigger … --logical-date 2026-02-15), or give {argument}='YYYY-MM'."
        )
    if start == end:
        raise ConfigurationError(
            f"This run's data interval is empty ({start.isoformat()}), as it is with a plain cron schedule or "
            f"'@monthly' since Airflow 3: schedule the DAG with {_TIMETABLE} ({_NIGHTLY_TIMETABLE} for every night), "
            f"or give {argument}='YYYY-MM'."
        )
    return _periods_in(start, end, run, grain)


def _periods_of_key(run: DagRun, grain: Grain, argument: str) -> tuple[Period, ...]:
    """Return the periods of a partition key; of one with several parts, such as `us|2026-10`, one must be a period."""
    key, date = str(run.partition_key), run.partition_date
    spans = [found for part in key.split("|") if (found := _span(part.strip(), run))]
    if len(spans) == 1:
        return _periods_in(*spans[0], run, grain)
    if not spans and date is not None:
        begin = _named(date.replace(tzinfo=None), run, grain)
        if Period.of(begin, grain).begin == begin:
            return (Period.of(begin, grain),)
    raise ConfigurationError(
        f"This run's partition key {key!r} names {'several periods' if spans else 'no period'}: give its timetable "
        f"key_format='%Y-%m', or its mapper output_format='%Y-%m', or give {argument}='YYYY-MM'."
    )


def _span(text: str, run: DagRun) -> tuple[datetime, datetime] | None:
    """Return the first moment that a part of a key names, and that after the last; the same one for a time.

    Those without an offset are what the time zone of the periods calls them.
    """
    if matched := _WEEK.fullmatch(text):
        monday = Period.of(datetime.fromisoformat(matched["day"]), Grain.WEEK)
        return monday.begin, monday.end
    with suppress(ConfigurationError):
        found = Period.parse(text)
        zone = UTC if found.grain is Grain.HOUR else None
        return None if found is WHOLE_TABLE else (found.begin.replace(tzinfo=zone), found.end.replace(tzinfo=zone))
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
    last = _named(max(begin, end - timedelta(microseconds=1)), run, grain)
    periods = [Period.of(_named(begin, run, grain), grain)]
    while periods[-1].end <= last:
        periods.append(periods[-1].shifted(1))
    return tuple(periods)


def _named(at: datetime, run: DagRun, grain: Grain) -> datetime:
    """Return what a moment is called where periods are named: hours in UTC, others in their time zone."""
    if grain is not Grain.HOUR:
        return at.astimezone(run.timezone).replace(tzinfo=None) if at.tzinfo else at
    if not at.tzinfo:
        date = run.partition_date
        # Of a time that clocks show twice, this knows which it is.
        at = date if date and date.replace(tzinfo=None) == at else at.replace(tzinfo=run.timezone)
    return at.astimezone(UTC).replace(tzinfo=None)


def parse_periods(given: Sequence[str] | str | None) -> tuple[Period, ...]:
    """Parse a list of periods and sort it.

    Args:
        given: `YYYY-MM` values, as a list or separated by commas.

    Raises:
        ConfigurationError: If one is not a period, they have several lengths, or a template rendered to None.
    """
    if given is None:
        raise ConfigurationError("periods=None: its template rendered to nothing. Give the run a value for it.")
    texts = given.split(",") if isinstance(given, str) else given
    periods = {Period.parse(text.strip()) for text in texts}
    if periods:
        grain_of(periods)
    return tuple(sorted(periods))
