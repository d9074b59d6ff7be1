"""Which period a run of a DAG is about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from airflow_provider_chs3.core.model.period import Grain, Period
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.operators._support.run_period import DagRun, period_of_run, periods_of_run

BERLIN, TOKYO, APIA = ZoneInfo("Europe/Berlin"), ZoneInfo("Asia/Tokyo"), ZoneInfo("Pacific/Apia")
OCTOBER = Period.of_month(2026, 10)


def period(start: datetime | None, end: datetime | None, *, timezone=UTC, **of_run) -> Period:
    return period_of_run(DagRun(start=start, end=end, timezone=timezone, **of_run))


def periods_of_key(key: str, *, timezone=UTC, date: datetime | None = None) -> list[str]:
    run = DagRun(partition_key=key, partition_date=date, start=None, end=None, timezone=timezone)
    return [str(each) for each in periods_of_run(run)]


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
def test_an_interval_within_a_period_is_that_period_and_its_end_does_not_belong_to_it(start, end, timezone):
    assert period(start, end, timezone=timezone) == OCTOBER


def test_the_time_zone_decides():
    start, end = datetime(2026, 9, 30, 22, tzinfo=UTC), datetime(2026, 9, 30, 23, tzinfo=UTC)
    assert (period(start, end, timezone=UTC), period(start, end, timezone=BERLIN)) == (
        Period.of_month(2026, 9),
        OCTOBER,
    )


@pytest.mark.parametrize(
    ("start", "end", "timezone"),
    [
        (datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, 0, 0, 1, tzinfo=UTC), UTC),
        (datetime(2026, 10, 1, tzinfo=UTC), datetime(2027, 10, 2, tzinfo=UTC), UTC),
        (datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC), BERLIN),
        (datetime(2026, 10, 31, 12, tzinfo=UTC), datetime(2026, 11, 1, 12, tzinfo=UTC), UTC),
    ],
)
def test_an_interval_of_several_periods_is_refused(start, end, timezone):
    with pytest.raises(ConfigurationError, match=r"covers more than one month: schedule the DAG with CronDataInterval"):
        period(start, end, timezone=timezone)


def test_an_empty_interval_is_refused_with_the_timetable_to_use():
    at = datetime(2026, 11, 1, tzinfo=UTC)
    with pytest.raises(ConfigurationError, match=r"is empty .*'@monthly' since Airflow 3.*CronDataIntervalTimetable\("):
        period(at, at)


@pytest.mark.parametrize(("start", "end"), [(None, None), (datetime(2026, 10, 1, tzinfo=UTC), None)])
def test_without_an_interval_a_period_must_be_given(start, end):
    with pytest.raises(
        ConfigurationError, match=r"has no data interval and so no period, .* --logical-date 2026-02-15"
    ):
        period(start, end)


@pytest.mark.parametrize("start", [None, datetime(2026, 1, 1, tzinfo=UTC)])
def test_a_partition_key_goes_before_the_interval(start):
    end = start + timedelta(days=500) if start else None
    assert period(start, end, partition_key="2026-10") == OCTOBER


@pytest.mark.parametrize(
    "key",
    [
        # The keys that Airflow's timetables and mappers write by default, for a period and for a day or an hour of it.
        *("2026-10", "2026-10-01", "2026-10-31", "2026-10-01T00:00:00", "2026-10-31T23:59:59", "2026-10-05T07"),
        *("2026-10-05 07:30", "2026-10-01T00:00:00Z", "2026-10-31T23:59:59.9+00:00"),
        *("us|2026-10", "2026-10|us", "us | 2026-10-01T00:00:00 | v2"),
    ],
)
def test_a_partition_key_is_the_month_that_it_names_or_lies_in(key):
    assert periods_of_key(key) == ["2026-10"]


@pytest.mark.parametrize(
    ("key", "periods"),
    [
        ("2026-Q1", ["2026-01", "2026-02", "2026-03"]),
        ("eu|2026-Q4", ["2026-10", "2026-11", "2026-12"]),
        ("2026-10-05 (W41)", ["2026-10"]),
        ("2026-09-28 (W40)", ["2026-09", "2026-10"]),
    ],
)
def test_the_key_of_a_longer_period_is_all_that_it_touches(key, periods):
    assert periods_of_key(key) == periods


def test_a_task_that_takes_one_period_refuses_a_quarter():
    with pytest.raises(ConfigurationError, match=r"partition key '2026-Q1' covers 3 months.*map the task over"):
        period(None, None, partition_key="2026-Q1")


@pytest.mark.parametrize(
    ("key", "timezone", "expected"),
    [
        # The timetable's own time of day is the key's; an offset makes it an instant.
        ("2026-11-01T00:00:00", APIA, "2026-11"),
        ("2026-10-31T23:00:00+00:00", BERLIN, "2026-11"),
        ("2026-10-31T23:00:00Z", UTC, "2026-10"),
        ("2026-11-01T00:00:00+0100", UTC, "2026-10"),
    ],
)
def test_the_time_zone_decides_for_keys_with_an_offset_alone(key, timezone, expected):
    assert periods_of_key(key, timezone=timezone) == [expected]


def test_of_a_timetable_whose_key_names_no_period_the_date_does():
    run = {"key": "Oct 26", "timezone": UTC, "date": datetime(2026, 9, 30, 22, tzinfo=UTC), "key_timezone": BERLIN}
    until = datetime(2026, 10, 31, 23, tzinfo=UTC)
    assert of_grain(Grain.MONTH, **run, until=until) == ["2026-10"]
    days = of_grain(Grain.DAY, **run, until=until)
    assert (days[0], days[-1], len(days)) == ("2026-10-01", "2026-10-31", 31)
    # Nobody knows how long the partitions of a mapper are.
    with pytest.raises(ConfigurationError, match=r"key 'Oct 26' names no period.*output_format='%Y-%m-%d'"):
        of_grain(Grain.DAY, **run)


@pytest.mark.parametrize(
    ("key", "grain", "until", "expected"),
    [
        # Each run of a timetable has its own part of the time, whatever the table's periods: none is left out.
        ("2026-10-01T00:00:00", Grain.DAY, datetime(2026, 11, 1), ("2026-10-01", "2026-10-31", 31)),
        ("2026-10-01T02:30:00", Grain.DAY, datetime(2026, 11, 1, 2, 30), ("2026-10-01", "2026-10-31", 31)),
        ("2026-10-01T02:30:00", Grain.HOUR, datetime(2026, 10, 2, 2, 30), ("2026-10-01T02Z", "2026-10-02T01Z", 24)),
        ("2026-10-05T00:00:00", Grain.DAY, datetime(2026, 10, 12), ("2026-10-05", "2026-10-11", 7)),
        ("2026-10-31T03:00:00", Grain.DAY, datetime(2026, 11, 1, 3), ("2026-10-31", "2026-10-31", 1)),
        ("2026-10-31T03:00:00", Grain.MONTH, datetime(2026, 11, 1, 3), ("2026-10", "2026-10", 1)),
        ("2026-10-31T03:15:00", Grain.HOUR, datetime(2026, 10, 31, 3, 30), ("2026-10-31T03Z", "2026-10-31T03Z", 1)),
        # One that names its length means it.
        ("2026-10", Grain.DAY, datetime(2026, 10, 8), ("2026-10-01", "2026-10-31", 31)),
        ("2026-10-01", Grain.HOUR, datetime(2026, 10, 8), ("2026-10-01T00Z", "2026-10-01T23Z", 24)),
    ],
)
def test_a_time_of_a_timetable_stands_for_all_until_its_next_one(key, grain, until, expected):
    found = of_grain(grain, key=key, until=until.replace(tzinfo=UTC))
    assert (found[0], found[-1], len(found)) == expected


@pytest.mark.parametrize(
    "key",
    ["october", "2026-13", "2026-Q5", "2026-02-30", "202610", "us", "2026-10-01T25:00"],
)
def test_a_key_that_cannot_be_a_period_is_refused_by_name(key):
    with pytest.raises(ConfigurationError) as refused:
        periods_of_key(key)
    assert key in str(refused.value)
    assert "is not a period" in str(refused.value) or "partition key" in str(refused.value)


def test_the_refusal_says_what_to_do():
    with pytest.raises(ConfigurationError, match=r"'us' names no period: .*key_format='%Y-%m'.*output_format='%Y-%m'"):
        periods_of_key("us")
    with pytest.raises(ConfigurationError, match=r"key_format='%Y-%m-%dT%H' .*period='2026-10-05T13Z'"):
        of_grain(Grain.HOUR, key="us")


def test_a_key_of_two_periods_is_refused():
    with pytest.raises(ConfigurationError, match=r"'2026-01\|2026-02' names several periods"):
        periods_of_key("2026-01|2026-02")


def test_an_empty_partition_key_is_none():
    start, end = datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC)
    assert period(start, end, partition_key="") == OCTOBER


@pytest.mark.parametrize("at", [None, datetime(2026, 2, 15, tzinfo=UTC)])
def test_without_a_schedule_the_error_does_not_advise_a_logical_date_or_a_timetable_alone(at):
    with pytest.raises(
        ConfigurationError, match=r"has no schedule, .* period=\"\{\{ ds\[:7\] \}\}\", that of its logical date"
    ):
        period(at, at, is_scheduled=False)


class TestConf:
    START, END = datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC)

    @pytest.mark.parametrize("name", ["period", "periods"])
    @pytest.mark.parametrize("key", [None, "2026-10"])
    def test_a_period_that_nothing_reads_is_refused(self, name, key):
        with pytest.raises(ConfigurationError, match=rf"conf has {name}=\['2026-03'\], but this task takes its period"):
            period(self.START, self.END, partition_key=key, conf={name: ["2026-03"]})

    @pytest.mark.parametrize("conf", [{}, {"period": ""}, {"periods": []}, {"bucket": "b", "monthly": True}])
    def test_what_asks_for_no_periods_is_left_alone(self, conf):
        assert period(self.START, self.END, conf=conf) == OCTOBER


def test_an_empty_interval_of_a_task_for_several_periods_is_refused_with_the_timetable_to_use():
    at = datetime(2026, 11, 1, tzinfo=UTC)
    with pytest.raises(ConfigurationError, match=r"is empty .*CronDataIntervalTimetable\("):
        of_grain(Grain.MONTH, start=at, end=at)


NEW_YORK, SAO_PAULO = ZoneInfo("America/New_York"), ZoneInfo("America/Sao_Paulo")


def of_grain(
    grain: Grain, *, timezone=UTC, key=None, start=None, end=None, date=None, until=None, **of_run
) -> list[str]:
    of_key = {"partition_key": key, "partition_date": date, "partition_end": until}
    run = DagRun(**of_key, start=start, end=end, timezone=timezone, **of_run)
    return [str(each) for each in periods_of_run(run, grain)]


@pytest.mark.parametrize(
    ("grain", "timezone", "start", "end", "found"),
    [
        (Grain.MONTH, UTC, "2025-12-31T00Z", "2026-02-01T01Z", ("2025-12", "2026-02", 3)),
        # The end does not belong to it.
        (Grain.MONTH, UTC, "2026-10-01T00Z", "2026-11-01T00Z", ("2026-10", "2026-10", 1)),
        (Grain.DAY, UTC, "2026-10-31T03Z", "2026-11-01T03Z", ("2026-10-31", "2026-11-01", 2)),
        (Grain.DAY, BERLIN, "2026-10-24T22Z", "2026-10-25T23Z", ("2026-10-25", "2026-10-25", 1)),
        # Its midnight is left out.
        (Grain.DAY, SAO_PAULO, "2018-11-03T03Z", "2018-11-04T03Z", ("2018-11-03", "2018-11-03", 1)),
        # Days of 25 hours, and one of 23.
        (Grain.HOUR, NEW_YORK, "2026-11-01T04Z", "2026-11-02T05Z", ("2026-11-01T04Z", "2026-11-02T04Z", 25)),
        (Grain.HOUR, BERLIN, "2026-10-24T22Z", "2026-10-25T23Z", ("2026-10-24T22Z", "2026-10-25T22Z", 25)),
        (Grain.HOUR, BERLIN, "2026-03-28T23Z", "2026-03-29T22Z", ("2026-03-28T23Z", "2026-03-29T21Z", 23)),
        (Grain.HOUR, UTC, "2026-12-31T23Z", "2027-01-01T01Z", ("2026-12-31T23Z", "2027-01-01T00Z", 2)),
        (Grain.WEEK, UTC, "2027-01-03T03Z", "2027-01-04T03Z", ("2026-W53", "2027-W01", 2)),
        (Grain.QUARTER, UTC, "2026-12-31T03Z", "2027-01-01T03Z", ("2026-Q4", "2027-Q1", 2)),
        (Grain.YEAR, UTC, "2026-12-31T03Z", "2027-01-01T03Z", ("2026", "2027", 2)),
        (Grain.ALL, UTC, "2026-12-31T03Z", "2027-01-01T03Z", ("all", "all", 1)),
    ],
)
def test_an_interval_has_the_tables_periods(grain, timezone, start, end, found):
    start, end = datetime.fromisoformat(start), datetime.fromisoformat(end)
    periods = of_grain(grain, timezone=timezone, start=start, end=end)
    assert (periods[0], periods[-1], len(periods)) == found


@pytest.mark.parametrize("at", [None, datetime(2026, 10, 5, tzinfo=UTC)])
def test_a_whole_table_needs_no_interval(at):
    assert of_grain(Grain.ALL, start=at, end=at) == ["all"]
    assert of_grain(Grain.ALL, key="2026-10-05") == ["all"]


@pytest.mark.parametrize(
    ("key", "grain", "timezone", "expected"),
    [
        ("2026-10-05T00:00:00", Grain.DAY, UTC, ["2026-10-05"]),
        ("2026-10-05", Grain.DAY, BERLIN, ["2026-10-05"]),
        ("2026-10-05T13", Grain.HOUR, UTC, ["2026-10-05T13Z"]),
        ("2026-10-05T13:00:00", Grain.HOUR, BERLIN, ["2026-10-05T11Z"]),
        ("2026-10-05T13:00:00+02:00", Grain.HOUR, NEW_YORK, ["2026-10-05T11Z"]),
        ("2026-10-05T13Z", Grain.HOUR, BERLIN, ["2026-10-05T13Z"]),
        ("2026-10-05T22Z", Grain.DAY, BERLIN, ["2026-10-06"]),
        ("2026-11-01T03Z", Grain.DAY, NEW_YORK, ["2026-10-31"]),
        ("2026-10-05 (W41)", Grain.WEEK, UTC, ["2026-W41"]),
        ("2026-10-05 (W41)", Grain.DAY, UTC, [f"2026-10-{day:02}" for day in range(5, 12)]),
        ("2026-W41", Grain.WEEK, UTC, ["2026-W41"]),
        ("2026-Q4", Grain.QUARTER, UTC, ["2026-Q4"]),
        ("2026", Grain.YEAR, UTC, ["2026"]),
        ("us|2026-10-05", Grain.DAY, UTC, ["2026-10-05"]),
    ],
)
def test_a_key_names_the_tables_periods(key, grain, timezone, expected):
    assert of_grain(grain, key=key, timezone=timezone) == expected


def test_the_key_of_a_day_has_as_many_hours_as_the_day():
    found = of_grain(Grain.HOUR, key="2026-11-01", timezone=NEW_YORK)
    assert (found[0], found[-1], len(found)) == ("2026-11-01T04Z", "2026-11-02T04Z", 25)


@pytest.mark.parametrize(("hour", "expected"), [(5, "2026-11-01T05Z"), (6, "2026-11-01T06Z")])
@pytest.mark.parametrize("key", ["2026-11-01T01:00:00", "2026-11-01T01", "Nov 1, 01h"])
@pytest.mark.parametrize("minute", [0, 30])
def test_of_hours_of_one_name_the_date_of_the_key_tells_which(key, hour, minute, expected):
    date = datetime(2026, 11, 1, hour, minute, tzinfo=UTC)
    run = {"key": key, "date": date, "until": date + timedelta(hours=1), "key_timezone": NEW_YORK}
    # The time zone of the table's periods may be another one.
    assert of_grain(Grain.HOUR, timezone=BERLIN, **run) == [expected]
