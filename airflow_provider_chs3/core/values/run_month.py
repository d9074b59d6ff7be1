"""The month or months of a DAG run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from typing import Any

from airflow_provider_chs3.core.values.models import Month
from airflow_provider_chs3.exceptions import ConfigurationError

_TIMETABLE = 'CronDataIntervalTimetable("0 0 1 * *", timezone="UTC")'
_NIGHTLY_TIMETABLE = 'CronDataIntervalTimetable("0 3 * * *", timezone="UTC")'

#: The keys of Airflow's timetables and mappers for months, quarters, days and times.
_PERIOD = re.compile(
    r"(?P<month>\d{4}-\d{2})|(?P<year>\d{4})-Q(?P<quarter>[1-4])"
    r"|(?P<time>\d{4}-\d{2}-\d{2}([T ]\d{2}(:\d{2}){0,2}(\.\d+)?(Z|[+-]\d{2}:?\d{2})?)?)"
)


@dataclass(frozen=True, kw_only=True)
class DagRun:
    """What a run of a DAG says of its months.

    Args:
        partition_key: Its partition key, such as `2026-10`; overrides all others. Default: none.
        partition_date: When the period of that key begins, in the time zone of the timetable. Default: unknown.
        start: Start of its data interval.
        end: End of its data interval, exclusive.
        timezone: Time zone of the months.
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


def month_of_run(run: DagRun) -> Month:
    """Return the month of a run.

    Args:
        run: The run.

    Raises:
        ConfigurationError: If the run covers no month or several.
    """
    months = months_of_run(run)
    if len(months) == 1:
        return months[0]
    if run.partition_key:
        raise ConfigurationError(
            f"This run's partition key {run.partition_key!r} covers {len(months)} months, and this task takes one: "
            "give month='YYYY-MM', or map the task over the output of PlanMonthsOperator."
        )
    first, last = (at.astimezone(run.timezone).isoformat() for at in (run.start, run.end) if at)
    raise ConfigurationError(
        f"This run's data interval ({first} to {last}) covers more than one month: schedule the DAG with {_TIMETABLE}, "
        "or give month='YYYY-MM'."
    )


def given_month(month: str | None) -> Month:
    """Parse the argument `month` after its template is rendered.

    Args:
        month: The rendered value.

    Raises:
        ConfigurationError: If it is not a month.
    """
    if month is None or str(month).strip() in ("", "None"):
        raise ConfigurationError(
            f"month={month!r}: its template rendered to nothing. Give the run a value for it, or leave month out for "
            "the run's own month."
        )
    return Month.parse(month)


def months_of_run(run: DagRun, *, argument: str = "month") -> tuple[Month, ...]:
    """Return the months of a run's partition key, else those that its data interval touches, in order.

    Args:
        run: The run.
        argument: The task's argument that would name the month instead; `month` by default.

    Raises:
        ConfigurationError: If the run covers no month, or its conf asks for months that nothing reads.
    """
    if asked := [name for name in ("month", "months") if run.conf.get(name)]:
        raise ConfigurationError(
            f"The run's conf has {asked[0]}={run.conf[asked[0]]!r}, but this task takes its month from the run: to "
            "load months again, give the conf chs3_reload; to let the conf decide, give the task "
            f'{argument}="{{{{ params.{asked[0]} }}}}" and the DAG a param {asked[0]!r}, which also says that another '
            "task reads it."
        )
    if run.partition_key:
        return _months_of_key(run, argument)
    start, end = run.start, run.end
    if not run.is_scheduled and (start is None or start == end):
        raise ConfigurationError(
            f"The DAG has no schedule, so its runs cover no time and have no month: give {argument}='YYYY-MM', such as "
            f'{argument}="{{{{ ds[:7] }}}}" for that of its logical date, or schedule it with {_NIGHTLY_TIMETABLE}.'
        )
    if start is None or end is None:
        raise ConfigurationError(
            "This run has no data interval and so no month, as it was triggered without a logical date: trigger it "
            f"with one (airflow dags trigger … --logical-date 2026-02-15), or give {argument}='YYYY-MM'."
        )
    if start == end:
        raise ConfigurationError(
            f"This run's data interval is empty ({start.isoformat()}), as it is with a plain cron schedule or "
            f"'@monthly' since Airflow 3: schedule the DAG with {_TIMETABLE} ({_NIGHTLY_TIMETABLE} for every night), "
            f"or give {argument}='YYYY-MM'."
        )
    first, last = start.astimezone(run.timezone), (end - timedelta(microseconds=1)).astimezone(run.timezone)
    months = [Month(first.year, first.month)]
    while months[-1] < Month(last.year, last.month):
        months.append(months[-1].shifted(1))
    return tuple(months)


def _months_of_key(run: DagRun, argument: str) -> tuple[Month, ...]:
    """Return the months of a partition key; of one with several parts, such as `us|2026-10`, one must be a period."""
    key, date = str(run.partition_key), run.partition_date
    periods = [found for part in key.split("|") if (found := _PERIOD.fullmatch(part.strip()))]
    if len(periods) == 1:
        return _months_of_period(periods[0], run.timezone)
    if not periods and date is not None and date.day == 1:
        return (Month(date.year, date.month),)
    raise ConfigurationError(
        f"This run's partition key {key!r} names {'several periods' if periods else 'no month'}: give its timetable "
        f"key_format='%Y-%m', or its mapper output_format='%Y-%m', or give {argument}='YYYY-MM'."
    )


def _months_of_period(period: re.Match[str], timezone: tzinfo) -> tuple[Month, ...]:
    if period["month"]:
        return (Month.parse(period["month"]),)
    if period["quarter"]:
        first = Month(int(period["year"]), int(period["quarter"]) * 3 - 2)
        return (first, first.shifted(1), first.shifted(2))
    try:
        at = datetime.fromisoformat(period["time"])
    except ValueError as error:
        raise ConfigurationError(f"This run's partition key {period['time']!r} is not a time: {error}.") from None
    # Without an offset, it is already what the timetable's time zone calls it.
    at = at.astimezone(timezone) if at.tzinfo else at
    return (Month(at.year, at.month),)


def parse_months(given: Sequence[str] | str | None) -> tuple[Month, ...]:
    """Parse a list of months and sort it.

    Args:
        given: `YYYY-MM` values, as a list or separated by commas.

    Raises:
        ConfigurationError: If one is not a month, or a template rendered to None.
    """
    if given is None:
        raise ConfigurationError("months=None: its template rendered to nothing. Give the run a value for it.")
    texts = given.split(",") if isinstance(given, str) else given
    return tuple(sorted({Month.parse(text.strip()) for text in texts}))
