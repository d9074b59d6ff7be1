"""Decide which columns are loaded, from what, and how a value that does not fit is refused."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_provider_chs3.core.arguments.declaration import check_once
from airflow_provider_chs3.core.arguments.load_arguments import COLUMNS, SELECT, Casts
from airflow_provider_chs3.core.files.text_fields import TEXT_TYPE, Dialect
from airflow_provider_chs3.core.sql.casts import Casting
from airflow_provider_chs3.core.sql.column_types import COMPOUND, ColumnType
from airflow_provider_chs3.core.sql.quoting import identifier, literals
from airflow_provider_chs3.core.sql.select_conversions import is_unparsed
from airflow_provider_chs3.core.sql.server_casts import OR_NULL, Cast, all_hold
from airflow_provider_chs3.core.sql.unfit_values import unfit_condition
from airflow_provider_chs3.core.target.table_facts import Column
from airflow_provider_chs3.exceptions import ConfigurationError, SourceError

#: Virtual columns of the s3 functions, about each row's file. A column of the file itself with the same name hides one.
VIRTUAL_COLUMNS = {
    "_path": "LowCardinality(String)",
    "_file": "LowCardinality(String)",
    "_size": "Nullable(UInt64)",
    "_time": "Nullable(DateTime)",
    "_etag": "LowCardinality(String)",
}
#: The text that our conditions throw; throwIf() with another text is from the user's own expression.
DOES_NOT_FIT = "a value does not fit its column"


@dataclass(frozen=True, kw_only=True)
class Selection(Casts):
    """The columns and expressions that the user chose, and how their values are converted."""

    columns: tuple[str, ...] = ()
    select: Mapping[str, str] = field(default_factory=dict)
    csv: Dialect = field(default_factory=Dialect)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.columns and self.select:
            raise ConfigurationError("Set either columns or select: select names its columns itself.")
        check_once(self.columns)

    def wanted(self, columns: Iterable[Column]) -> list[Column]:
        """Return the target's columns to load, in the user's order if there is one."""
        loaded = {column.name: column for column in columns if column.is_loaded}
        names = self.columns or tuple(self.select)
        unknown = [name for name in (*names, *self.lossy_columns) if name not in loaded]
        if unknown:
            raise ConfigurationError(
                f"No such column to load in the target: {', '.join(map(repr, unknown))}. It takes {', '.join(loaded)}."
            )
        return [loaded[name] for name in names] if names else list(loaded.values())


def selection_of(
    *,
    columns: Sequence[str] | None = None,
    select: Mapping[str, str] | None = None,
    csv: Mapping[str, Any] | None = None,
    casts: Mapping[str, Any] | None = None,
) -> Selection:
    """Create the selection from a user's arguments; empty ones count as not set."""
    return Selection.merged(
        Casts.of(casts),
        columns=COLUMNS.checked(columns) or (),
        select=dict(SELECT.checked(select) or {}),
        csv=Dialect.of(csv),
    )


