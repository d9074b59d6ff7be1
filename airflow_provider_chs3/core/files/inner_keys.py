"""Names with a dot: `log.x` is a name of its own, or `x` inside `log`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from airflow_provider_chs3.core.files.loaded_columns import LoadedColumn
from airflow_provider_chs3.core.files.text_fields import TEXT_TYPE
from airflow_provider_chs3.core.sql.column_types import COMPOUND, ColumnType
from airflow_provider_chs3.core.sql.quoting import identifier, literals
from airflow_provider_chs3.exceptions import ConfigurationError, SourceError

#: The keys that ClickHouse takes a name apart into.
_DEPTH = 2


def inner_keys(name: str) -> Iterator[tuple[str, ...]]:
    """Return each way to take a name apart at its dots: an object's key, and those inside it."""
    for dot in re.finditer(r"(?<=.)\.(?=.)", name):
        outer, inner = name[: dot.start()], name[dot.end() :]
        yield outer, inner
        yield from ((outer, *keys) for keys in inner_keys(inner))


def has_whole_objects(names: Collection[str]) -> bool:
    """Check whether ClickHouse would read one name from the object of another, and nothing for that, or miss a key.

    For `log.x.y` it looks for `x.y` inside `log`, and not for `y` inside `x`.
    """
    return any(keys[0] in names or len(keys) > _DEPTH for name in names for keys in inner_keys(name))


def with_whole_objects(
    types: Mapping[str, str], loaded: Iterable[LoadedColumn]
) -> tuple[dict[str, str], list[LoadedColumn]]:
    """Read each object as a whole, and refuse rows with an inner key that a column of such a name would not see.

    Returns:
        The types with those of the objects, and the columns with the condition.

    Raises:
        ConfigurationError: If an object is read as a Tuple, which shows none of its other keys.
    """
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
            column = replace(column, kept=f"{column.kept} AND {kept}" if column.kept else kept)
        guarded.append(column)
    return read, guarded


def inner_keys_of(column: LoadedColumn, names: Iterable[str]) -> list[tuple[str, tuple[str, ...]]]:
    """Return the names with a dot that a column is loaded from, with each way to take them apart."""
    return [(name, keys) for name in names if column.uses(name) for keys in inner_keys(name)]


def extracted(column: LoadedColumn, outer: str, inner: Iterable[str]) -> str:
    """Return an expression for `select` that reads a column from inside an object."""
    wanted = column.column.type if ColumnType(column.column.type).bare.name in COMPOUND else TEXT_TYPE
    return f"JSONExtract({identifier(outer)}, {literals((*inner, wanted))})"


def check_apart(by_file: Mapping[str, Mapping[str, str]], loaded: Sequence[LoadedColumn], *, is_orc: bool) -> None:
    """Refuse files of Parquet and ORC in which a column may be taken for a field of another one.

    In Parquet, 25.8 then reads NULL for the field. In ORC, all read NULL for the column even if the other one has no
    fields.

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
