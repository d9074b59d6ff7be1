"""A month's objects, as far as a comparison needs them."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_chs3.core.values.models import Manifest


@dataclass(frozen=True, slots=True)
class MonthObjects:
    """A month's objects, as far as a comparison needs them.

    Args:
        count: Number of the objects.
        size_bytes: Their total size, in bytes.
        fingerprint: A digest of their paths, sizes and versions; see `Manifest.fingerprint`.
    """

    count: int
    size_bytes: int
    fingerprint: str

    @classmethod
    def of(cls, manifest: Manifest) -> MonthObjects:
        """Return what a comparison needs of a manifest."""
        return cls(len(manifest.objects), manifest.size_bytes, manifest.fingerprint)
