"""Names with a dot: `log.x` is a name of its own, or `x` inside `log`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from airflow_provider_chs3.core.conversion.column_types import COMPOUND, ColumnType
from airflow_provider_chs3.core.files.loaded_columns import LoadedColumn
from airflow_provider_chs3.core.files.text_fields import TEXT_TYPE
from airflow_provider_chs3.core.sql.quoting import identifier, literal
from airflow_provider_chs3.exceptions import ConfigurationError, SourceError


def inner_key(name: str) -> tuple[str, str] | None:
    """Return the object's key and the one inside it, as ClickHouse takes a name apart; None if it does not.

    Args:
        name: A column's name.
    """
    outer, _, inner = name.partition(".")
    return (outer, inner) if outer and inner else None


def has_whole_objects(names: Collection[str]) -> bool:
    """Check whether one name is the object of another: ClickHouse would read the other from it, and nothing for it.

    Args:
        names: Those of the columns that are loaded.
    """
    return any(key[0] in names for key in map(inner_key, names) if key)


def with_whole_objects(
    types: Mapping[str, str], loaded: Iterable[LoadedColumn]
) -> tuple[dict[str, str], list[LoadedColumn]]:
    """Read each object as a whole, and refuse rows with an inner key that a column of such a name would not see.

    Args:
        types: Column → the type as which it is read.
        loaded: The columns that are loaded from them.

    Returns:
        The types with those of the objects, and the columns with the condition.

    Raises:
        ConfigurationError: If an object is read as a Tuple, which shows none of its other keys.
    """
    read, guarded = dict(types), []
    for column in loaded:
        for name, (outer, inner) in inner_keys_of(column, types).items():
            text = identifier(outer)
            if read.setdefault(outer, TEXT_TYPE) not in (TEXT_TYPE, "String"):
                text = f"toJSONString({text})"
            if ColumnType(read[outer]).bare.name == "Tuple":
                raise ConfigurationError(
                    f"Columns {outer!r} and {name!r} cannot both be loaded: {outer!r} reads the object of that name, "
                    f"where {inner!r} may be. Leave one out with columns=[…], or give expressions in select={{…}}."
                )
            kept = f"NOT ifNull(JSONHas({text}, {literal(inner)}), 0)"
            column = replace(column, kept=f"{column.kept} AND {kept}" if column.kept else kept)
        guarded.append(column)
    return read, guarded


def inner_keys_of(column: LoadedColumn, names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return the names with a dot that a column is loaded from, each with both of its keys.

    Args:
        column: The column.
        names: Those of the files' columns.
    """
    return {name: key for name in names if (key := inner_key(name)) and column.uses(name)}


def extracted(column: LoadedColumn, outer: str, inner: str) -> str:
    """Return an expression for `select` that reads a column from inside an object.

    Args:
        column: The column.
        outer: The object's key.
        inner: The key inside it.
    """
    wanted = column.column.type if ColumnType(column.column.type).bare.name in COMPOUND else TEXT_TYPE
    return f"JSONExtract({identifier(outer)}, {literal(inner)}, {literal(wanted)})"


def check_apart(by_file: Mapping[str, Mapping[str, str]], loaded: Sequence[LoadedColumn], *, is_orc: bool) -> None:
    """Refuse files of Parquet and ORC in which a column may be taken for a field of another one.

    Of Parquet, 25.8 then reads NULL for the field. Of ORC, all read NULL for the column even if the other one has no
    fields.

    Args:
        by_file: File → its columns: name → type.
        loaded: The columns that are loaded.
        is_orc: Whether they are ORC.

    Raises:
        SourceError: If one of the two is loaded; it names the file.
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
