"""Delete files of Iceberg tables as Spark, Flink and Trino write them; pyiceberg itself writes none."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, DataFileContent, ManifestContent, ManifestWriter, ManifestWriterV2
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles

#: Ids of Iceberg's specification.
_PATH_ID, _POSITION_ID = 2147483546, 2147483545


class _DeleteManifest(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class _RowDelta(_FastAppendFiles):
    """Commits delete files: their manifests are of their own kind, and each of the spec of its data files."""

    def new_manifest_writer(self, spec: PartitionSpec) -> ManifestWriter:
        own = self.spec(self._added_data_files[0].spec_id)
        return _DeleteManifest(own, self.schema(), self.new_manifest_output(), self._snapshot_id, self._compression)


def data_files(table: Any, condition: str = "true") -> list[DataFile]:
    """The table's data files that may have rows of a condition, by path."""
    table.refresh()
    return sorted((task.file for task in table.scan(condition).plan_files()), key=lambda file: file.file_path)


def delete_by_position(
    table: Any,
    deleted: Mapping[str, Sequence[int]],
    *,
    has_bounds: bool = True,
    bounds: tuple[str, str] | None = None,
) -> str:
    """Commit one delete file."""
    rows = sorted((url, position) for url, positions in deleted.items() for position in positions)
    fields = [("file_path", pa.string(), _PATH_ID), ("pos", pa.int64(), _POSITION_ID)]
    content = pa.table(
        [[row[0] for row in rows], [row[1] for row in rows]], schema=pa.schema([_field(*field) for field in fields])
    )
    of = next(file for file in data_files(table) if file.file_path in deleted)
    lower, upper = ({_PATH_ID: bound.encode()} for bound in bounds or (min(deleted), max(deleted)))
    described = {"lower_bounds": lower, "upper_bounds": upper} if has_bounds else {}
    return commit_deletes(table, of, content, **described)


def delete_by_value(table: Any, of: DataFile, trip_ids: Sequence[int]) -> str:
    """Commit an equality delete file for rows with these ids in the partition of a data file."""
    number = table.schema().find_field("trip_id").field_id
    content = pa.table([list(trip_ids)], schema=pa.schema([_field("trip_id", pa.int64(), number)]))
    return commit_deletes(table, of, content, content_kind=DataFileContent.EQUALITY_DELETES, equality_ids=[number])


def commit_deletes(
    table: Any,
    of: DataFile,
    content: pa.Table,
    *,
    content_kind: DataFileContent = DataFileContent.POSITION_DELETES,
    file_format: str = "PARQUET",
    **described: Any,
) -> str:
    """Write rows as a delete file, and commit it for the partition of a data file."""
    url = f"{table.location()}/data/{secrets.token_hex(8)}-deletes.parquet"
    output = table.io.new_output(url)
    with output.create() as stream:
        pq.write_table(content, stream)
    delete = DataFile.from_args(
        content=content_kind,
        file_path=url,
        file_format=file_format,
        partition=of.partition,
        record_count=len(content),
        file_size_in_bytes=len(output.to_input_file()),
        **described,
    )
    delete.spec_id = of.spec_id
    with table.transaction() as change:
        producer = _RowDelta(operation=Operation.OVERWRITE, transaction=change, io=table.io)
        producer.append_data_file(delete)
        producer.commit()
    return url


def _field(name: str, kind: pa.DataType, number: int) -> pa.Field:
    return pa.field(name, kind, nullable=False, metadata={"PARQUET:field_id": str(number)})
