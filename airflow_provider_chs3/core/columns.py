"""Which columns are loaded, from what, and how a value that does not fit is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from airflow_provider_chs3.core.formats import Format, roomy_text_type
from airflow_provider_chs3.core.sql import identifier, literal
from airflow_provider_chs3.core.target_facts import Column
from airflow_provider_chs3.exceptions import ConfigurationError, SourceError

#: The type of a text field that an expression reads.
TEXT_TYPE = "Nullable(String)"


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What the user wants of the files.

    Args:
        columns: Columns to load; none means all that the target takes.
        select: Instead: target column → row-wise expression over the file's columns.
        null_as_default: NULL in a column that cannot hold it becomes the column's default instead of an error.

    Raises:
        ConfigurationError: If both `columns` and `select` are given, or a column twice.
    """

    columns: tuple[str, ...] = ()
    select: Mapping[str, str] = field(default_factory=dict)
    null_as_default: bool = False

    def __post_init__(self) -> None:
        if self.columns and self.select:
            raise ConfigurationError("columns and select exclude each other: select names its columns itself.")
        if len(set(self.columns)) < len(self.columns):
            raise ConfigurationError(f"columns={list(self.columns)} names a column twice.")

    def wanted(self, columns: Iterable[Column]) -> list[Column]:
        """The target's columns that are loaded, in the user's order where there is one.

        Raises:
            ConfigurationError: If one is not in the target, or takes no values.
        """
        loaded = {column.name: column for column in columns if column.is_loaded}
        names = self.columns or tuple(self.select)
        unknown = [name for name in names if name not in loaded]
        if unknown:
            raise ConfigurationError(
                f"{', '.join(map(repr, unknown))}: no such column to load in the target; it takes {', '.join(loaded)}."
            )
        return [loaded[name] for name in names] if names else list(loaded.values())


@dataclass(frozen=True, slots=True)
class LoadedColumn:
    """One column of the insert.

    Args:
        column: The target's column.
        source: The expression before it is cast.
        source_type: Its type.
    """

    column: Column
    source: str
    source_type: str

    def cast(self, *, null_as_default: bool) -> str:
        """The expression, cast so that a value which does not fit is an error."""
        wanted = _nullable(self.column.type) if null_as_default else self.column.type
        if self.source_type == wanted:
            return self.source
        # accurateCast refuses 0.1 for a Float32, as it has no such value; rounding is what a Float32 is for.
        function = "CAST" if _is_float(self.source_type) and _is_float(wanted) else "accurateCast"
        return f"{function}({self.source}, {literal(wanted)})"

    def misfit(self, *, null_as_default: bool) -> str | None:
        """A condition that is true for values which do not fit; None for types that can't be asked."""
        is_null = f"isNull({self.source})"
        may_be_null = null_as_default or "Nullable(" in self.column.type
        if self.column.type.startswith(("Variant(", "Dynamic")):
            return None
        if self.column.type.startswith(("Array(", "Map(", "Tuple(", "JSON", "AggregateFunction")):
            return None if may_be_null else is_null
        inner = _without_wrappers(self.column.type)
        bad = f"(isNotNull({self.source}) AND isNull(accurateCastOrNull({self.source}, {literal(inner)})))"
        is_rounded = _is_float(inner) and _is_float(self.source_type)
        if is_rounded or inner == _without_wrappers(self.source_type):
            return None if may_be_null else is_null
        return bad if may_be_null else f"({is_null} OR {bad})"


@dataclass(frozen=True)
class SourceSchema:
    """The columns of the month's files.

    Args:
        types: Name to type, so wide that it holds the column of every file.
        rows: Rows in all files, where footers tell; None where they do not.
        by_file: A file of each schema that was met → its columns' types; used to say which file lacks a column.
        uncompressed_bytes: Bytes of all values as the files encode them, where footers tell.
    """

    types: Mapping[str, str]
    rows: int | None
    by_file: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    uncompressed_bytes: int | None = None

    @property
    def structure(self) -> str:
        """The structure argument of the table function."""
        return structure_of(self.types)

    @property
    def names(self) -> tuple[str, ...] | None:
        """All columns of the files; None where these do not name them, or not in a way that can be looked up."""
        return tuple(self.types) if self.by_file or not self.types else None

    def in_every_file(self) -> SourceSchema:
        """Without the columns that some file lacks, which would be NULL there without a word."""
        types = {
            name: column_type
            for name, column_type in self.types.items()
            if all(name in of_file for of_file in self.by_file.values())
        }
        return replace(self, types=types)


def structure_of(types: Mapping[str, str]) -> str:
    """Names and types as ClickHouse writes a structure."""
    return ", ".join(f"{identifier(name)} {column_type}" for name, column_type in types.items())


def text_schema(
    file_format: Format, columns: Sequence[Column], by_file: Mapping[str, Mapping[str, str]]
) -> SourceSchema:
    """The schema to read text with: types come from the target, or are text where no column of the target is named so.

    Args:
        file_format: The format.
        columns: The target's columns that are read under their own names.
        by_file: File → names that were found in it; empty where files carry no names.
    """
    types = {column.name: roomy_text_type(column.type, empty_is_text=file_format.empty_is_text) for column in columns}
    names = [name for names in by_file.values() for name in names]
    others = {name: TEXT_TYPE for name in names if name not in types}
    present = {name: column_type for name, column_type in types.items() if not by_file or name in names}
    return SourceSchema(types=present | others, rows=None, by_file=by_file)


def plain_columns(columns: Sequence[Column], schema: SourceSchema) -> list[LoadedColumn]:
    """Load columns from those of the same name.

    A column with a DEFAULT, or an EPHEMERAL one, may be missing from all files; any other column, or one that only some
    files have, may not.

    Raises:
        SourceError: If a file lacks a column; it names both.
    """
    loaded = []
    for column in columns:
        lacking = [path for path, types in schema.by_file.items() if column.name not in types]
        in_none = column.name not in schema.types
        if in_none and column.default_kind:
            continue
        if lacking or in_none:
            where = lacking[0] if lacking else "every file"
            raise SourceError(
                f"Column {column.name!r} is missing in {where}: mend the file, or name the columns to load with "
                "columns=[…] or select={…}."
            )
        loaded.append(LoadedColumn(column, identifier(column.name), schema.types[column.name]))
    return loaded


def _is_float(column_type: str) -> bool:
    return _without_wrappers(column_type) in ("Float32", "Float64", "BFloat16")


def _without_wrappers(column_type: str) -> str:
    for wrapper in ("LowCardinality(", "Nullable("):
        if column_type.startswith(wrapper):
            column_type = column_type[len(wrapper) : -1]
    return column_type


def _nullable(column_type: str) -> str:
    """The type that also holds NULL, where there is one."""
    if column_type.startswith("LowCardinality("):
        return f"LowCardinality({_nullable(column_type[len('LowCardinality(') : -1])})"
    if column_type.startswith(
        ("Nullable(", "Array(", "Map(", "Tuple(", "JSON", "Variant(", "Dynamic", "AggregateFunction")
    ):
        return column_type
    return f"Nullable({column_type})"
