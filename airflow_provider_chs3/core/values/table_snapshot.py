"""A snapshot of an Iceberg table, or a version of a Delta table: its data files, and the periods that they hold."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from airflow_provider_chs3.core.values.models import Manifest, Unit
from airflow_provider_chs3.core.values.period import FIRST_YEAR, LAST_YEAR, Period
from airflow_provider_chs3.exceptions import SourceError

#: The first and the last period that there is: a file of all of them is one that does not say which it holds.
ALL_PERIODS = (Period.of_month(FIRST_YEAR, 1), Period.of_month(LAST_YEAR, 12))


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file, as the table's metadata describes it.

    Args:
        path: `<bucket>/<key>`, ClickHouse's `_path`.
        size_bytes: Its size in bytes.
        rows: Number of its rows.
        written_at: Time at which it was committed, in UTC.
        periods: The first and the last period of its rows; None if no row has a period.
        problem: Why its rows differ from what the table shows of it, and the remedy; empty if they do not.
        deletes: A text that changes with the delete files that may remove rows of it; empty if none may.
        deleted: The positions of the rows that these remove, from 0, in order; known only for files to load.
    """

    path: str
    size_bytes: int
    rows: int
    written_at: datetime
    periods: tuple[Period, Period] | None
    problem: str = ""
    deletes: str = ""
    deleted: tuple[int, ...] = field(default=(), repr=False)

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
        columns: Names of the table's columns.
        files: Its data files.
    """

    id: str
    columns: frozenset[str]
    files: tuple[DataFile, ...]

    def manifests(self, periods: Collection[Period] | None, *, is_to_load: bool) -> dict[Period, Manifest]:
        """Return the data files of periods as objects.

        Args:
            periods: The periods; None for all that have files.
            is_to_load: Whether their rows are wanted. Otherwise, a file with a problem is one that has changed.

        Raises:
            SourceError: If a file of a period to load has a problem.
        """
        wanted = set(self._periods() if periods is None else periods)
        found: dict[Period, list[Unit]] = {period: [] for period in wanted}
        for each in self.files:
            for period in _periods_between(each.periods, wanted):
                if is_to_load and each.problem:
                    raise SourceError(each.problem)
                found[period].append(Unit(each.path, each.size_bytes, each.version, each.written_at))
        return {period: Manifest.of(some) for period, some in found.items()}

    def _periods(self) -> Iterator[Period]:
        for each in self.files:
            if each.periods and each.periods != ALL_PERIODS:
                yield from each.periods


def _periods_between(periods: tuple[Period, Period] | None, wanted: Collection[Period]) -> Iterator[Period]:
    if periods is None:
        return
    first, last = periods
    if first == last:
        if first in wanted:
            yield first
        return
    yield from (period for period in wanted if first <= period <= last)
