"""What the month's files hold: their columns, and how many rows; asked before anything is written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from airflow_provider_chs3.core.columns import (
    LoadedColumn,
    Selection,
    SourceSchema,
    plain_columns,
    text_schema,
)
from airflow_provider_chs3.core.describing import describe
from airflow_provider_chs3.core.errors import is_of_servers
from airflow_provider_chs3.core.footers import parquet_footers
from airflow_provider_chs3.core.formats import Format
from airflow_provider_chs3.core.row_wise import check_row_wise
from airflow_provider_chs3.core.source_files import Files
from airflow_provider_chs3.core.sources import plain_prefix
from airflow_provider_chs3.core.sql import Sql, identifier, literal
from airflow_provider_chs3.core.steps import Ask, Steps, Together
from airflow_provider_chs3.core.target_facts import Column
from airflow_provider_chs3.exceptions import ClickHouseServerError, SourceError

#: Parquet's fixed lengths: footers do not tell them, and a file of another length than the first's would read as NULL.
_FIXED = re.compile(r"FixedString\(\d+\)")

_LOOK_FOR_MISFITS = "Look for the value that does not fit"


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
        by_file = yield from describe(files, paths)
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


def _typed_schema(files: Files) -> Steps[SourceSchema]:
    rows = size_bytes = None
    paths = [each.path for each in files.manifest.objects]
    if files.format.name == "Parquet":
        # Nearly always all files are alike, and this is the one that footers name.
        likely = min(paths, key=lambda path: (plain_prefix(path) != path, path))
        looks = (parquet_footers(files), describe(files, [likely]))
        (paths, rows, size_bytes), by_file = yield Together(name="Read footers and columns", workflows=looks)
        by_file |= yield from describe(files, [path for path in paths if path not in by_file])
        by_file = {path: by_file[path] for path in paths}
    else:
        by_file = yield from describe(files, paths)
    types = yield from _common_types(by_file)
    return SourceSchema(types=types, rows=rows, by_file=by_file, uncompressed_bytes=size_bytes)


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
        answer = yield files.look(f"Count the rows of {len(batch.paths)} files", sql)
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
        row = (yield files.look(_LOOK_FOR_MISFITS, sql))[0]
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
