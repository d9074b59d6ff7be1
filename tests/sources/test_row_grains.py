"""Tables of databases are loaded by hour, day, week or quarter, or whole, in the time zone of the partition key."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from tests.sources.row_lake import RowLake

_TYPES = {
    "instants": ("timestamptz", "timestamp NULL"),
    "times": ("timestamp", "datetime"),
    "days": ("date", "date"),
}


@dataclass(frozen=True)
class Case:
    """A column of the database, one of ClickHouse with a key, and moments of two periods, from end to end.

    Moments are what the column shows, instants in UTC.
    """

    holds: str
    column: str
    key: str
    periods: tuple[str, str]
    moments: tuple[tuple[str, ...], tuple[str, ...]]
    timezone: str = "UTC"

    def __str__(self) -> str:
        return f"{self.key}-{self.holds}"


CASES = (
    # Two hours of this day are called one o'clock there.
    Case(
        "instants",
        "DateTime('America/New_York')",
        "toStartOfHour(at)",
        ("2026-11-01T05Z", "2026-11-01T06Z"),
        (("2026-11-01 05:00:00", "2026-11-01 05:59:59"), ("2026-11-01 06:00:00", "2026-11-01 06:59:59")),
        "America/New_York",
    ),
    Case(
        "times",
        "DateTime('Asia/Tokyo')",
        "toStartOfHour(at)",
        ("2026-10-05T13Z", "2026-10-05T14Z"),
        (("2026-10-05 22:00:00", "2026-10-05 22:59:59"), ("2026-10-05 23:00:00", "2026-10-05 23:59:59")),
        "Asia/Tokyo",
    ),
    # The second day has 25 hours.
    Case(
        "instants",
        "DateTime('America/New_York')",
        "toDate(at)",
        ("2026-10-31", "2026-11-01"),
        (("2026-10-31 04:00:00", "2026-11-01 03:59:59"), ("2026-11-01 04:00:00", "2026-11-02 04:59:59")),
        "America/New_York",
    ),
    Case(
        "times",
        "DateTime('Europe/Berlin')",
        "toYYYYMMDD(at)",
        ("2026-10-04", "2026-10-05"),
        (("2026-10-04 00:00:00", "2026-10-04 23:59:59"), ("2026-10-05 00:00:00",)),
    ),
    Case(
        "days",
        "Date",
        "toMonday(at)",
        ("2026-W53", "2027-W01"),
        (("2026-12-28", "2027-01-03"), ("2027-01-04",)),
    ),
    Case(
        "times",
        "DateTime('UTC')",
        "toStartOfQuarter(at)",
        ("2026-Q3", "2026-Q4"),
        (("2026-07-01 00:00:00", "2026-09-30 23:59:59"), ("2026-10-01 00:00:00", "2026-12-31 23:59:59")),
    ),
    # MySQL's instants end in the second year.
    Case(
        "instants",
        "DateTime('UTC')",
        "toYear(at)",
        ("2037", "2038"),
        (("2037-12-31 23:59:59",), ("2038-01-01 00:00:00", "2038-01-19 03:14:07")),
    ),
)
WHOLE = Case(
    "instants",
    "Nullable(DateTime('UTC'))",
    "",
    ("all", ""),
    (("1999-12-31 23:59:59", "2026-10-05 12:00:00", "2026-11-01 00:00:00"), ()),
)


@dataclass
class Hits:
    """A table of times in a database, and one that it is loaded into."""

    lake: RowLake
    case: Case
    #: Id → moment and note.
    rows: dict[int, tuple[str | None, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kind = _TYPES[self.case.holds][self.lake.is_mysql]
        self.lake.run(f"CREATE TABLE {self.name} (id bigint, at {kind}, note varchar(9))")
        by = f"PARTITION BY {self.case.key}" if self.case.key else ""
        self.lake.on_every_node(
            f"CREATE TABLE {self.lake.database}.hits (id Int64, at {self.case.column}, note String) "
            f"ENGINE = MergeTree {by} ORDER BY id"
        )

    @property
    def name(self) -> str:
        return f"{self.lake.rows.table}_hits"

    def put(self, *moments: str | None) -> None:
        """Add a row for each moment; None has no time."""
        added = {number: (each, "new") for number, each in enumerate(moments, start=len(self.rows))}
        self.rows |= added
        rows = ", ".join(f"({number}, {self._written(each)}, '{note}')" for number, (each, note) in added.items())
        self.lake.run(f"INSERT INTO {self.name} VALUES {rows}")

    def _written(self, moment: str | None) -> str:
        if moment is None:
            return "NULL"
        if self.case.holds != "instants":
            return f"'{moment}'"
        if self.lake.is_mysql:
            return f"FROM_UNIXTIME({int(datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp())})"
        return f"'{moment}+00'"

    def change(self, *numbers: int) -> None:
        """Change rows."""
        for number in numbers:
            self.rows[number] = self.rows[number][0], "changed"
            self.lake.run(f"UPDATE {self.name} SET note = 'changed' WHERE id = {number}")

    @property
    def where(self) -> dict[str, Any]:
        """The arguments that say what is loaded."""
        objects = self.lake.store(table=self.name, time_column="at", key_column="id", timezone=self.case.timezone)
        return {
            **{"objects": objects, "table": "hits", "database": self.lake.database},
            "cluster": self.lake.cluster.name,
        }

    def plan(self, **options: Any) -> list[str]:
        return PlanLoadsOperator(task_id="plan", **self.where, **options).execute({})

    def load(self, **options: Any) -> list[str]:
        """Load, and return the statuses."""
        found = S3ToClickHouseOperator(task_id="load", **self.where, **options).execute({})
        return [each["status"] for each in (found if isinstance(found, list) else [found])]

    def assert_exact(self, *moments: str | None) -> None:
        """Compare the rows of ClickHouse with those of these moments."""
        at = "formatDateTime(at, '%F %T', 'UTC')" if self.case.holds == "instants" else "toString(at)"
        found = self.lake.on_every_node(f"SELECT id, {at}, note FROM {self.lake.database}.hits")
        expected = [(number, at, note) for number, (at, note) in self.rows.items() if at in moments]
        assert sorted(row for rows in found for row in rows) == expected


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_period_holds_the_rows_of_the_database(row_lake: RowLake, case: Case) -> None:
    hits = Hits(row_lake, case)
    first, second = case.moments
    hits.put(*first, *second, None)
    assert hits.plan(all_periods=True) == list(case.periods)
    assert hits.load(period=case.periods[1]) == ["published"]
    hits.assert_exact(*second)
    assert hits.load(periods=list(case.periods)) == ["published", "unchanged"]
    hits.assert_exact(*first, *second)
    hits.change(0)
    assert hits.plan(all_periods=True) == [case.periods[0]]
    assert hits.load(periods=list(case.periods)) == ["published", "unchanged"]
    hits.assert_exact(*first, *second)
    assert row_lake.left_behind() == []


@pytest.mark.thorough
def test_a_whole_table_holds_all_rows_also_those_without_a_time(row_lake: RowLake) -> None:
    hits = Hits(row_lake, WHOLE)
    hits.put(*WHOLE.moments[0], None)
    assert hits.plan(all_periods=True) == ["all"]
    assert hits.load(period="all") == ["published"]
    hits.assert_exact(*WHOLE.moments[0], None)
    assert hits.load(period="all") == ["unchanged"]
    hits.put(None)
    hits.change(1)
    with pytest.raises(AirflowFailException, match="would load it whole again"):
        hits.load(period="all")
    assert hits.load(period="all", policies={"reload_whole_table": True}) == ["published"]
    hits.assert_exact(*WHOLE.moments[0], None)


@pytest.mark.thorough
def test_a_whole_table_without_room_for_rows_without_a_time_is_refused(row_lake: RowLake) -> None:
    hits = Hits(row_lake, replace(WHOLE, column="DateTime('UTC')"))
    hits.put(*WHOLE.moments[0], None)
    with pytest.raises(AirflowFailException, match=r"NULL.*at|at.*NULL"):
        hits.load(period="all")
    hits.assert_exact()


@pytest.mark.thorough(but=1, first=1)
def test_dates_have_no_hours(row_lake: RowLake) -> None:
    hits = Hits(row_lake, Case("days", "DateTime('UTC')", "toStartOfHour(at)", ("", ""), (("2026-10-05",), ())))
    hits.put("2026-10-05")
    said = "time_column='at' is of type date, which has no hours: name a column of times"
    for load in (lambda: hits.load(period="2026-10-05T00Z"), lambda: hits.plan(all_periods=True)):
        with pytest.raises(AirflowFailException, match=said):
            load()
    hits.assert_exact()


@pytest.mark.thorough(but=1)
def test_times_without_a_zone_do_not_say_which_of_two_hours_they_are_in(row_lake: RowLake) -> None:
    case = Case("times", "DateTime('America/New_York')", "toStartOfHour(at)", ("", ""), ((), ()), "America/New_York")
    hits = Hits(row_lake, case)
    hits.put("2026-11-01 00:30:00", "2026-11-01 01:30:00", "2026-11-01 02:30:00")
    around = ["2026-11-01T04Z", "2026-11-01T07Z"]
    assert hits.load(periods=around) == ["published", "published"]
    for hour in ("2026-11-01T05Z", "2026-11-01T06Z"):
        with pytest.raises(
            AirflowFailException, match=f"{hour} is an hour that clocks in 'America/New_York' show twice"
        ):
            hits.load(period=hour)
    hits.assert_exact("2026-11-01 00:30:00", "2026-11-01 02:30:00")
