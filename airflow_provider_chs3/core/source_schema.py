"""What the month's files hold: their columns, and how many rows; asked before anything is written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from airflow_provider_chs3.core.columns import (
    TEXT_TYPE,
    LoadedColumn,
    Selection,
    SourceSchema,
    plain_columns,
    text_schema,
)
from airflow_provider_chs3.core.errors import is_of_servers
from airflow_provider_chs3.core.formats import Format
from airflow_provider_chs3.core.models import Manifest, SettingValues
from airflow_provider_chs3.core.row_wise import check_row_wise
from airflow_provider_chs3.core.sources import READ_SETTINGS, Batch, S3Source
from airflow_provider_chs3.core.sql import PARSED, Sql, identifier, literal
from airflow_provider_chs3.core.steps import Ask, Row, Steps
from airflow_provider_chs3.core.target import Column
from airflow_provider_chs3.exceptions import ClickHouseServerError, SourceError

#: Parquet's fixed lengths: footers do not tell them, and a file of another length than the first's would read as NULL.
_FIXED = re.compile(r"FixedString\(\d+\)")

#: How the names of formats end whose files begin with a line of names.
_WITH_NAMES = "WithNames"

_READ_SETTINGS: SettingValues = {
    **PARSED,
    "schema_inference_make_columns_nullable": "1",
    "use_hive_partitioning": 0,
    "s3_throw_on_zero_files_match": 1,
    # Both caches go by the time of writing: with clocks that differ, an object's last version would be taken for it.
    "use_cache_for_count_from_files": 0,
    "schema_inference_use_cache_for_s3": 0,
    **READ_SETTINGS,
}

_SCHEMAS_OF_PARQUET = """
SELECT columns, count(), sum(num_rows), sum(total_uncompressed_size),
    argMin(_path, (NOT match(_path, '^[A-Za-z0-9/_.=-]*$'), _path)) FROM (
    SELECT _path, num_rows, total_uncompressed_size,
        arrayMap(each -> (each.name, each.path, each.physical_type, each.logical_type), columns) AS columns
    FROM {function} WHERE {condition}
) GROUP BY columns
"""


@dataclass(frozen=True)
class Files:
    """The month's files, and how to read them.

    Args:
        source: Where they are.
        manifest: Which they are.
        format: Their format.
        compression: ClickHouse's name of their compression; `auto` goes by the key.
        cluster: The cluster that reads; None for a single server.
    """

    source: S3Source
    manifest: Manifest
    format: Format
    compression: str
    cluster: str | None

    def read(
        self, glob: str, *, structure: str = "auto", file_format: str | None = None, on_cluster: bool = True
    ) -> Sql:
        """The table function that reads them."""
        return self.source.table_function(
            glob,
            file_format=file_format or self.format.name,
            structure=structure,
            compression=self.compression,
            cluster=self.cluster if on_cluster else None,
        )

    def batches(self) -> list[Batch]:
        """All of them, as few batches."""
        return self.source.batches(self.manifest)


def read_columns(
    files: Files, selection: Selection, columns: Sequence[Column]
) -> Steps[tuple[SourceSchema, list[LoadedColumn]]]:
    """Find what each target column is loaded from.

    Args:
        files: The month's files; at least one.
        selection: What the user wants of them.
        columns: The target's columns.

    Raises:
        SourceError: If a file lacks a column, or files contradict each other.
        ConfigurationError: If the selection does not fit target or files.
    """
    wanted = selection.wanted(columns)
    if files.format.is_typed:
        schema = yield from _typed_schema(files)
    else:
        paths = [each.path for each in files.manifest.objects] if _needs_names(files.format, selection) else []
        by_file = yield from _describe_all(files, paths)
        if not by_file and not selection.columns:
            # Nobody says that the files have them.
            wanted = [column for column in wanted if column.default_kind != "EPHEMERAL"]
        schema = text_schema(files.format, [] if selection.select else wanted, by_file)
    if selection.select:
        # The names of a JSON file are those of a sample of its lines; there a missing key is NULL anyway.
        of_all = schema if files.format.name == "JSONEachRow" else schema.in_every_file()
        return schema, (yield from check_row_wise(selection.select, wanted, of_all))
    loaded = plain_columns(wanted, schema)
    if not loaded:
        raise SourceError(
            f"The files have none of the table's columns. They have {', '.join(schema.types)}: name what to load with "
            "select={…}."
        )
    return schema, loaded


def _needs_names(file_format: Format, selection: Selection) -> bool:
    # A key that is missing in a line of JSON is NULL, which the cast refuses where the column cannot hold it.
    return bool(selection.select) or (file_format.names_columns and file_format.name != "JSONEachRow")


def _describe_all(files: Files, paths: Iterable[str]) -> Steps[dict[str, dict[str, str]]]:
    by_file = {}
    for path in paths:
        by_file[path] = yield from _describe(files, path)
    return by_file


def _typed_schema(files: Files) -> Steps[SourceSchema]:
    rows = size_bytes = None
    if files.format.name == "Parquet":
        paths, rows, size_bytes = yield from _parquet_footers(files)
    else:
        paths = [each.path for each in files.manifest.objects]
    by_file = yield from _describe_all(files, paths)
    types = yield from _common_types(by_file)
    return SourceSchema(types=types, rows=rows, by_file=by_file, uncompressed_bytes=size_bytes)


def _parquet_footers(files: Files) -> Steps[tuple[list[str], int, int]]:
    """One file for each schema, and the rows and uncompressed bytes of all."""
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
    rows: list[Row] = yield Ask(name=name, sql=Sql(text, function.secrets), settings=_READ_SETTINGS)
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


def _describe(files: Files, path: str) -> Steps[dict[str, str]]:
    glob, has_line_of_names = files.source.glob_of(path), files.format.name.endswith(_WITH_NAMES)
    if not path.endswith(glob):
        yield from _check_matches_alone(files, glob, path)
    function = files.read(glob, on_cluster=False)
    sql = Sql(f"DESCRIBE TABLE {function.text}", function.secrets)
    # Of a file with a line of names these are all that counts; by default 25,000 lines are read, to guess at types.
    lines = {"input_format_max_rows_to_read_for_schema_inference": 1} if has_line_of_names else {}
    try:
        rows = yield Ask(name=f"Read the columns of {path}", sql=sql, settings={**_READ_SETTINGS, **lines})
    except ClickHouseServerError as error:
        if is_of_servers(error):
            raise
        if has_line_of_names and "EMPTY_DATA_PASSED" in error.message:
            return (yield from _names_alone(files, glob, path))
        raise SourceError(f"The columns of {path} could not be read as {files.format.name}: {error}") from error
    return {row[0]: row[1] for row in rows}


def _names_alone(files: Files, glob: str, path: str) -> Steps[dict[str, str]]:
    """The columns of a file without rows, whose line of names is the only one."""
    function = files.read(glob, file_format=files.format.name.removesuffix(_WITH_NAMES), on_cluster=False)
    sql = Sql(f"SELECT * FROM {function.text} LIMIT 1", function.secrets)
    rows = yield Ask(name=f"Read the names of {path}", sql=sql, settings=_READ_SETTINGS)
    return {str(name): TEXT_TYPE for name in rows[0]} if rows else {}


def _check_matches_alone(files: Files, glob: str, path: str) -> Steps[None]:
    """The columns would be another file's, and values read as its types could change without an error."""
    function = files.read(glob, file_format="One", on_cluster=False)
    sql = Sql(f"SELECT DISTINCT _path FROM {function.text}", function.secrets)
    rows = yield Ask(name=f"Look what looks like {path}", sql=sql, settings=_READ_SETTINGS)
    others = sorted(row[0] for row in rows if row[0] != path)
    if others:
        raise SourceError(f"ClickHouse cannot tell {path} from {others[0]} by a glob: rename one of them.")


