"""What the footers of Parquet files tell: schemas, rows and bytes, of all files in one statement."""

from __future__ import annotations

from airflow_provider_chs3.core.errors import is_of_servers
from airflow_provider_chs3.core.source_files import Files
from airflow_provider_chs3.core.sources import Batch
from airflow_provider_chs3.core.sql import Sql
from airflow_provider_chs3.core.steps import Row, Steps
from airflow_provider_chs3.exceptions import ClickHouseServerError, SourceError

_SCHEMAS_OF_PARQUET = """
SELECT columns, count(), sum(num_rows), sum(total_uncompressed_size),
    argMin(_path, (NOT match(_path, '^[A-Za-z0-9/_.=-]*$'), _path)) FROM (
    SELECT _path, num_rows, total_uncompressed_size,
        arrayMap(each -> (each.name, each.path, each.physical_type, each.logical_type), columns) AS columns
    FROM {function} WHERE {condition}
) GROUP BY columns
"""


def parquet_footers(files: Files) -> Steps[tuple[list[str], int, int]]:
    """One file for each schema, and the rows and uncompressed bytes of all.

    Args:
        files: Files of Parquet.

    Raises:
        SourceError: If one cannot be read, or is not found.
    """
    found: dict[object, str] = {}
    objects = rows = size_bytes = 0
    for batch in files.batches():
        try:
            footers = yield from _footers(files, batch)
        except ClickHouseServerError as error:
            yield from _find_unreadable(files, batch, error)
            raise
        for columns, count, row_count, byte_count, path in footers:
            found.setdefault(tuple(columns), path)
            objects, rows, size_bytes = objects + count, rows + row_count, size_bytes + byte_count
    if objects != len(files.manifest.objects):
        raise SourceError(
            f"{len(files.manifest.objects)} objects were listed, but ClickHouse found {objects} of them: "
            "does it reach the same storage, and may it read every object?"
        )
    return list(found.values()), rows, size_bytes


def _footers(files: Files, batch: Batch) -> Steps[list[Row]]:
    function = files.read(batch.glob, file_format="ParquetMetadata")
    text = _SCHEMAS_OF_PARQUET.format(function=function.text, condition=batch.condition)
    name = f"Read the footers of {len(batch.paths)} files"
    rows: list[Row] = yield files.look(name, Sql(text, function.secrets), {"max_threads": files.look_threads})
    return rows


def _find_unreadable(files: Files, batch: Batch, error: ClickHouseServerError) -> Steps[None]:
    """The error does not name the file, so the files are tried one by one, if it is about one."""
    if is_of_servers(error):
        return
    for path in batch.paths:
        try:
            yield from _footers(files, Batch(files.source.glob_of(path), (path,)))
        except ClickHouseServerError as its_error:
            if is_of_servers(its_error):
                raise
            raise SourceError(f"{path} cannot be read as Parquet: {its_error.message}") from error
