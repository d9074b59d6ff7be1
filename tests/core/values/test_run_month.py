"""Which month a run of a DAG is about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from airflow_provider_chs3.core.values.models import Month
from airflow_provider_chs3.core.values.run_month import month_of_run, months_of_run
from airflow_provider_chs3.exceptions import ConfigurationError

BERLIN, TOKYO, APIA = ZoneInfo("Europe/Berlin"), ZoneInfo("Asia/Tokyo"), ZoneInfo("Pacific/Apia")
OCTOBER = Month(2026, 10)


def month(start: datetime | None, end: datetime | None, *, timezone=UTC, partition_key: str | None = None) -> Month:
    return month_of_run(partition_key=partition_key, start=start, end=end, timezone=timezone)


@pytest.mark.parametrize(
    ("start", "end", "timezone"),
    [
        (datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC), UTC),
        (datetime(2026, 10, 31, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC), UTC),
        (datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 10, 2, tzinfo=UTC), UTC),
        (datetime(2026, 9, 30, 22, tzinfo=UTC), datetime(2026, 10, 31, 23, tzinfo=UTC), BERLIN),
        (datetime(2026, 10, 1, tzinfo=BERLIN), datetime(2026, 11, 1, tzinfo=BERLIN), BERLIN),
        (datetime(2026, 9, 30, 15, tzinfo=UTC), datetime(2026, 10, 31, 15, tzinfo=UTC), TOKYO),
        (datetime(2026, 10, 1, tzinfo=APIA), datetime(2026, 11, 1, tzinfo=APIA), APIA),
    ],
)
def test_an_interval_within_a_month_is_that_month_and_its_end_does_not_belong_to_it(start, end, timezone):
    assert month(start, end, timezone=timezone) == OCTOBER


def test_the_time_zone_decides():
    start, end = datetime(2026, 9, 30, 22, tzinfo=UTC), datetime(2026, 9, 30, 23, tzinfo=UTC)
    assert (month(start, end, timezone=UTC), month(start, end, timezone=BERLIN)) == (Month(2026, 9), OCTOBER)


@pytest.mark.parametrize(
    ("start", "end", "timezone"),
    [
        (datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, 0, 0, 1, tzinfo=UTC), UTC),
        (datetime(2026, 10, 1, tzinfo=UTC), datetime(2027, 10, 2, tzinfo=UTC), UTC),
        (datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC), BERLIN),
        (datetime(2026, 10, 31, 12, tzinfo=UTC), datetime(2026, 11, 1, 12, tzinfo=UTC), UTC),
    ],
)
def test_an_interval_of_several_months_is_refused(start, end, timezone):
    with pytest.raises(ConfigurationError, match=r"covers more than one month: schedule the DAG with CronDataInterval"):
        month(start, end, timezone=timezone)


def test_an_empty_interval_is_refused_with_the_timetable_to_use():
    at = datetime(2026, 11, 1, tzinfo=UTC)
    with pytest.raises(ConfigurationError, match=r"is empty .*'@monthly' since Airflow 3.*CronDataIntervalTimetable\("):
        month(at, at)


@pytest.mark.parametrize(("start", "end"), [(None, None), (datetime(2026, 10, 1, tzinfo=UTC), None)])
def test_without_an_interval_a_month_must_be_given(start, end):
    with pytest.raises(ConfigurationError, match=r"has no data interval and so no month, .* --logical-date 2026-02-15"):
        month(start, end)


@pytest.mark.parametrize("start", [None, datetime(2026, 1, 1, tzinfo=UTC)])
def test_a_partition_key_goes_before_the_interval(start):
    end = start + timedelta(days=500) if start else None
    assert month(start, end, partition_key="2026-10") == OCTOBER


@pytest.mark.parametrize("partition_key", ["2026-10-01", "october", "2026-13"])
def test_a_partition_key_must_be_a_month(partition_key):
    with pytest.raises(ConfigurationError, match="is not a month"):
        month(None, None, partition_key=partition_key)


def test_an_empty_partition_key_is_none():
    start, end = datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC)
    assert month(start, end, partition_key="") == OCTOBER


class TestSeveralMonths:
    def test_an_interval_gives_every_month_that_it_touches(self):
        start, end = datetime(2025, 12, 31, tzinfo=UTC), datetime(2026, 2, 1, 0, 0, 1, tzinfo=UTC)
        months = months_of_run(partition_key=None, start=start, end=end, timezone=UTC)
        assert months == (Month(2025, 12), Month(2026, 1), Month(2026, 2))

    def test_the_end_does_not_belong_to_it(self):
        start, end = datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC)
        assert months_of_run(partition_key=None, start=start, end=end, timezone=UTC) == (OCTOBER,)

    def test_an_empty_interval_is_refused_with_the_timetable_to_use(self):
        at = datetime(2026, 11, 1, tzinfo=UTC)
        with pytest.raises(ConfigurationError, match=r"is empty .*CronDataIntervalTimetable\("):
            months_of_run(partition_key=None, start=at, end=at, timezone=UTC)