@dataclass(frozen=True, slots=True)
class LoadedColumn:
    """One column of the insert."""

    column: Column
    source: str
    source_type: str
    kept: str = ""
    is_lossy: bool = False
    null_as_default: bool = False
    altered: tuple[str, ...] = ()
    hides_nulls: bool = False
    written: str = ""
    doubt: str = ""
    depends_on: str = ""
    null: str = ""

    @property
    def looked_at(self) -> str:
        """The expression that does not fail on a text that it cannot parse."""
        return f"(\n{self.written}\n)" if self.written else self.source

    @property
    def plain(self) -> LoadedColumn:
        """The same values without the dictionary of `LowCardinality`: making one was a fifth of a proof's CPU time."""
        of = ColumnType(self.column.type)
        return (
            replace(self, column=replace(self.column, type=of.inner[0].text)) if of.name == "LowCardinality" else self
        )

    def uses(self, name: str) -> bool:
        """Return whether it is loaded from a column of this name, or its expression mentions it."""
        if not self.written:
            return name == self.column.name
        return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", self.written) is not None

    @property
    def certain(self) -> str | None:
        """Condition that the expression's value can be shown as it is in the file; None if it always can."""
        source = ColumnType(self.source_type)
        return Casting(altered=self.altered).cast(self.looked_at, source, source).holds

    @property
    def hides_struct(self) -> bool:
        """Return whether a struct of NULLs may be NULL in its file, and the column could be NULL there."""
        has_structs = any(ColumnType(self.source_type).parts("Tuple"))
        target = ColumnType(self.column.type)
        return self.hides_nulls and has_structs and (target.holds_null or "Nullable(Tuple(" in target.text)

    @property
    def is_unparsed(self) -> str:
        """Condition that the user's expression depends on a text that it cannot parse."""
        return is_unparsed(self.written) if self.written else "0"

    @property
    def cast(self) -> Cast:
        """The expression as the column's type, with the condition that nothing of the value was lost."""
        source = ColumnType(self.source_type)
        may_be_null = source.holds_null and source.bare.name == "Tuple"
        wanted = _nullable(self.column.type, has_structs=may_be_null) if self.null_as_default else self.column.type
        casting = Casting(is_lossy=self.is_lossy, altered=self.altered, hides_nulls=self.hides_nulls)
        return casting.cast(self.source, source, ColumnType(wanted))

    @property
    def holds(self) -> str | None:
        """The condition for values that fit; None if the cast fails for all others."""
        # A comparison with NULL is NULL, and throwIf() sees only the value below it.
        kept = f"ifNull({self.kept}, 1)" if self.kept else None
        return all_hold((kept, self.cast.holds))

    @property
    def misfit(self) -> str | None:
        """The condition for values that do not fit, which never fails; None for types that cannot be tested."""
        source, target = ColumnType(self.source_type), ColumnType(self.column.type)
        may_be_null = self.null_as_default or target.holds_null
        casting = Casting(OR_NULL, self.is_lossy, self.altered, self.hides_nulls)
        bad = unfit_condition(casting, self.looked_at, source, target, may_be_null=may_be_null)
        unparsed = self.is_unparsed if self.is_unparsed != "0" else None
        lost = f"NOT ifNull({self.kept}, 1)" if self.kept else None
        return " OR ".join(filter(None, (lost, unparsed, bad))) or None


@dataclass(frozen=True)
class FileGroup:
    """Files of the period that one statement reads."""

    types: Mapping[str, str]
    loaded: tuple[LoadedColumn, ...]
    #: The files; None means all that are in no other group.
    paths: frozenset[str] | None = None
    #: Column → expression for lines of JSON that lack the key.
    defaults: Mapping[str, str] = field(default_factory=dict)

    @property
    def structure(self) -> str:
        """The structure argument of the table function."""
        return structure_of(self.types, self.defaults)


def structure_of(types: Mapping[str, str], defaults: Mapping[str, str] | None = None) -> str:
    """Return names and types in the notation of a table function's structure."""
    given = {name: f" DEFAULT {expression}" for name, expression in (defaults or {}).items()}
    return ", ".join(f"{identifier(name)} {column_type}{given.get(name, '')}" for name, column_type in types.items())


def plain_columns(
    columns: Sequence[Column],
    types: Mapping[str, str],
    by_file: Mapping[str, Mapping[str, str]],
    *,
    elsewhere: Collection[str] = (),
) -> list[LoadedColumn]:
    """Load columns from those of the same name.

    A column with a DEFAULT, or an EPHEMERAL one, may be missing from all files. Any other column, or one that only some
    files have, may not be missing.
    """
    loaded = []
    for column in columns:
        missing = is_missing(column.name, by_file)
        in_none = column.name not in types
        if in_none and column.default_kind and column.name not in elsewhere:
            continue
        if missing or in_none:
            raise SourceError(missing or _is_missing(column.name, "every file", ()))
        if column.name == "_path":
            raise SourceError(
                "The files have a column '_path'. It hides ClickHouse's virtual column, which a load needs to read "
                "only the period's objects. Rename the column in the files, or load the others with columns=[…]."
            )
        loaded.append(LoadedColumn(column, identifier(column.name), types[column.name]))
    return loaded


def is_missing(name: str, by_file: Mapping[str, Iterable[str]]) -> str:
    """Return the message about a column that a file lacks; empty if all have it."""
    lacking = next(((path, tuple(names)) for path, names in by_file.items() if name not in names), None)
    return _is_missing(name, *lacking) if lacking else ""


def _is_missing(name: str, where: str, names: Sequence[str]) -> str:
    has = f" It has {', '.join(map(repr, names))}." if names else ""
    return (
        f"Column {name!r} is missing in {where}.{has}{_hint_at(name, names)} Add it there, or name the columns to "
        "load with columns=[…] or select={…}."
    )


def _hint_at(name: str, names: Sequence[str]) -> str:
    """Return why a column that is in the file may not be found."""
    if alike := alike_hint(name, names):
        return alike
    if len(names) == 1 and (delimiter := next((delimiter for delimiter in ";\t|" if delimiter in names[0]), "")):
        return f" Fields seem to be separated by {delimiter!r}: csv={{'delimiter': {delimiter!r}}}."
    if any("\r" in other for other in names):
        return " Lines seem to end with \\r alone: end them with \\n, or \\r\\n."
    if any(not other.isprintable() for other in names):
        return " It looks compressed, or has another format: set files={'compression': …} or files={'file_format': …}."
    return ""


