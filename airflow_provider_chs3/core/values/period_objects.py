"""A period's objects, as far as a comparison needs them."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_chs3.core.values.models import Manifest
from airflow_provider_chs3.core.values.quantities import objects_text, quantity


@dataclass(frozen=True, slots=True)
class PeriodObjects:
    """A period's objects, as far as a comparison needs them.

    Args:
        count: Number of the objects.
        size_bytes: Their total size, in bytes.
        fingerprint: A digest of their paths, sizes and versions; see `Manifest.fingerprint`.
        rows: Number of the period's rows, if it is rows of a database, and no objects. Default: None; it is of objects.
    """

    count: int
    size_bytes: int
    fingerprint: str
    rows: int | None = None

    @classmethod
    def of(cls, manifest: Manifest, *, rows: int | None = None) -> PeriodObjects:
        """Return what a comparison needs of a manifest."""
        return cls(len(manifest.objects), manifest.size_bytes, manifest.fingerprint, rows)

    @property
    def sizes(self) -> str:
        """The period's rows, or number and size of its objects, for people."""
        if self.rows is not None:
            return quantity(self.rows, "row")
        return objects_text(self.count, self.size_bytes)
