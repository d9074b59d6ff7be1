"""The columns of all files of a period, each with the widest type of all files."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider_chs3.core.files.describe_files import describe
from airflow_provider_chs3.core.files.file_kinds import FileKind, common_type, kinds_of
from airflow_provider_chs3.core.files.file_set import Files
from airflow_provider_chs3.core.sql.column_types import COMPOUND, ColumnType
from airflow_provider_chs3.core.sql.server_casts import is_integer
from airflow_provider_chs3.core.steps.operations import Steps
from airflow_provider_chs3.exceptions import SourceError

#: Those that people use instead of a comma.
_OTHER_DELIMITERS = ";\t|"


@dataclass(frozen=True, slots=True)
class FileColumn:
    """A column of the files."""

    name: str
    type: str
    types: tuple[str, ...]
    lacking_files: int = 0


def columns_of(files: Files) -> Steps[list[FileColumn]]:
    """Read the columns of all files."""
    if files.format.is_typed:
        kinds, _ = yield from kinds_of(files, ())
    else:
        by_file = yield from describe(files, [unit.path for unit in files.manifest.objects], is_of_names=False)
        if files.format.name == "CSVWithNames":
            _check_delimiter(by_file)
        kinds = [FileKind(path, (path,), types) for path, types in by_file.items()]
    examples: dict[str, dict[str, str]] = defaultdict(dict)
    for kind in kinds:
        for name, of_file in {**kind.types, **kind.declared}.items():
            examples[name].setdefault(str(_without_null(ColumnType(of_file))), kind.example)
    if "_path" in examples:
        raise SourceError(
            "A table for these files would need a column '_path'. It hides ClickHouse's virtual column, which a load "
            "needs to read only the period's objects. Rename the column in the files, or create the table without it, "
            "and load with policies={'on_new_columns': 'warn'}."
        )
    columns = []
    for name, by_type in examples.items():
        widest = yield from _widest(name, by_type)
        lacking = sum(len(kind.paths) for kind in kinds if name not in kind.types)
        columns.append(FileColumn(name, widest, tuple(by_type), lacking))
    return columns


def _check_delimiter(by_file: Mapping[str, Mapping[str, str]]) -> None:
    """Check that no line of names is a single name of several, with another delimiter between them."""
    for path, types in by_file.items():
        names = "".join(types)
        delimiter = next((delimiter for delimiter in _OTHER_DELIMITERS if delimiter in names), None)
        if len(types) == 1 and delimiter:
            raise SourceError(
                f"{path} begins with a single name, {names!r}, which has {delimiter!r} in it. If that is between its "
                f"fields, set csv={{'delimiter': {delimiter!r}}}; chs3 ddl takes it as --csv "
                f"'{json.dumps({'delimiter': delimiter})}'. Otherwise rename the column."
            )


def _without_null(of: ColumnType) -> ColumnType:
    # Readers of 26 show in some formats whether structs may be NULL, older ones in none.
    return of.inner[0] if of.name == "Nullable" and of.bare.name != "Tuple" else of


def _widest(name: str, examples: dict[str, str]) -> Steps[str]:
    """Return the narrowest type that holds all of them."""
    types = [example for example in examples if example != "Nothing"] or ["String"]
    if len(types) == 1:
        return types[0]
    if common := (yield from common_type(name, types)):
        return common
    parsed = [ColumnType(name) for name in types]
    if any(column_type.bare.name in COMPOUND for column_type in parsed):
        shown = ", ".join(f"{of} in {path}" for of, path in examples.items())
        raise SourceError(
            f"No type holds column {name!r} of all files: it is {shown}. Write them with one type, or load them into "
            "two tables."
        )
    # Scalars that have no common type on the server, such as UInt64 and Int64.
    if all(map(is_integer, parsed)):
        return "Int128"
    if all(is_integer(column_type) or column_type.name in ("Float32", "Float64", "Decimal") for column_type in parsed):
        return "Float64"
    return "String"
