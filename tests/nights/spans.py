"""The periods that nights are played on: the partition key of the table, and three of its periods.

Where files come by arrival, loads are given the days of arrival, and rows are of any of the three periods.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from airflow_provider_chs3.core.model.period import Period

#: How many keys there are.
KEYS = 80
#: In CSV, ClickHouse reads shorter numbers of seconds as no time.
_FIRST_SECOND = 10**9
_ARRIVALS = ("2026-11-01", "2026-11-02", "2026-11-03")


@dataclass(frozen=True)
class Span:
    """A length of periods."""

    name: str
    partition_by: str
    folder: str
    periods: tuple[str, ...]
    other: str = ""
    zone: str = "UTC"
    arrivals: tuple[str, ...] = ()

    @property
    def to_load(self) -> tuple[str, ...]:
        """The periods that loads are given, and by which files lie in folders."""
        return self.arrivals or self.periods

    @property
    def column(self) -> str:
        """The type of the column that has the time."""
        return f"DateTime('{self.zone}')"

    def moment(self, period: str, key: int) -> datetime:
        """Return the moment of a key's rows: of the first key a period's first second, of the last its last."""
        found, zone = Period.parse(period), UTC if period.endswith("Z") else ZoneInfo(self.zone)
        first, end = (at.replace(tzinfo=zone).timestamp() for at in (found.begin, found.end))
        first = max(first, _FIRST_SECOND)
        return datetime.fromtimestamp(first + (end - 1 - first) * key // (KEYS - 1), UTC)


SPANS = (
    Span("month", "toYYYYMM(ts)", "{YYYY-MM}", ("2026-08", "2026-09", "2026-10"), "2026-11"),
    Span(
        "day",
        "toDate(ts)",
        "{YYYY-MM-DD}",
        ("2026-10-31", "2026-11-01", "2026-11-02"),
        "2026-11-03",
        # The second of these days has 25 hours.
        "America/New_York",
    ),
    Span(
        "hour",
        "toStartOfHour(ts)",
        "{YYYY-MM-DD}T{HH}Z",
        # The first two are both called one o'clock.
        ("2026-11-01T05Z", "2026-11-01T06Z", "2026-11-01T07Z"),
        "2026-11-01T08Z",
        "America/New_York",
    ),
    Span("week", "toMonday(ts)", "{GGGG}-W{WW}", ("2026-W52", "2026-W53", "2027-W01"), "2027-W02", "Europe/Berlin"),
    Span("whole table", "", "all", ("all",)),
    Span(
        "set of partitions",
        "(k % 3, toYYYYMM(ts))",
        "{YYYY-MM}",
        ("2026-08", "2026-09", "2026-10"),
        "2026-11",
    ),
    Span(
        "months by arrival",
        "toYYYYMM(ts)",
        "{YYYY-MM-DD}",
        ("2026-08", "2026-09", "2026-10"),
        "2026-11",
        arrivals=_ARRIVALS,
    ),
    Span(
        "days by arrival",
        "toDate(ts)",
        "{YYYY-MM-DD}",
        ("2026-10-31", "2026-11-01", "2026-11-02"),
        "2026-11-03",
        "America/New_York",
        arrivals=_ARRIVALS,
    ),
    Span(
        "sets of partitions by arrival",
        "(k % 3, toYYYYMM(ts))",
        "{YYYY-MM-DD}",
        ("2026-08", "2026-09", "2026-10"),
        "2026-11",
        arrivals=_ARRIVALS,
    ),
)
