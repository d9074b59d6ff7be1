"""The data files of an Iceberg or a Delta table in S3: a snapshot of the table says which they are."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Self

from airflow_provider_chs3.core.storages.s3_source import S3Source
from airflow_provider_chs3.core.values.models import Manifest, Month
from airflow_provider_chs3.core.workflow.operations import ListSnapshot, Steps


@dataclass(frozen=True)
class TableSource(S3Source):
    """The data files of a table. The first listing pins the table's current snapshot for all that follow.

    Args:
        table: The table's name, for people.
        snapshot: The snapshot that is read; None for the one that is current at the first listing.
        columns: The table's columns, known from the first listing.
    """

    table: str
    snapshot: str | None = None
    columns: frozenset[str] = frozenset()

    @property
    def place(self) -> str:
        """The table, for messages."""
        return self.table

    @property
    def columns_elsewhere(self) -> Collection[str]:
        """All columns of the table: what files lack is a partition's value or NULL, and never the target's default."""
        return self.columns

    def list_month(self, month: Month) -> Steps[tuple[Self, Manifest]]:
        """List the month's data files.

        Args:
            month: The month.

        Returns:
            The source, pinned to its snapshot, and the manifest.

        Raises:
            SourceError: If files alone do not have the rows that the table shows of the month.
        """
        source, manifests = yield from self.list_months([month])
        return source, manifests[month]

    def list_months(
        self, months: Collection[Month] | None, *, is_to_load: bool = True
    ) -> Steps[tuple[Self, dict[Month, Manifest]]]:
        """List the data files of months, all of one snapshot.

        Args:
            months: The months; None for all.
            is_to_load: Whether their rows are wanted, or only whether they changed. Default: True.

        Returns:
            The source, pinned to its snapshot, and the manifest of each month.

        Raises:
            SourceError: If files alone do not have the rows that the table shows of a month that is to be loaded.
        """
        of = f"snapshot {self.snapshot}" if self.snapshot else "the current snapshot"
        found = yield from ListSnapshot(
            name=f"List {of} of {self.table}",
            snapshot=self.snapshot,
            months=frozenset(months) if months is not None and is_to_load else frozenset(),
        )
        manifests = found.manifests(months, is_to_load=is_to_load)
        for manifest in manifests.values() if is_to_load else ():
            for each in manifest.objects:
                self.check_readable(each, each.key)
        pinned = replace(self, base=f"{self.bucket}/", snapshot=found.id, columns=found.columns)
        return pinned, manifests
