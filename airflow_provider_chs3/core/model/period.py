"""Periods: the spans of time, or whole tables, that loads make exact."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from airflow_provider_chs3.core.model.quantities import quantity
from airflow_provider_chs3.exceptions import ConfigurationError

#: So that ClickHouse's `DateTime` holds the periods before and after too.
FIRST_YEAR, LAST_YEAR = 1971, 2104

_FORMS = (
    "an hour (2026-10-05T13Z, in UTC), a day (2026-10-05), a week (2026-W41), a month (2026-10), a quarter (2026-Q4), "
    "a year (2026), or 'all' for a table without partitions"
)
_PATTERN = re.compile(
    r"(?P<year>\d{4})(?:-(?:Q(?P<quarter>[1-4])|W(?P<week>\d{2})"
    r"|(?P<month>\d{2})(?:-(?P<day>\d{2})(?:T(?P<hour>\d{2})Z)?)?))?",
    re.ASCII,
)


class Grain(StrEnum):
    """The length of periods, by its noun; that of `ALL` is the whole table."""

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"
    ALL = "table"


_LENGTHS = {Grain.HOUR: timedelta(hours=1), Grain.DAY: timedelta(days=1), Grain.WEEK: timedelta(days=7)}
_MONTHS = {Grain.MONTH: 1, Grain.QUARTER: 3, Grain.YEAR: 12}
_TEXTS: dict[Grain, Callable[[datetime], str]] = {
    # Years of less than four digits, which errors show, have zeros only so.
    Grain.HOUR: lambda at: f"{at.isoformat()[:13]}Z",
    Grain.DAY: lambda at: at.isoformat()[:10],
    Grain.WEEK: lambda at: f"{at:%G-W%V}".rjust(8, "0"),
    Grain.MONTH: lambda at: at.isoformat()[:7],
    Grain.QUARTER: lambda at: f"{at.isoformat()[:4]}-Q{(at.month + 2) // 3}",
    Grain.YEAR: lambda at: at.isoformat()[:4],
    Grain.ALL: lambda at: "all",
}


@dataclass(frozen=True, slots=True, order=True)
class Period:
    """A span of time, or the whole of a table.

    The instants that days and longer periods cover depend on a time zone given elsewhere; hours are in UTC.
    """

    begin: datetime
    grain: Grain

    def __post_init__(self) -> None:
        if not FIRST_YEAR <= self.begin.year <= LAST_YEAR:
            raise ConfigurationError(f"{self} is not within the years {FIRST_YEAR} to {LAST_YEAR}.")

    @classmethod
    def parse(cls, text: str) -> Period:
        """Parse a period, such as `2026-10`."""
        period = _parsed(text) if isinstance(text, str) else None
        if period is None:
            raise ConfigurationError(f"{text!r} is not a period: write {_FORMS}.")
        return period

    @classmethod
    def of(cls, at: datetime, grain: Grain) -> Period:
        """Return the period that a moment is in."""
        if grain is Grain.ALL:
            return WHOLE_TABLE
        if grain is Grain.HOUR:
            return cls(at.replace(minute=0, second=0, microsecond=0), grain)
        day = at.replace(hour=0, minute=0, second=0, microsecond=0)
        if grain is Grain.WEEK:
            day -= timedelta(days=day.weekday())
        if grain in _MONTHS:
            months = _MONTHS[grain]
            day = day.replace(month=(day.month - 1) // months * months + 1, day=1)
        return cls(day, grain)

    @classmethod
    def of_month(cls, year: int, number: int) -> Period:
        """Return a calendar month."""
        return cls(datetime(year, number, 1), Grain.MONTH)

    def __str__(self) -> str:
        return _TEXTS[self.grain](self.begin)

    def shifted(self, count: int) -> Period:
        """Return the period this many periods later, or earlier if negative; the whole table is itself."""
        return Period(self._begin_of(count), self.grain)

    def through(self, last: Period) -> Iterator[Period]:
        """Yield the periods from this one, which is always among them, to a later one."""
        period = self
        yield period
        while period < last:
            period = period.shifted(1)
            yield period

    def parts(self, grain: Grain) -> tuple[Period, ...]:
        """Return the periods of a length that have a moment in common with it; none for parts of a whole table."""
        if Grain.ALL in (grain, self.grain):
            return (WHOLE_TABLE,) if grain is Grain.ALL else ()
        return tuple(Period.of(self.begin, grain).through(Period.of(self.last, grain)))

    @property
    def end(self) -> datetime:
        """The first moment after it, without a time zone."""
        return datetime(LAST_YEAR + 1, 1, 1) if self.grain is Grain.ALL else self._begin_of(1)

    @property
    def last(self) -> datetime:
        """Its last moment, without a time zone, to the microsecond."""
        return self.end - timedelta(microseconds=1)

    def _begin_of(self, count: int) -> datetime:
        if self.grain in _LENGTHS:
            return self.begin + _LENGTHS[self.grain] * count
        months = self.begin.year * 12 + self.begin.month - 1 + _MONTHS.get(self.grain, 0) * count
        return datetime(months // 12, months % 12 + 1, 1)


#: A table without partitions.
WHOLE_TABLE = Period(datetime(FIRST_YEAR, 1, 1), Grain.ALL)


def example_of(grain: Grain) -> str:
    """Return how a period of a length is written, for messages."""
    return str(Period.of(datetime(2026, 10, 5, 13), grain))


def grain_of(periods: Iterable[Period]) -> Grain:
    """Return the one length that periods have; several are an error."""
    grains = sorted({period.grain for period in periods})
    if len(grains) > 1:
        raise ConfigurationError(f"Periods of one load have one length, and these are by {' and by '.join(grains)}.")
    return grains[0]


def range_text(periods: Sequence[Period]) -> str:
    """Return periods as a text: the first and the last of them, and how many there are."""
    first, last = periods[0], periods[-1]
    return str(first) if len(periods) == 1 else f"{first} … {last} ({quantity(len(periods), first.grain)})"


def zone_of(timezone: str) -> ZoneInfo:
    """Return a time zone."""
    try:
        return ZoneInfo(timezone)
    # A folder of zones, such as 'Europe', is an error of the operating system.
    except (ZoneInfoNotFoundError, TypeError, ValueError, OSError):
        raise ConfigurationError(f"timezone={timezone!r} is not known: use a name such as 'Europe/Berlin'.") from None


# There are few periods, and each is in the records of many tables.
@lru_cache(maxsize=8_192)
def _parsed(text: str) -> Period | None:
    if text == "all":
        return WHOLE_TABLE
    matched = _PATTERN.fullmatch(text)
    if not matched:
        return None
    number = {name: int(digits) for name, digits in matched.groupdict().items() if digits}
    grain = next(grain for grain in (*Grain,) if grain in number)
    try:
        if grain is Grain.WEEK:
            begin = datetime.fromisocalendar(number["year"], number["week"], 1)
        else:
            first = number.get("quarter", 1) * 3 - 2
            begin = datetime(number["year"], number.get("month", first), number.get("day", 1), number.get("hour", 0))
    except ValueError:
        return None
    return Period(begin, grain)


def parse_periods(given: Sequence[Period | str] | str | None) -> tuple[Period, ...]:
    """Parse a list of periods and sort it."""
    if given is None:
        raise ConfigurationError("periods=None: its template rendered to nothing. Set a value for it in the run.")
    texts = given.split(",") if isinstance(given, str) else given
    periods = {text if isinstance(text, Period) else Period.parse(str(text).strip()) for text in texts}
    if periods:
        grain_of(periods)
    return tuple(sorted(periods))
