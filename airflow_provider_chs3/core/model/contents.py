"""The contents of a period: objects of a storage, or rows of a database. Messages and results count them."""

from __future__ import annotations

from airflow_provider_chs3.core.model.models import Manifest
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.model.quantities import quantity, size_text
from airflow_provider_chs3.exceptions import SourceError


class Contents:
    """Words for the contents of a period: objects, unless a subclass says otherwise.

    Args:
        name: The word for it: `objects` or `rows`.
        holder: The word for what holds a value: a `file` or a `row`.
    """

    name = "objects"
    holder = "file"

    def count(self, manifest: Manifest) -> int:
        """Return the number of objects for results and records."""
        return len(manifest.objects)

    def sizes(self, manifest: Manifest) -> str:
        """Return what a period has, for the log."""
        return manifest.sizes

    def inserted(self, count: int) -> str:
        """Return what an insert reads, for the log."""
        return quantity(count, "object")

    def having(self, manifest: Manifest, rows: str) -> str:
        """Return how many rows the source has."""
        verb = "holds" if len(manifest.objects) == 1 else "hold"
        return f"its {quantity(len(manifest.objects), 'object')} {verb} {rows} rows"

    def none_of(self, period: Period, place: str, pattern: str) -> str:
        """Say that a period has none."""
        return f"No {self.name} for {period} under {place}/{pattern}"

    def with_columns(self, place: str) -> str:
        """Return what has the columns to load, for messages."""
        return place

    def none_found(self, period: Period | None, pattern: str) -> str:
        """Return what was looked for and not found."""
        return f"no object{f' of {period}' if period else ''} fits {pattern!r}"

    def of_other_periods(self, period: Period, place: str, counts: str) -> SourceError:
        """Return the error of a period that has rows of other periods."""
        return SourceError(
            f"The objects of {period} hold rows of other periods (partition: rows): {counts}. The period was not "
            "published. policies={'on_other_periods': 'leave_out'} loads the period without them."
        )


class _DataFiles(Contents):
    def of_other_periods(self, period: Period, place: str, counts: str) -> SourceError:
        # Left out, they might be in no period at all.
        return SourceError(
            f"Files of {period} in {place} hold rows that the table puts into other periods (partition: rows): "
            f"{counts}. The period was not published. Set the time zone of the table's partition key for the "
            "source, timezone=…, and policies={'on_other_periods': 'leave_out'}: each period then takes its rows of "
            "all files that may have some."
        )


class _Rows(Contents):
    name, holder = "rows", "row"

    def count(self, manifest: Manifest) -> int:
        return 0

    def sizes(self, manifest: Manifest) -> str:
        return f"about {size_text(manifest.size_bytes)}"

    def inserted(self, count: int) -> str:
        return "the rows"

    def having(self, manifest: Manifest, rows: str) -> str:
        return f"its source has {rows} rows"

    def none_found(self, period: Period | None, pattern: str) -> str:
        return f"no rows{f' of {period}' if period else ''} by {pattern!r}"

    def of_other_periods(self, period: Period, place: str, counts: str) -> SourceError:
        # Left out, they would be in no period at all.
        return SourceError(
            f"{place} has rows of {period} that the table puts into other periods (partition: rows): {counts}. "
            "The period was not published. Set the time zone of the table's partition key: timezone=…."
        )


class _Derived(_Rows):
    def none_of(self, period: Period, place: str, pattern: str) -> str:
        return f"No rows for {period} in {place}, which the SELECT reads"

    def with_columns(self, place: str) -> str:
        return f"the SELECT over {place}"

    def of_other_periods(self, period: Period, place: str, counts: str) -> SourceError:
        return SourceError(
            f"The SELECT makes rows of other periods out of {period} of {place} (partition: rows): {counts}. The "
            "period was not published. Keep the time of the rows in the SELECT, and partition both tables by it in one "
            "time zone."
        )


OBJECTS = Contents()
DATA_FILES: Contents = _DataFiles()
ROWS: Contents = _Rows()
DERIVED: Contents = _Derived()
