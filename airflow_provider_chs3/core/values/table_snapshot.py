"""A snapshot of an Iceberg table, or a version of a Delta table: its data files, and the months that they hold."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from airflow_provider_chs3.core.values.models import FIRST_YEAR, LAST_YEAR, Manifest, Month, Unit
from airflow_provider_chs3.exceptions import SourceError

#: The first and the last month that there is: a file of all of them is one that does not say which it holds.
ALL_MONTHS = (Month(FIRST_YEAR, 1), Month(LAST_YEAR, 12))


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file, as the table's metadata describes it.

    Args:
        path: `<bucket>/<key>`, ClickHouse's `_path`.
        size_bytes: Its size in bytes.
        rows: Number of its rows.
        written_at: Time at which it was committed, in UTC.
        months: The first and the last month of its rows; None if no row has a month.
        problem: Why its rows differ from what the table shows of it, and the remedy; empty if they do not.
        deletes: A text that changes with the delete files that may remove rows of it; empty if none may.
        deleted: The positions of the rows that these remove, from 0, in order; known only for files to load.
    """

    path: str
    size_bytes: int
    rows: int
    written_at: datetime
    months: tuple[Month, Month] | None
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

    def manifests(self, months: Collection[Month] | None, *, is_to_load: bool) -> dict[Month, Manifest]:
        """Return the data files of months as objects.

        Args:
            months: The months; None for all that have files.
            is_to_load: Whether their rows are wanted. Otherwise, a file with a problem is one that has changed.

        Raises:
            SourceError: If a file of a month to load has a problem.
        """
        wanted = set(self._months() if months is None else months)
        found: dict[Month, list[Unit]] = {month: [] for month in wanted}
        for each in self.files:
            for month in _months_between(each.months, wanted):
                if is_to_load and each.problem:
                    raise SourceError(each.problem)
                found[month].append(Unit(each.path, each.size_bytes, each.version, each.written_at))
        return {month: Manifest.of(some) for month, some in found.items()}

    def _months(self) -> Iterator[Month]:
        for each in self.files:
            if each.months and each.months != ALL_MONTHS:
                yield from each.months


def _months_between(months: tuple[Month, Month] | None, wanted: Collection[Month]) -> Iterator[Month]:
    if months is None:
        return
    first, last = months
    if first == last:
        if first in wanted:
            yield first
        return
    yield from (month for month in wanted if first <= month <= last)
