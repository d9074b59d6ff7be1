"""Check that the fields of files' structs are the elements of the table's Tuples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from airflow_provider_chs3.core.files.loaded_columns import LoadedColumn
from airflow_provider_chs3.core.files.source import Source
from airflow_provider_chs3.core.sql.casts import CONTAINERS, elements_of, has_elements_of, shape_for
from airflow_provider_chs3.core.sql.column_types import COMPOUND, ColumnType
from airflow_provider_chs3.core.sql.quoting import identifier
from airflow_provider_chs3.core.sql.server_casts import TEXTS
from airflow_provider_chs3.core.target.table_facts import Column
from airflow_provider_chs3.exceptions import ConfigurationError, SourceError


def check_elements(columns: Iterable[Column], by_file: Mapping[str, Mapping[str, str]]) -> None:
    """Refuse structs that lack a field for a named element of their column."""
    for column in columns:
        for path, types in by_file.items():
            if lacking := _lacking(ColumnType(types[column.name]), ColumnType(column.type)):
                raise SourceError(
                    f"Column {column.name!r} in {path} lacks the element {', '.join(lacking)} of {column.type}: fix "
                    "the file, or set the column in select={…}."
                )


def with_fields(types: Mapping[str, str], columns: Iterable[Column]) -> dict[str, str]:
    """Return the columns of a file with a list of structs taken apart, where the table has a Nested of its name.

    The readers of ClickHouse know the field `x` of such a list `n` as `n.x`, too.
    """
    names = {column.name for column in columns}
    apart = dict(types)
    for name, of in types.items():
        fields = {} if name in names else {f"{name}.{label}": inner for label, inner in _fields(ColumnType(of))}
        if taken := {field: of_field for field, of_field in fields.items() if field in names - types.keys()}:
            del apart[name]
            apart |= taken
    return apart


def _fields(of: ColumnType) -> Iterator[tuple[str, str]]:
    struct = of.inner[0].bare if of.name == "Array" else of
    if of.name == "Array" and struct.name == "Tuple":
        for label, inner in zip(struct.labels, struct.inner, strict=False):
            yield label, f"Array({inner})"


def check_orders(by_file: Iterable[tuple[str, Sequence[LoadedColumn]]]) -> None:
    """Refuse structs with the same fields in different orders for a Tuple without names: values would swap places."""
    orders: dict[object, tuple[str, tuple[str, ...]]] = {}
    for path, loaded in by_file:
        for loaded_column in loaded:
            name, column_type = loaded_column.column.name, loaded_column.column.type
            for place, labels in _find_positions("", ColumnType(loaded_column.source_type), ColumnType(column_type)):
                first, order = orders.setdefault((name, place, frozenset(labels)), (path, labels))
                if labels != order:
                    raise SourceError(
                        f"Column {name!r} is {column_type}, whose elements have no names, and the fields of its "
                        f"structs are {', '.join(map(identifier, order))} in {first}, but "
                        f"{', '.join(map(identifier, labels))} in {path}. Name the elements in the table, write all "
                        "files in one order, or set the column in select={…}."
                    )


def check_no_containers(loaded: Iterable[LoadedColumn], source: Source) -> None:
    """Refuse containers of a source that knows its columns: databases write arrays and rows in ways of their own."""
    columns = {column.name: column for column in source.known_columns}
    for column in (loaded_column.column for loaded_column in loaded):
        bare, of = ColumnType(column.type).bare, columns[column.name]
        is_text = bare.name in COMPOUND and ColumnType(of.clickhouse_type).bare.name not in COMPOUND
        if is_text or (of.is_container and bare.name not in TEXTS):
            raise ConfigurationError(
                f"Column {column.name!r} is {column.type}, but {of.type} in "
                f"{source.place}: only a String can hold its text. Set an expression with select={{…}}, or leave "
                "the column out with columns=[…]."
            )


def _find_positions(place: str, source_type: ColumnType, target: ColumnType) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Find where values of structs are taken in the order of their fields, and that order."""
    source_type = source_type.bare
    target = shape_for(source_type, target.bare)
    if source_type.name != target.name or source_type.name not in CONTAINERS:
        return
    if source_type.name != "Tuple":
        for number, (source, wanted) in enumerate(zip(source_type.inner, target.inner, strict=True)):
            yield from _find_positions(f"{place}[{number}]", source, wanted)
        return
    if source_type.labels and not target.labels:
        yield place, source_type.labels
    for inner, source, wanted in (
        elements_of(place, source_type, target) if has_elements_of(source_type, target) else ()
    ):
        yield from _find_positions(inner, source, wanted)


def _lacking(source_type: ColumnType, target: ColumnType) -> tuple[str, ...]:
    """Return the named elements of a Tuple that the source lacks, at any depth; they would become defaults silently."""
    source_type, target = source_type.bare, target.bare
    if source_type.name != target.name or source_type.name not in CONTAINERS:
        return ()
    if source_type.name != "Tuple":
        pairs = zip(source_type.inner, target.inner, strict=False)
        return tuple(name for source, wanted in pairs for name in _lacking(source, wanted))
    by_label = dict(zip(source_type.labels, source_type.inner, strict=False))
    if not by_label or not target.labels:
        return ()
    return tuple(
        name
        for label, wanted in zip(target.labels, target.inner, strict=True)
        for name in ((identifier(label),) if label not in by_label else _lacking(by_label[label], wanted))
    )
