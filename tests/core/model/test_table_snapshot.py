"""Which periods the data files of a lakehouse may have rows of."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from airflow_provider_chs3.core.model.period import WHOLE_TABLE, Grain, Period
from airflow_provider_chs3.core.model.table_snapshot import ANY_MOMENT, DataFile, TableSnapshot
from airflow_provider_chs3.exceptions import ConfigurationError, SourceError


def file(*moments: str, path: str = "lake/a.parquet") -> DataFile:
    """A file with rows between two moments; without any, one whose rows have no time."""
    ends = [datetime.fromisoformat(moment) for moment in moments]
    return DataFile(path, 10, 1, datetime(2026, 1, 1, tzinfo=UTC), (ends[0], ends[-1]) if ends else None)


def snapshot(*files: DataFile, timezone: str = "UTC") -> TableSnapshot:
    return TableSnapshot("1", "lake.trips", "at", timezone, frozenset({"at"}), files)


@pytest.mark.parametrize(
    ("moments", "grain", "periods"),
    [
        (("2026-10-05T13:00", "2026-10-05T13:59"), Grain.HOUR, "2026-10-05T13Z"),
        (("2026-10-05T13:00", "2026-10-05T14:00"), Grain.HOUR, "2026-10-05T13Z 2026-10-05T14Z"),
        (("2026-10-05T13:00", "2026-10-05T23:59"), Grain.DAY, "2026-10-05"),
        (("2026-12-28", "2027-01-03T23:59"), Grain.WEEK, "2026-W53"),
        (("2026-12-28", "2027-01-03"), Grain.YEAR, "2026 2027"),
        (("1900-01-01", "1970-12-31"), Grain.MONTH, ""),
        (("1900-01-01", "1971-01-03"), Grain.WEEK, ""),
        (("1900-01-01", "1971-01-03"), Grain.DAY, "1971-01-01 1971-01-03"),
        (("2104-12-31", "9999-12-31"), Grain.QUARTER, "2104-Q4"),
        (("2105-01-01", "9999-12-31"), Grain.QUARTER, ""),
        ((), Grain.DAY, ""),
        ((), Grain.ALL, "all"),
        (("1900-01-01", "9999-12-31"), Grain.ALL, "all"),
    ],
)
def test_a_file_has_rows_of_the_periods_between_its_moments(
    moments: tuple[str, ...], grain: Grain, periods: str
) -> None:
    found = file(*moments).periods(grain, "UTC") or ()
    assert list(dict.fromkeys(map(str, found))) == periods.split()
    of_all = snapshot(file(*moments)).manifests(grain, is_to_load=False)
    assert sorted(map(str, of_all)) == periods.split()


def test_a_file_of_several_periods_is_of_each_of_them() -> None:
    days = [Period.parse(f"2026-10-{day:02}") for day in range(4, 8)]
    wide = file("2026-10-05", "2026-10-06T12:00")
    assert [wide.has_rows_of([day], "UTC") for day in days] == [False, True, True, False]
    found = snapshot(wide).manifests(days, is_to_load=False)
    assert [len(found[day].objects) for day in days] == [0, 1, 1, 0]
    with pytest.raises(SourceError, match="holds rows of 2026-10-05 to 2026-10-06, and files are loaded whole"):
        snapshot(wide).manifests(days[1:2], is_to_load=True)
    snapshot(wide).manifests(days[:1], is_to_load=True)


def test_a_file_without_statistics_may_be_of_any_period_and_names_none() -> None:
    unknown = DataFile("lake/a.parquet", 10, 1, datetime(2026, 1, 1, tzinfo=UTC), ANY_MOMENT)
    assert snapshot(unknown).manifests(Grain.DAY, is_to_load=False) == {}
    assert len(snapshot(unknown).manifests(Grain.ALL, is_to_load=True)[WHOLE_TABLE].objects) == 1
    with pytest.raises(SourceError, match="does not show which day its rows belong to: it has no statistics of 'at'"):
        snapshot(unknown).manifests([Period.parse("2026-10-05")], is_to_load=True)


def test_days_begin_in_their_zone_and_hours_do_not() -> None:
    utc_day = file("2026-10-05T00:00", "2026-10-05T23:59")
    assert [str(period) for period in utc_day.periods(Grain.DAY, "Asia/Kolkata") or ()] == ["2026-10-05", "2026-10-06"]
    assert [str(period) for period in utc_day.periods(Grain.HOUR, "Asia/Kolkata") or ()] == [
        "2026-10-05T00Z",
        "2026-10-05T23Z",
    ]
    with pytest.raises(ConfigurationError, match="timezone='Mars' is not known"):
        utc_day.periods(Grain.DAY, "Mars")


def test_a_file_may_be_shared_where_each_period_takes_its_own_rows() -> None:
    wide = snapshot(file("2026-10-05", "2026-10-07T12:00"))
    days = [Period.parse(f"2026-10-{day:02}") for day in (5, 6, 7)]
    assert sorted(wide.manifests(Grain.DAY, is_to_load=False, shares_files=True)) == days
    found = wide.manifests(days, is_to_load=True, shares_files=True)
    assert [len(found[day].objects) for day in days] == [1, 1, 1]
    broken = snapshot(replace(wide.files[0], problem="is not Parquet"))
    with pytest.raises(SourceError, match="is not Parquet"):
        broken.manifests(days, is_to_load=True, shares_files=True)
