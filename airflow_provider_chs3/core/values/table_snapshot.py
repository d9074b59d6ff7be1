"""A snapshot of an Iceberg table, or a version of a Delta table: its data files, and the periods that they hold."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from airflow_provider_chs3.core.values.models import Manifest, Unit
from airflow_provider_chs3.core.values.period import FIRST_YEAR, LAST_YEAR, WHOLE_TABLE, Grain, Period
from airflow_provider_chs3.exceptions import SourceError

#: The least and the greatest moment of a file that does not say which it has.
ANY_MOMENT = (datetime.min, datetime.max)
_FIRST, _LAST = datetime(FIRST_YEAR, 1, 1), datetime(LAST_YEAR, 12, 31, 23)
#: Of the first year, as a week may begin in the year before.
_FIRST_MONDAY = datetime(FIRST_YEAR, 1, 4)


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file, as the table's metadata describes it.

    Args:
        path: `<bucket>/<key>`, ClickHouse's `_path`.
        size_bytes: Its size in bytes.
        rows: Number of its rows.
        written_at: Time at which it was committed, in UTC.
        moments: A moment in UTC that no row is before, and one that no row is behind; None if no row has a time.
        problem: Why its rows differ from what the table shows of it, and the remedy; empty if they do not.
        deletes: A text that changes with the delete files that may remove rows of it; empty if none may.
        deleted: The positions of the rows that these remove, from 0, in order; known only for files to load.
    """

    path: str
    size_bytes: int
    rows: int
    written_at: datetime
    moments: tuple[datetime, datetime] | None
    problem: str = ""
    deletes: str = ""
    deleted: tuple[int, ...] = field(default=(), repr=False)

    def periods(self, grain: Grain) -> tuple[Period, Period] | None:
        """Return the first and the last period that it may have rows of; None if it has rows of none.

        Args:
            grain: The length of the periods.
        """
        if grain is Grain.ALL:
            return WHOLE_TABLE, WHOLE_TABLE
        first = _FIRST_MONDAY if grain is Grain.WEEK else _FIRST
        if self.moments is None or self.moments[1] < first or self.moments[0].year > LAST_YEAR:
            return None
        return Period.of(max(self.moments[0], first), grain), Period.of(min(self.moments[1], _LAST), grain)

    def has_rows_of(self, periods: Collection[Period]) -> bool:
        """Return whether it may have rows of one of these periods.

        Args:
            periods: The periods, all of one grain.
        """
        return any(_periods_between(self, periods))

    @property
    def version(self) -> str:
        """A text that changes whenever the table shows other rows of the file."""
        deletes = f", without those of {self.deletes}" if self.deletes else ""
        return f"{self.rows} rows{deletes}{f': {self.problem}' if self.problem else ''}"


@dataclass(frozen=True)
class TableSnapshot:
    """A snapshot.

    Args:
        id: Its id, or Delta's version.
        table: The table's name, for people.
        time_column: The column of dates or times that decides the period of a row.
        columns: Names of the table's columns.
        files: Its data files.
    """

    id: str
    table: str
    time_column: str
    columns: frozenset[str]
    files: tuple[DataFile, ...]

    def manifests(self, periods: Collection[Period] | Grain, *, is_to_load: bool) -> dict[Period, Manifest]:
        """Return the data files of periods as objects.

        Args:
            periods: The periods, all of one grain; a grain for all of that length that have files.
            is_to_load: Whether their rows are wanted. Otherwise, a file with a problem is one that has changed.

        Raises:
            SourceError: If a file of a period to load has a problem, or may hold rows of others.
        """
        wanted = set(self._periods(periods) if isinstance(periods, Grain) else periods)
        found: dict[Period, list[Unit]] = {period: [] for period in wanted}
        for each in self.files:
            for period in _periods_between(each, wanted):
                if is_to_load:
                    self._check(each, period.grain)
                found[period].append(Unit(each.path, each.size_bytes, each.version, each.written_at))
        return {period: Manifest.of(some) for period, some in found.items()}

    def _check(self, file: DataFile, grain: Grain) -> None:
        if file.problem:
            raise SourceError(file.problem)
        first, last = file.periods(grain) or (WHOLE_TABLE, WHOLE_TABLE)
        if first == last:
            return
        holds = f"holds rows of {first} to {last}"
        if file.moments == ANY_MOMENT:
            holds = f"does not show which {grain} its rows belong to: it has no statistics of {self.time_column!r}"
        raise SourceError(
            f"{file.path} of {self.table} {holds}, and files are loaded whole. Partition that table by {grain} of "
            f"{self.time_column!r}, or shorter, and rewrite its files; or partition the table in ClickHouse by longer "
            "periods, or not at all."
        )

    def _periods(self, grain: Grain) -> Iterator[Period]:
        for each in self.files:
            if each.moments != ANY_MOMENT or grain is Grain.ALL:
                yield from each.periods(grain) or ()


def _periods_between(file: DataFile, wanted: Collection[Period]) -> Iterator[Period]:
    if not wanted or (periods := file.periods(next(iter(wanted)).grain)) is None:
        return
    first, last = periods
    if first == last:
        if first in wanted:
            yield first
        return
    yield from (period for period in wanted if first <= period <= last)
