"""Columns of Iceberg's data files: tables know them by ids, ClickHouse reads them by names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.core.model.table_snapshot import DataFile

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

_ID = b"PARQUET:field_id"
#: Footers that are read at the same time.
_AT_ONCE = 12


class ColumnHistory:
    """Finds files whose columns have other names than the table gives them now."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._columns = _ids(table.schema())

    def checked(self, files: Sequence[DataFile]) -> list[DataFile]:
        """Return the files, each with its problem.

        Footers are read only if a column was ever renamed, or dropped and added again, or may be missing from files:
        else names and ids say the same.
        """
        if not files or self._is_plain():
            return list(files)
        with ThreadPoolExecutor(max_workers=_AT_ONCE, thread_name_prefix="chs3-footers") as pool:
            return list(pool.map(self._checked, files))

    def _is_plain(self) -> bool:
        metadata = self._table.metadata
        schemas = {schema.schema_id: schema for schema in metadata.schemas}
        # An old schema that was removed may have had any names.
        is_complete = set(schemas) == set(range(len(schemas))) and metadata.current_schema_id == len(schemas) - 1
        pairs = {pair for schema in schemas.values() for pair in _ids(schema).items()}
        is_one_to_one = len(pairs) == len({name for name, _ in pairs}) == len({number for _, number in pairs})
        return is_complete and is_one_to_one and not self._table.name_mapping() and not self._with_values()

    def _with_values(self) -> set[int]:
        """Return columns whose values are not in the files that lack them: their initial default is none of NULL."""
        schema = self._table.schema()
        columns = map(schema.find_field, schema.column_names)
        return {column.field_id for column in columns if column.initial_default is not None}

    def _checked(self, file: DataFile) -> DataFile:
        import pyarrow.parquet as pq

        with self._table.io.new_input(f"s3://{file.path}").open() as opened:
            ids = dict(_file_ids(pq.read_schema(opened)))
        wrong = sorted(name for name, number in ids.items() if self._columns.get(name, number) != number)
        by_id = {number: name for name, number in self._columns.items()}
        wrong += sorted(name for name, number in ids.items() if by_id.get(number or -1, name) != name)
        partitioned = {field.source_id for spec in self._table.specs().values() for field in spec.fields}
        needed = partitioned | self._with_values()
        wrong += sorted(name for name, number in self._columns.items() if name not in ids and number in needed)
        if not wrong or file.problem:
            return file
        return replace(file, problem=_problem(file.path, dict.fromkeys(wrong)))


def _problem(path: str, columns: Iterable[str]) -> str:
    return (
        f"{path} was written when the table had other columns: {', '.join(map(repr, columns))}. ClickHouse reads "
        "columns by their names, and Iceberg by their ids. Rewrite the table's files (rewrite_data_files), then load "
        "the period again."
    )


def _ids(schema: Schema) -> dict[str, int]:
    """Return the names that columns at any depth have in files, and their ids: writers change some characters."""
    from pyiceberg.schema import sanitize_column_names

    in_files = sanitize_column_names(schema)
    return {name: in_files.find_field(name).field_id for name in in_files.column_names}


def _file_ids(fields: Any, within: str = "") -> Iterator[tuple[str, int | None]]:
    """Yield the names of a file's columns at any depth, as tables have them, and their ids, or None."""
    for field in fields:
        yield from _field_ids(field, f"{within}{field.name}")


def _field_ids(field: Any, name: str) -> Iterator[tuple[str, int | None]]:
    import pyarrow as pa

    number = (field.metadata or {}).get(_ID)
    yield name, int(number) if number else None
    kind = field.type
    if pa.types.is_struct(kind):
        yield from _file_ids(kind, f"{name}.")
    elif pa.types.is_map(kind):
        yield from _field_ids(kind.key_field, f"{name}.key")
        yield from _field_ids(kind.item_field, f"{name}.value")
    elif pa.types.is_nested(kind):
        # Writers call it otherwise, too: array, item.
        yield from _field_ids(kind.value_field, f"{name}.element")
