"""A snapshot of an Iceberg table, or a version of a Delta table: its data files, and the periods that they hold."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from airflow_provider_chs3.core.model.models import Manifest, Unit
from airflow_provider_chs3.core.model.period import FIRST_YEAR, LAST_YEAR, WHOLE_TABLE, Grain, Period, zone_of
from airflow_provider_chs3.exceptions import SourceError

#: The least and the greatest moment of a file that does not say which it has.
ANY_MOMENT = (datetime.min, datetime.max)
_FIRST, _LAST = datetime(FIRST_YEAR, 1, 1), datetime(LAST_YEAR, 12, 31, 23)
#: In every time zone in no period.
_BEFORE, _AFTER = datetime(FIRST_YEAR - 1, 1, 1, tzinfo=UTC), datetime(LAST_YEAR + 1, 12, 31, tzinfo=UTC)
#: The first Monday of the first year: a week may begin in the year before.
_FIRST_MONDAY = datetime(FIRST_YEAR, 1, 4)


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file, as the table's metadata describes it."""

    path: str
    size_bytes: int
    rows: int
    written_at: datetime
    moments: tuple[datetime, datetime] | None
    problem: str = ""
    deletes: str = ""
    deleted: tuple[int, ...] = field(default=(), repr=False)

    def periods(self, grain: Grain, timezone: str) -> tuple[Period, Period] | None:
        """Return the first and the last period that it may have rows of; None if it has rows of none."""
        if grain is Grain.ALL:
            return WHOLE_TABLE, WHOLE_TABLE
        if self.moments is None:
            return None
        zone = UTC if grain is Grain.HOUR else zone_of(timezone)
        ends = (min(max(at.replace(tzinfo=UTC), _BEFORE), _AFTER).astimezone(zone) for at in self.moments)
        least, greatest = (at.replace(tzinfo=None) for at in ends)
        first = _FIRST_MONDAY if grain is Grain.WEEK else _FIRST
        if greatest < first or least.year > LAST_YEAR:
            return None
        return Period.of(max(least, first), grain), Period.of(min(greatest, _LAST), grain)

    def has_rows_of(self, periods: Collection[Period], timezone: str) -> bool:
        """Return whether it may have rows of one of these periods."""
        return any(_periods_between(self, periods, timezone))

    @property
    def version(self) -> str:
        """A text that changes whenever the table shows other rows of the file."""
        deletes = f", without those of {self.deletes}" if self.deletes else ""
        return f"{self.rows} rows{deletes}{f': {self.problem}' if self.problem else ''}"


@dataclass(frozen=True)
class TableSnapshot:
    """A snapshot."""

    id: str
    table: str
    time_column: str
    timezone: str
    columns: frozenset[str]
    files: tuple[DataFile, ...]

    def manifests(
        self, periods: Collection[Period] | Grain, *, is_to_load: bool, shares_files: bool = False
    ) -> dict[Period, Manifest]:
        """Return the data files of periods as objects."""
        wanted = set(self._periods(periods, shares_files) if isinstance(periods, Grain) else periods)
        units: dict[Period, list[Unit]] = {period: [] for period in wanted}
        for file in self.files:
            for period in _periods_between(file, wanted, self.timezone):
                if is_to_load and file.problem:
                    raise SourceError(file.problem)
                if is_to_load and not shares_files:
                    self._check(file, period.grain)
                units[period].append(Unit(file.path, file.size_bytes, file.version, file.written_at))
        return {period: Manifest.of(of_period) for period, of_period in units.items()}

    def _check(self, file: DataFile, grain: Grain) -> None:
        first, last = file.periods(grain, self.timezone) or (WHOLE_TABLE, WHOLE_TABLE)
        if first == last:
            return
        holds = f"holds rows of {first} to {last}"
        if file.moments == ANY_MOMENT:
            holds = f"does not show which {grain} its rows belong to: it has no statistics of {self.time_column!r}"
        raise SourceError(
            f"{file.path} of {self.table} {holds}, and files are loaded whole. Partition that table by {grain} of "
            f"{self.time_column!r}, or shorter, and rewrite its files; or let each period take its rows of all files "
            "that it shares, with policies={'on_other_periods': 'leave_out'}."
        )

    def _periods(self, grain: Grain, shares_files: bool) -> Iterator[Period]:
        for file in self.files:
            if file.moments == ANY_MOMENT and grain is not Grain.ALL:
                continue
            if ends := file.periods(grain, self.timezone):
                yield from ends[0].through(ends[1]) if shares_files else {*ends}


def _periods_between(file: DataFile, wanted: Collection[Period], timezone: str) -> Iterator[Period]:
    if not wanted or (periods := file.periods(next(iter(wanted)).grain, timezone)) is None:
        return
    first, last = periods
    if first == last:
        if first in wanted:
            yield first
        return
    yield from (period for period in wanted if first <= period <= last)
