"""The place that a period comes from: it lists what is there, renders what reads it, and knows what proves that."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_chs3.core.files.listing import SourceListing
from airflow_provider_chs3.core.files.reading import SourceReading
from airflow_provider_chs3.core.model.models import Manifest


@dataclass(frozen=True, kw_only=True)
class Checksum:
    """A sum of the values of a column: a row in place of another one would show."""

    column: str
    total: int


class SourceProof:
    """Facts that a source itself gives about the rows of a period; none by default."""

    def known_rows(self, manifest: Manifest) -> int | None:
        """Return the rows of all objects, if the source itself knows them; else None."""
        return None

    def checksum_of(self, manifest: Manifest) -> Checksum | None:
        """Return the sum of the keys of all rows, if the source itself knows it; else None."""
        return None

    def left_out_rows(self, path: str) -> int:
        """Return how many rows of an object `rows_of` leaves out."""
        return 0

    def recorded_rows(self, path: str) -> int | None:
        """Return the rows of an object in all periods of the table, if that is what periods are listed by."""
        return None

    def for_worker(self, path: str) -> tuple[str, str] | None:
        """Return the bucket and the key by which the worker reads an object; None if only servers get in."""
        return None


class Source(SourceListing, SourceReading, SourceProof):
    """The place that periods come from: a storage of objects, or a table of a database, one unit for each period."""