def _common_types(by_file: Mapping[str, Mapping[str, str]]) -> Steps[dict[str, str]]:
    """For each column a type that holds those of all files, as the server knows it."""
    types: dict[str, dict[str, str]] = {}
    for path, columns in by_file.items():
        for name, column_type in columns.items():
            types.setdefault(name, {}).setdefault(_FIXED.sub("String", column_type), path)
    common = {}
    for name, every in types.items():
        # A column that is NULL throughout a file says nothing of its type.
        found = {column_type: path for column_type, path in every.items() if "Nothing" not in column_type} or every
        common[name] = next(iter(found)) if len(found) == 1 else (yield from _common_type(name, found))
    return common


def _common_type(name: str, found: Mapping[str, str]) -> Steps[str]:
    values = ", ".join(f"defaultValueOfTypeName({literal(column_type)})" for column_type in found)
    sql = Sql(f"SELECT toTypeName([{values}])")
    try:
        rows = yield Ask(name=f"Find a type for column {name}", sql=sql, settings={"use_variant_as_common_type": 0})
    except ClickHouseServerError as error:
        if is_of_servers(error):
            raise
        (one, in_one), (other, in_other) = list(found.items())[:2]
        raise SourceError(
            f"Column {name!r} is {one} in {in_one} and {other} in {in_other}, and no type holds both: mend one of them."
        ) from error
    return str(rows[0][0])[len("Array(") : -1]


def count_rows(files: Files, schema: SourceSchema) -> Steps[int]:
    """Rows of all files. Footers tell for Parquet, at no cost; other formats are read for it a second time."""
    if schema.rows is not None:
        return schema.rows
    rows = 0
    for batch in files.batches():
        function = files.read(batch.glob, structure=schema.structure)
        sql = Sql(f"SELECT count() FROM {function.text} WHERE {batch.condition}", function.secrets)
        answer = yield Ask(name=f"Count the rows of {len(batch.paths)} files", sql=sql, settings=_READ_SETTINGS)
        rows += answer[0][0]
    return rows


def find_misfits(
    files: Files, schema: SourceSchema, loaded: Sequence[LoadedColumn], *, null_as_default: bool
) -> Steps[str | None]:
    """After an insert failed over a value: which column, which file, and a value that does not fit."""
    asked = [(each, condition) for each in loaded if (condition := each.misfit(null_as_default=null_as_default))]
    if not asked:
        return None
    found = ", ".join(
        f"countIf({condition}), anyIf((_path, toString({each.source})), {condition})" for each, condition in asked
    )
    for batch in files.batches():
        function = files.read(batch.glob, structure=schema.structure)
        sql = Sql(f"SELECT {found} FROM {function.text} WHERE {batch.condition}", function.secrets)
        row = (yield Ask(name="Look for the value that does not fit", sql=sql, settings=_READ_SETTINGS))[0]
        for (each, _), count, (path, value) in zip(asked, row[::2], row[1::2], strict=True):
            if count:
                shown = "NULL, or missing," if value is None else repr(value)
                return (
                    f"Column {each.column.name!r} is {each.column.type}, but {path} has {shown} for it "
                    f"({count} such rows in all). Widen the column, mend the file, or give an expression with "
                    f"select={{…}}" + ("; null_as_default=True takes the column's default." if value is None else ".")
                )
    return None


def insert_parts(loaded: Sequence[LoadedColumn], *, null_as_default: bool) -> tuple[str, str]:
    """The list of columns, and the list of expressions."""
    names = ", ".join(identifier(each.column.name) for each in loaded)
    return names, ", ".join(each.cast(null_as_default=null_as_default) for each in loaded)
