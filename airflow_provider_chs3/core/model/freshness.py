"""When periods are due, and whether a table has those that are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Any

from airflow_provider_chs3.core.model.period import Grain, Period, zone_of
from airflow_provider_chs3.core.model.quantities import duration_text
from airflow_provider_chs3.exceptions import ConfigurationError

_TIME = re.compile(r"(?P<hour>[01]\d|2[0-3]):(?P<minute>[0-5]\d)", re.ASCII)
_HOURS = re.compile(r"(?P<hours>[1-9]\d{0,3})h", re.ASCII)


@dataclass(frozen=True, slots=True)
class FreshBy:
    """The time by which a period that has ended is due: a time of the day, or hours after its end."""

    #: The time of the day, as its distance from midnight, or the distance from the period's end.
    after: timedelta
    is_time_of_day: bool
    timezone: str

    @classmethod
    def parse(cls, text: str, timezone: str | None) -> FreshBy:
        """Parse `07:00`, or `6h`."""
        timezone = timezone or "UTC"
        zone_of(timezone)
        if matched := _TIME.fullmatch(text):
            after = timedelta(hours=int(matched["hour"]), minutes=int(matched["minute"]))
            return cls(after, is_time_of_day=True, timezone=timezone)
        if matched := _HOURS.fullmatch(text):
            return cls(timedelta(hours=int(matched["hours"])), is_time_of_day=False, timezone=timezone)
        raise ConfigurationError(
            f"fresh_by={text!r} is not allowed: set a time of the day, '07:00', or hours after the period's end, '6h'."
        )

    @classmethod
    def recorded(cls, text: str) -> FreshBy:
        """Return what `str` has written."""
        return cls.parse(*text.split(" ", 1))

    def __str__(self) -> str:
        seconds = int(self.after.total_seconds())
        text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}" if self.is_time_of_day else f"{seconds // 3600}h"
        return f"{text} {self.timezone}"

    def end_of(self, period: Period) -> datetime:
        """Return when a period ends, in UTC."""
        zone = UTC if period.grain is Grain.HOUR else zone_of(self.timezone)
        return period.end.replace(tzinfo=zone).astimezone(UTC)

    def due_at(self, period: Period) -> datetime:
        """Return when a period is due, in UTC: the next such time of the day after its end, or so many hours later."""
        end = self.end_of(period)
        if not self.is_time_of_day:
            return end + self.after
        zone = zone_of(self.timezone)
        days = (end.astimezone(zone).date() + timedelta(days=days) for days in (0, 1))
        midnight = time()
        return next(
            due
            for day in days
            if (due := (datetime.combine(day, midnight) + self.after).replace(tzinfo=zone).astimezone(UTC)) >= end
        )

    def newest_ended(self, periods: Iterable[Period], at: datetime) -> tuple[Period, datetime] | None:
        """Return the newest period that a look at its objects completes, and since when, in UTC; None without any."""
        completed = {period: complete for period in periods if (complete := self.completed_at(period, at))}
        return (newest := max(completed), self.end_of(completed[newest])) if completed else None

    def local(self, at: datetime) -> str:
        """Return a moment as people there write it."""
        return f"{at.astimezone(zone_of(self.timezone)):%Y-%m-%d %H:%M %Z}"

    def completed_at(self, period: Period, looked_at: datetime) -> Period | None:
        """Return the period that a look at the objects completes; None if the period had not ended.

        A table without periods is complete up to the day before.
        """
        if period.grain is Grain.ALL:
            at = looked_at.astimezone(zone_of(self.timezone)).replace(tzinfo=None)
            return Period.of(at, Grain.DAY).shifted(-1)
        return period if looked_at >= self.end_of(period) else None


@dataclass(frozen=True, slots=True)
class Freshness:
    """The freshness of a table: whether it has all periods that are due."""

    fresh_by: FreshBy
    #: The newest period that is as published and was compared with its objects after its end; None if there is none.
    complete: Period | None
    #: The one after it, or the table's first; None if nothing is known of the table.
    next_period: Period | None
    due_at: datetime | None
    at: datetime

    @classmethod
    def of(cls, fresh_by: FreshBy, looks: Mapping[Period, datetime], at: datetime) -> Freshness:
        """Judge a table by when each period that is as published was last compared with its objects, in UTC."""
        completed = (fresh_by.completed_at(period, looked_at) for period, looked_at in looks.items())
        complete = max(filter(None, completed), default=None)
        following = complete.shifted(1) if complete else min(looks, default=None)
        return cls(fresh_by, complete, following, fresh_by.due_at(following) if following else None, at)

    @property
    def is_fresh(self) -> bool:
        """Check whether nothing that is due is missing."""
        return self.due_at is not None and self.at < self.due_at

    @property
    def missing(self) -> int:
        """The periods after the newest complete one that have ended."""
        period, count = self.next_period, 0
        while period and self.fresh_by.end_of(period) <= self.at:
            period, count = period.shifted(1), count + 1
        return count

    def __str__(self) -> str:
        if self.due_at is None:
            return "never loaded"
        due = self.fresh_by.local(self.due_at)
        if self.is_fresh:
            return f"fresh until {due}"
        return f"{self.next_period} was due {due}, {duration_text((self.at - self.due_at).total_seconds())} ago"

    def as_json(self) -> dict[str, Any]:
        """Return JSON-safe values."""
        return {
            "fresh_by": str(self.fresh_by),
            "is_fresh": self.is_fresh,
            "complete": str(self.complete) if self.complete else None,
            "next_period": str(self.next_period) if self.next_period else None,
            "due_at": self.due_at.isoformat(timespec="seconds") if self.due_at else None,
            "missing": self.missing,
        }