def alike_hint(name: str, names: Iterable[str]) -> str:
    """Return a sentence if a column has nearly the same name; empty otherwise."""
    alike = [other for other in names if other.lower().strip() == name.lower() and other != name]
    return f" Names must match exactly, and {alike[0]!r} does not." if alike else ""


def _nullable(column_type: str, *, has_structs: bool = False) -> str:
    """Return the type that also holds NULL, if there is one; servers before 26 have none for Tuples."""
    if column_type.startswith("LowCardinality("):
        return f"LowCardinality({_nullable(column_type[len('LowCardinality(') : -1])})"
    if column_type.startswith("Tuple(") and not has_structs:
        return column_type
    if column_type.startswith(("Nullable(", "Array(", "Map(", "Variant(", "Dynamic", "AggregateFunction")):
        return column_type
    return f"Nullable({column_type})"


#: The keys that ClickHouse takes a name apart into.
_DEPTH = 2


def _inner_keys(name: str) -> Iterator[tuple[str, ...]]:
    """Return each way to take a name apart at its dots: an object's key, and those inside it."""
    for dot in re.finditer(r"(?<=.)\.(?=.)", name):
        outer, inner = name[: dot.start()], name[dot.end() :]
        yield outer, inner
        yield from ((outer, *keys) for keys in _inner_keys(inner))


def has_whole_objects(names: Collection[str]) -> bool:
    """Check whether ClickHouse would read one name from the object of another, and nothing for that, or miss a key.

    For `log.x.y` it looks for `x.y` inside `log`, and not for `y` inside `x`.
    """
    return any(keys[0] in names or len(keys) > _DEPTH for name in names for keys in _inner_keys(name))


def with_whole_objects(
    types: Mapping[str, str], loaded: Iterable[LoadedColumn]
) -> tuple[dict[str, str], list[LoadedColumn]]:
    """Read each object as a whole, and refuse rows with an inner key that a column of such a name would not see."""
    read, guarded = dict(types), []
    for column in loaded:
        for name, (outer, *inner) in inner_keys_of(column, types):
            text = identifier(outer)
            if read.setdefault(outer, TEXT_TYPE) not in (TEXT_TYPE, "String"):
                text = f"toJSONString({text})"
            if ColumnType(read[outer]).bare.name == "Tuple":
                raise ConfigurationError(
                    f"Columns {outer!r} and {name!r} cannot both be loaded: {outer!r} reads the object of that name, "
                    f"where {'.'.join(inner)!r} may be. Leave one out with columns=[…], or set expressions in "
                    "select={…}."
                )
            kept = f"NOT ifNull(JSONHas({text}, {literals(inner)}), 0)"
            column = replace(column, kept=all_hold((column.kept, kept)) or "")
        guarded.append(column)
    return read, guarded


def inner_keys_of(column: LoadedColumn, names: Iterable[str]) -> list[tuple[str, tuple[str, ...]]]:
    """Return the names with a dot that a column is loaded from, with each way to take them apart."""
    return [(name, keys) for name in names if column.uses(name) for keys in _inner_keys(name)]


def extract(column: LoadedColumn, outer: str, inner: Iterable[str]) -> str:
    """Return an expression for `select` that reads a column from inside an object."""
    wanted = column.column.type if ColumnType(column.column.type).bare.name in COMPOUND else TEXT_TYPE
    return f"JSONExtract({identifier(outer)}, {literals((*inner, wanted))})"


def check_apart(by_file: Mapping[str, Mapping[str, str]], loaded: Sequence[LoadedColumn], *, is_orc: bool) -> None:
    """Refuse files of Parquet and ORC in which a column may be taken for a field of another one.

    In Parquet, 25.8 then reads NULL for the field. In ORC, all read NULL for the column even if the other one has no
    fields.
    """
    for path, types in by_file.items():
        structs = [name for name, of in types.items() if is_orc or ColumnType(of).bare.name in COMPOUND]
        pairs = ((outer, name) for outer in structs for name in types if name.startswith(f"{outer}."))
        for outer, name in pairs:
            if any(column.uses(outer) or column.uses(name) for column in loaded):
                raise SourceError(
                    f"Columns {outer!r} and {name!r} in {path} cannot be told apart, as ClickHouse also takes {name!r} "
                    f"for a field of {outer!r}: rename one of them in the file, or leave out both with columns=[…]."
                )
