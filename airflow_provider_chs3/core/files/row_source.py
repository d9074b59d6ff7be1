"""Sources of rows, not of files: each of their periods is one unit, whose version is of its rows."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow_provider_chs3.core.files.source import Batch, Source
from airflow_provider_chs3.core.model.models import Manifest, Unit
from airflow_provider_chs3.core.model.period import Period


class RowSource(Source):
    """A source of rows: each of its periods is one unit."""

    def batches(self, manifest: Manifest) -> list[Batch]:
        """Return one batch for each period."""
        return [Batch(self.glob_of(unit.path), (unit.path,)) for unit in manifest.objects]

    def glob_of(self, path: str) -> str:
        """Return the period as text."""
        return str(period_of(path))


def version_of(rows: int, keys: int, digest: str) -> str:
    """Return the version of a period."""
    return f"{rows}/{keys}/{digest}"


def rows_and_keys(version: str) -> tuple[int, int]:
    """Return a period's rows and the sum of their keys, of what `version_of` returned."""
    rows, keys, _ = version.split("/")
    return int(rows), int(keys)


def rows_of(manifest: Manifest) -> int:
    """Return the rows of all periods of a manifest, by their versions."""
    return sum(rows_and_keys(unit.version)[0] for unit in manifest.objects)


def period_of(path: str) -> Period:
    """Return the period of what `unit_of` returned, by its path."""
    return Period.parse(path.rpartition("/")[2])


def unit_of(place: str, period: Period, *, version: str, size_bytes: int) -> Unit:
    """Return a period as the object that a load records."""
    return Unit(f"{place}/{period}", size_bytes, version, datetime.fromtimestamp(0, UTC))
