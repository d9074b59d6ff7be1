"""Tables that are partitioned by hour, day, week, month, quarter or year, or not at all, and their objects."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from tests.support.lake import Lake


@dataclass(frozen=True)
class Case:
    """A partition key, the template of the keys of its objects, and two periods beside one another."""

    partition_key: str
    template: str
    first: str
    second: str = ""
    column: str = "DateTime('UTC')"

    def __str__(self) -> str:
        return self.partition_key or "none"


CASES = (
    Case("toStartOfHour(at)", "{YYYY-MM-DD}/{HH}", "2026-10-25T00Z", "2026-10-25T01Z"),
    # Two hours of this day are called one o'clock there.
    Case("toStartOfHour(at)", "{YYYY-MM-DD}/{HH}", "2026-11-01T05Z", "2026-11-01T06Z", "DateTime('America/New_York')"),
    Case("toDate(at)", "{YYYY-MM-DD}", "2026-10-31", "2026-11-01"),
    Case("toDate(at)", "{YYYY}/{MM}/{DD}/{HH}", "2026-10-31", "2026-11-01"),
    Case("toYYYYMMDD(at)", "{YYYY-MM-DD}", "2026-10-31", "2026-11-01", "DateTime64(3, 'Asia/Kolkata')"),
    Case("at", "{YYYY-MM-DD}", "2026-10-31", "2026-11-01", "Date"),
    Case("toMonday(at)", "{GGGG}-W{WW}", "2026-W53", "2027-W01"),
    Case("toStartOfWeek(at, 1)", "{YYYY-MM-DD}", "2026-W44", "2026-W45"),
    Case("toYYYYMM(at)", "{YYYY-MM-DD}", "2026-10", "2026-11"),
    Case("toStartOfQuarter(at)", "{YYYY}-Q{Q}", "2026-Q4", "2027-Q1"),
    Case("toStartOfQuarter(at)", "{YYYY-MM}", "2026-Q4", "2027-Q1"),
    Case("toYear(at)", "{YYYY-MM}", "2026", "2027"),
    Case("formatDateTime(at, '%Y-%m-%d')", "{YYYY-MM-DD}", "2026-10-31", "2026-11-01"),
    Case("", "{YYYY-MM}", "all"),
)


@dataclass
class Source:
    """Objects whose rows the table must hold."""

    lake: Lake
    case: Case
    engine: str = "MergeTree"
    columns: str = ""

    def __post_init__(self) -> None:
        self.rows: dict[str, list[tuple[datetime, int]]] = {}
        by = f"PARTITION BY {self.case.partition_key}" if self.case.partition_key else ""
        columns = ", ".join(filter(None, [f"at {self.case.column}, number UInt64", self.columns]))
        self.lake.on_every_node(
            f"CREATE TABLE {self.lake.database}.{self.lake.table} ({columns}) "
            f"ENGINE = {self.engine} {by} ORDER BY number"
        )

    def moments(self, period: str) -> list[datetime]:
        """Moments from one end of a period to the other; noon, so that every zone agrees on the day."""
        found = Period.parse(period)
        if period == "all":
            return [datetime(2026, month, 5, 12) for month in (1, 7, 12)]
        step = timedelta(minutes=7) if period.endswith("Z") else timedelta(days=1)
        first = found.begin if period.endswith("Z") else found.begin + timedelta(hours=12)
        return [at for number in range(400) if (at := first + number * step) < found.end]

    def put(self, period: str, name: str, numbers: int, *, moments: list[datetime] | None = None) -> None:
        """Write objects of a period, one for each place that the template gives its moments."""
        by_key: dict[str, list[tuple[datetime, int]]] = {}
        for number, at in enumerate(moments or self.moments(period)):
            by_key.setdefault(self.key(at, name), []).append((at, numbers + number))
        for key, rows in by_key.items():
            self.lake.put(key, "".join(f"{self.text(at)},{number}\n" for at, number in rows).encode())
            self.rows[key] = rows

    def put_stray(self, period: str, other: str) -> None:
        """Write an object of a period with a row of another."""
        row = f"{self.text(self.moments(other)[0])},1\n"
        self.lake.put(self.key(self.moments(period)[0], "stray"), row.encode())

    def key(self, at: datetime, name: str) -> str:
        year, week, _ = at.isocalendar()
        names = {"YYYY-MM-DD": f"{at:%Y-%m-%d}", "YYYY-MM": f"{at:%Y-%m}", "YYYY": at.year, "MM": f"{at:%m}"}
        names |= {"DD": f"{at:%d}", "HH": f"{at:%H}", "GGGG": year, "WW": f"{week:02}", "Q": (at.month + 2) // 3}
        return f"lake/{self.case.template}/{name}.csv".format(**names)

    def text(self, at: datetime) -> str:
        return f"{at:%Y-%m-%d}" if self.case.column == "Date" else str(int(at.replace(tzinfo=UTC).timestamp()))

    def load(self, **options: Any) -> list[str]:
        """Load, and return the statuses."""
        found = self.operator(**options).execute({})
        return [each["status"] for each in (found if isinstance(found, list) else [found])]

    def operator(self, **options: Any) -> S3ToClickHouseOperator:
        """Return the operator of a load."""
        arguments = {"key": self.pattern, "file_format": "CSV", "columns": ["at", "number"], "period": None}
        return self.lake.operator(**(arguments | options))

    @property
    def pattern(self) -> str:
        """The template of the objects' keys."""
        return f"lake/{self.case.template}/*.csv"

    def assert_exact(self, *periods: str) -> None:
        """Compare the rows of the table with those of the objects of these periods."""
        wanted = {moment for period in periods for moment in self.moments(period)}
        assert self.found() == self.expected(wanted)

    def expected(self, moments: Container[datetime] | None = None) -> list[tuple[date | int, int]]:
        """Return the rows of the objects, or those of some moments."""
        return sorted(
            (int(at.replace(tzinfo=UTC).timestamp()) if self.case.column != "Date" else at.date(), number)
            for row in self.rows.values()
            for at, number in row
            if moments is None or at in moments
        )

    def found(self) -> list[tuple[date | int, int]]:
        """Return the rows of the table, on all nodes."""
        at = "at" if self.case.column == "Date" else "toUnixTimestamp(at)"
        table = f"cluster('{self.lake.cluster.name}', {self.lake.database}, {self.lake.table})"
        return sorted(self.lake.on_node(0, f"SELECT {at}, number FROM {table}"))


@pytest.fixture(params=CASES, ids=str)
def source(lake: Lake, request: pytest.FixtureRequest) -> Source:
    return Source(lake, request.param)
