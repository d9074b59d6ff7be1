"""The data files of an Iceberg or a Delta table in S3: a snapshot of the table says which they are."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Self

from airflow_provider_chs3.core.files.object_source import read_a_little
from airflow_provider_chs3.core.files.source import AccessTrial, Batch, Source
from airflow_provider_chs3.core.model.models import Manifest, PeriodObjects, Unit
from airflow_provider_chs3.core.model.period import Grain, Period
from airflow_provider_chs3.core.model.store_kind import DATA_FILES
from airflow_provider_chs3.core.model.table_snapshot import TableSnapshot
from airflow_provider_chs3.core.sql.quoting import Sql, literals
from airflow_provider_chs3.core.steps.operations import ListSnapshot, Steps
from airflow_provider_chs3.exceptions import SourceError
from airflow_provider_chs3.sources.s3.reading import S3, S3Source

#: Rows that delete files may remove of what is loaded at once: each is a number in the insert. A server took 1.2 s for
#: as many, and 12 s for ten times as many.
MOST_DELETED_ROWS = 100_000
#: Bits of a row's number within its file, where both are one number.
_ROW_BITS = 40
#: ClickHouse's number of a row within its file, from 0.
_ROW_NUMBER = "_row_number"


@dataclass(frozen=True)
class TableSource(S3Source):
    """The data files of a table. The first listing pins the table's current snapshot for all that follow."""

    kind = replace(S3, contents=DATA_FILES)

    table: str
    snapshot: str | None = None
    shares_files: bool = False
    columns: frozenset[str] = frozenset()
    deleted: Mapping[str, tuple[int, ...]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def place(self) -> str:
        """The table, for messages."""
        return self.table

    @property
    def columns_elsewhere(self) -> Collection[str]:
        """All columns of the table: what files lack is a partition's value or NULL, and never the target's default."""
        return self.columns

    def list_periods(self, periods: Collection[Period]) -> Steps[tuple[Self, dict[Period, Manifest]]]:
        """List the data files of periods, all of one snapshot, to which the source is pinned from then on."""
        snapshot = yield from self._snapshot(periods)
        manifests = snapshot.manifests(periods, is_to_load=True, shares_files=self.shares_files)
        paths = {unit.path for manifest in manifests.values() for unit in manifest.objects}
        for unit in chain.from_iterable(manifest.objects for manifest in manifests.values()):
            self.check_readable(unit, unit.key)
        deleted = {file.path: file.deleted for file in snapshot.files if file.deleted and file.path in paths}
        self._check_deleted(deleted, snapshot.columns)
        pinned = replace(self, base=f"{self.bucket}/", snapshot=snapshot.id, columns=snapshot.columns, deleted=deleted)
        return pinned, manifests

    def leaving_out(self) -> Self:
        """Return the source where a file may hold rows of several periods; see `Source.leaving_out`."""
        return replace(self, shares_files=True)

    def _check_deleted(self, deleted: Mapping[str, Sequence[int]], columns: Collection[str]) -> None:
        """Refuse deleted rows that an insert could not leave out."""
        if (rows := sum(map(len, deleted.values()))) > MOST_DELETED_ROWS:
            raise SourceError(
                f"Delete files remove {rows:,} rows of the {len(deleted)} data files of {self.table} to load, and a "
                f"load takes at most {MOST_DELETED_ROWS:,}. Compact the table (rewrite_data_files), or load fewer "
                "periods at once."
            )
        if deleted and _ROW_NUMBER in columns:
            raise SourceError(
                f"{self.table} has a column {_ROW_NUMBER!r}. It hides ClickHouse's virtual column, which a load needs "
                "to leave out the rows that delete files remove. Compact the table (rewrite_data_files), or rename "
                "the column."
            )

    def left_out_rows(self, path: str) -> int:
        """Return how many rows of a data file delete files remove."""
        return len(self.deleted.get(path, ()))

    def rows_of(self, batch: Batch) -> str:
        """Return the condition for the rows of a batch without those that delete files remove.

        They are literals as objects are: a file's number and a row's are one number: large sets of these are quick.
        They are an array: for a tuple of as many, a server took four times as long, and twice its memory.
        Servers of 25.8 say that row numbers may be NULL, and fail (44) in functions that then look for NULL.
        """
        deleted_rows = {path: rows for path in batch.paths if (rows := self.deleted.get(path))}
        if not deleted_rows:
            return batch.condition
        files = ", ".join(map(str, range(1, len(deleted_rows) + 1)))
        file = f"toUInt64(transform(toString({batch.path}), [{literals(deleted_rows)}], [{files}], 0))"
        row = f"bitOr(bitShiftLeft({file}, {_ROW_BITS}), toUInt64(assumeNotNull({_ROW_NUMBER})))"
        deleted = (
            number << _ROW_BITS | row for number, rows in enumerate(deleted_rows.values(), start=1) for row in rows
        )
        return f"{batch.condition} AND {row} NOT IN [{', '.join(map(str, deleted))}]"

    def summarize_periods(self, periods: Collection[Period] | Grain) -> Steps[dict[Period, PeriodObjects]]:
        """List the data files of periods for a comparison alone; see `Source.summarize_periods`."""
        snapshot = yield from self._snapshot(())
        manifests = snapshot.manifests(periods, is_to_load=False, shares_files=self.shares_files)
        return {period: PeriodObjects.of(manifest) for period, manifest in manifests.items()}

    def _snapshot(self, periods: Collection[Period]) -> Steps[TableSnapshot]:
        """Return the snapshot; the worker looks closely at files of these periods."""
        of = f"snapshot {self.snapshot}" if self.snapshot else "the current snapshot"
        name = f"List {of} of {self.table}"
        return (yield from ListSnapshot(name=name, snapshot=self.snapshot, periods=frozenset(periods)))

    def access_trial(self, period: Period | None) -> AccessTrial:
        """Return a try to get at a period's data files, or at those of any period."""
        return TableTrial(self, period)

    def missing_marker(self, ready_key: str, period: Period) -> Steps[str]:
        """Refuse a ready marker: a snapshot is complete, and its files have no place of their own beside it."""
        return Source.missing_marker(self, ready_key, period)


@dataclass(frozen=True)
class TableTrial(AccessTrial):
    """A try to read a table's snapshot, and a data file of it."""

    source: TableSource
    period: Period | None

    @property
    def where(self) -> str:
        """The table, for messages."""
        return self.source.table

    def list_from_worker(self) -> Steps[Sequence[Unit]]:
        """List the data files of the period from the worker, whether their rows may be loaded or not."""
        snapshot = yield from self.source._snapshot(())
        manifests = snapshot.manifests(Grain.ALL if self.period is None else [self.period], is_to_load=False)
        return [unit for manifest in manifests.values() for unit in manifest.objects]

    def read_on_server(self, listed: Sequence[Unit]) -> Sql | None:
        """Return the statement that reads the footer of the smallest data file."""
        return read_a_little(replace(self.source, base=f"{self.source.bucket}/"), listed)
