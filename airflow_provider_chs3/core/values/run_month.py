"""The month or months of a DAG run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo

from airflow_provider_chs3.core.values.models import Month
from airflow_provider_chs3.exceptions import ConfigurationError

_TIMETABLE = 'CronDataIntervalTimetable("0 0 1 * *", timezone="UTC")'
_NIGHTLY_TIMETABLE = 'CronDataIntervalTimetable("0 3 * * *", timezone="UTC")'


def month_of_run(*, partition_key: str | None, start: datetime | None, end: datetime | None, timezone: tzinfo) -> Month:
    """Return the month of a run.

    Args:
        partition_key: The run's partition key, such as `2026-10`; overrides the interval.
        start: Start of the data interval.
        end: Its end, exclusive.
        timezone: Time zone of the months.

    Raises:
        ConfigurationError: If the run covers no month or several.
    """
    months = months_of_run(partition_key=partition_key, start=start, end=end, timezone=timezone)
    if len(months) == 1:
        return months[0]
    first, last = (at.astimezone(timezone).isoformat() for at in (start, end) if at)
    raise ConfigurationError(
        f"This run's data interval ({first} to {last}) covers more than one month: schedule the DAG with {_TIMETABLE}, "
        "or give month='YYYY-MM'."
    )


def given_month(month: str | None) -> Month:
    """Parse the argument `month` after its template is rendered.

    Args:
        month: The rendered value.

    Raises:
        ConfigurationError: If it is no month.
    """
    if month is None or str(month).strip() in ("", "None"):
        raise ConfigurationError(
            f"month={month!r}: its template rendered to nothing. Give the run a value for it, or leave month out for "
            "the run's own month."
        )
    return Month.parse(month)


def months_of_run(
    *,
    partition_key: str | None,
    start: datetime | None,
    end: datetime | None,
    timezone: tzinfo,
    argument: str = "month",
) -> tuple[Month, ...]:
    """Return the months that a run's data interval touches, in order, or that of its partition key.

    Args:
        partition_key: The run's partition key, such as `2026-10`; overrides the interval.
        start: Start of the data interval.
        end: Its end, exclusive.
        timezone: Time zone of the months.
        argument: The task's argument that would name the month instead; `month` by default.

    Raises:
        ConfigurationError: If the run covers no month.
    """
    if partition_key:
        return (Month.parse(partition_key),)
    if start is None or end is None:
        raise ConfigurationError(
            "This run has no data interval and so no month, as it was triggered without a logical date: trigger it "
            f"with one (airflow dags trigger … --logical-date 2026-02-15), or give {argument}='YYYY-MM'."
        )
    if start == end:
        raise ConfigurationError(
            f"This run's data interval is empty ({start.isoformat()}), as it is without a schedule, and with a plain "
            f"cron schedule or '@monthly' since Airflow 3: schedule the DAG with {_TIMETABLE} ({_NIGHTLY_TIMETABLE} "
            f"for every night), or give {argument}='YYYY-MM'."
        )
    first, last = start.astimezone(timezone), (end - timedelta(microseconds=1)).astimezone(timezone)
    months = [Month(first.year, first.month)]
    while months[-1] < Month(last.year, last.month):
        months.append(months[-1].shifted(1))
    return tuple(months)


def parse_months(given: Sequence[str] | str) -> tuple[Month, ...]:
    """Parse a list of months and sort it.

    Args:
        given: `YYYY-MM` values, as a list or separated by commas.

    Raises:
        ConfigurationError: If one is not a month.
    """
    texts = given.split(",") if isinstance(given, str) else given
    return tuple(sorted({Month.parse(text.strip()) for text in texts}))
