"""Delete files of Iceberg tables: the data files that they apply to, and the rows of these that they remove."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.core.model.table_snapshot import DataFile
from airflow_provider_chs3.exceptions import SourceError
from airflow_provider_chs3.sources.lakehouse.listing import split_url

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile as IcebergFile
    from pyiceberg.manifest import ManifestEntry
    from pyiceberg.table import Table

#: The id that Iceberg's specification gives the column `file_path` of delete files.
_PATH_ID = 2147483546
#: Delete files that are read at the same time.
_AT_ONCE = 12


class DeleteFiles:
    """The delete files of a snapshot."""

    def __init__(self, table: Table, entries: Iterable[tuple[int, ManifestEntry]]) -> None:
        from pyiceberg.manifest import DataFileContent

        self._everywhere: list[ManifestEntry] = []
        self._by_partition: dict[tuple[int, Any], list[ManifestEntry]] = defaultdict(list)
        for spec_id, entry in entries:
            file = entry.data_file
            if file.content == DataFileContent.DATA:
                continue
            if is_equality(file) and not table.specs()[spec_id].fields:
                self._everywhere.append(entry)
            else:
                self._by_partition[spec_id, file.partition].append(entry)

    def of(self, spec_id: int, entry: ManifestEntry) -> list[IcebergFile]:
        """Return the delete files that may remove rows of a data file: by partition, order and bounds of its path."""
        of_partition = self._by_partition.get((spec_id, entry.data_file.partition), ())
        return [delete.data_file for delete in chain(self._everywhere, of_partition) if _may_apply(delete, entry)]


class DeletedRows:
    """Reads the positions of deleted rows; each delete file once, as none ever changes."""

    def __init__(self) -> None:
        self._read: dict[str, Mapping[str, Sequence[int]]] = {}

    def known(
        self, io: FileIO, files: Sequence[DataFile], deletes: Mapping[str, Collection[IcebergFile]]
    ) -> list[DataFile]:
        """Return the files, each with the positions of its deleted rows."""
        needed = [file for file in files if not file.problem and file.path in deletes]
        every = {delete.file_path: delete for file in needed for delete in deletes[file.path]}
        unread = [delete for url, delete in every.items() if url not in self._read]
        with ThreadPoolExecutor(max_workers=_AT_ONCE, thread_name_prefix="chs3-deletes") as pool:
            positions = pool.map(lambda delete: _positions(io, delete), unread)
            self._read |= zip((delete.file_path for delete in unread), positions, strict=True)
        return [self._with_deleted(file, deletes.get(file.path, ())) for file in files]

    def _with_deleted(self, file: DataFile, deletes: Iterable[IcebergFile]) -> DataFile:
        if file.problem:
            return file
        every = chain.from_iterable(self._read[delete.file_path].get(file.path, ()) for delete in deletes)
        # Writers may delete a row twice.
        return replace(file, deleted=tuple(sorted({row for row in every if 0 <= row < file.rows})))


def is_equality(file: IcebergFile) -> bool:
    """Check whether a delete file names values, and not the positions of rows."""
    from pyiceberg.manifest import DataFileContent

    return bool(file.content == DataFileContent.EQUALITY_DELETES)


def digest_of(deletes: Collection[IcebergFile]) -> str:
    """Return a text that changes with the delete files; empty without any."""
    if not deletes:
        return ""
    paths = "\n".join(sorted(delete.file_path for delete in deletes))
    return f"delete files {hashlib.sha256(paths.encode()).hexdigest()[:16]}"


def problem_of(path: str, table: str, deletes: Iterable[IcebergFile]) -> str:
    """Return why the deleted rows of a data file cannot be left out; empty if they can."""
    for delete in deletes:
        if is_equality(delete):
            kind = "equality deletes remove"
        elif delete.file_format == "PUFFIN":
            kind = "deletion vectors remove"
        elif delete.file_format != "PARQUET":
            kind = f"delete files of {delete.file_format.value} remove"
        else:
            continue
        return _problem(path, table, kind)
    return ""


def _problem(path: str, table: str, kind: str) -> str:
    return (
        f"{path} of {table} has rows that {kind}, and a load supports only position deletes in Parquet. Compact the "
        "table (rewrite_data_files), then load the period again."
    )


def _may_apply(delete: ManifestEntry, data: ManifestEntry) -> bool:
    of, by = data.sequence_number or 0, delete.sequence_number or 0
    if is_equality(delete.data_file):
        return of < by
    if of > by:
        return False
    file, path = delete.data_file, data.data_file.file_path.encode()
    lower, upper = ((bounds or {}).get(_PATH_ID) for bounds in (file.lower_bounds, file.upper_bounds))
    # Bounds that contradict each other say nothing.
    return lower is None or upper is None or lower > upper or lower <= path <= upper


def _positions(io: FileIO, file: IcebergFile) -> dict[str, list[int]]:
    """Return path of a data file → positions of its rows that a delete file removes."""
    import pyarrow.parquet as pq

    with io.new_input(file.file_path).open() as opened:
        rows = pq.read_table(opened, columns=["file_path", "pos"])
    if len(rows) != file.record_count:
        raise SourceError(
            f"The delete file {file.file_path} has {len(rows)} rows, but its manifest says {file.record_count}: it was "
            "changed after it was written. Compact the table (rewrite_data_files)."
        )
    by_file = rows.group_by("file_path").aggregate([("pos", "list")])
    urls, positions = by_file["file_path"].to_pylist(), by_file["pos_list"].to_pylist()
    return {"/".join(split_url(url)): rows for url, rows in zip(urls, positions, strict=True)}
