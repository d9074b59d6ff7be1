"""Read values as their files declare them, where servers read them otherwise, and refuse those that they alter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from airflow_provider_chs3.core.files.field_values import FieldValues, over, used_fields
from airflow_provider_chs3.core.files.loaded_columns import LoadedColumn
from airflow_provider_chs3.core.files.parquet_footers import FooterSchema
from airflow_provider_chs3.core.sql.casts import Casting
from airflow_provider_chs3.core.sql.column_types import COMPOUND, ColumnType
from airflow_provider_chs3.core.sql.quoting import identifier
from airflow_provider_chs3.core.sql.server_casts import ALTERATIONS, Cast, all_hold
from airflow_provider_chs3.core.target.table_facts import Column

#: Alterations by readers, by format; Parquet's footers declare them for each column.
_OF_READERS: Mapping[str, tuple[str, ...]] = {"Arrow": ("date64",), "ORC": ("saturated",)}
_OF_OLDER_READERS: Mapping[str, tuple[str, ...]] = {"Arrow": ("date64", "half"), "ORC": ("wrapped",)}
_NANOSECONDS = 9
_WRAPPERS = ("Nullable", "LowCardinality", *COMPOUND)


@dataclass(frozen=True, kw_only=True)
class DeclaredValues:
    """Declarations in files about their columns, beside the types as which servers read them."""

    fields: FieldValues
    types: Mapping[str, str]
    declared: Mapping[str, str]
    altered: Mapping[str, tuple[str, ...]]

    def of_columns(self, loaded: Iterable[LoadedColumn]) -> Iterator[LoadedColumn]:
        """Load columns as they are declared."""
        for loaded_column in loaded:
            name = loaded_column.column.name
            column = replace(loaded_column, altered=self.altered.get(name, ()), doubt=self._doubt((name,)))
            if name in self.declared:
                column = replace(column, source=self._as_declared(name), source_type=self.declared[name])
            yield column

    def of_expression(self, column: Column, expression: str, used: Iterable[str]) -> Cast:
        """Return an expression over columns as they are declared; see `FieldValues`."""
        used = list(used)
        made = self.fields(column, expression, used)
        names = used_fields(used, self.types)
        apart = {name: self._as_declared(name) for name in names if name in self.declared}
        kept = (f"ifNull({holds}, 1)" for name in names if (holds := self._kept(name)))
        return Cast(over(made.value, apart) if apart else made.value, all_hold((made.holds, *kept)))

    def with_doubts(self, loaded: Iterable[LoadedColumn]) -> list[LoadedColumn]:
        """Return expressions with what messages have for a value of theirs that was altered."""
        return [
            replace(loaded_column, doubt=self._doubt(name for name in self.types if loaded_column.uses(name)))
            for loaded_column in loaded
        ]

    def _kept(self, name: str) -> str | None:
        of, alterations = ColumnType(self.types[name]), self.altered.get(name)
        return Casting(altered=alterations).cast(identifier(name), of, of).holds if alterations else None

    def _as_declared(self, name: str) -> str:
        read, declared = ColumnType(self.types[name]), ColumnType(self.declared[name])
        return Casting().cast(identifier(name), read, declared).value

    def _doubt(self, names: Iterable[str]) -> str:
        alterations = (alteration for name in names for alteration in self.altered.get(name, ()))
        return next((ALTERATIONS[alteration].shown for alteration in alterations), "")


def with_uuids(types: Mapping[str, str], schema: FooterSchema) -> dict[str, str]:
    """Return the columns of a file of Parquet with UUIDs where its footer declares them, and the server gives bytes."""
    parsed = {name: ColumnType(of) for name, of in types.items()}
    if sum(1 for of in parsed.values() for _ in of.parts("FixedString")) != len(schema.bytes_as):
        # A server that knows UUIDs gives no bytes for them.
        return dict(types)
    declared = iter(schema.bytes_as)
    return {name: _with_uuids(of, declared).text for name, of in parsed.items()}


def _with_uuids(of: ColumnType, declared: Iterator[str]) -> ColumnType:
    if of.name == "FixedString":
        return ColumnType("UUID") if next(declared) == "UUID" else of
    if of.name not in _WRAPPERS or not any(of.parts("FixedString")):
        return of
    inner = [_with_uuids(inner, declared) for inner in of.inner]
    # Servers write types of structs in several lines: as they are, they stay equal to themselves.
    return of if inner == list(of.inner) else of.with_inner(inner)


def alterations_of(
    types: Mapping[str, str], file_format: str, schema: FooterSchema | None, *, has_older_readers: bool
) -> dict[str, tuple[str, ...]]:
    """Return what the reader may have altered in each column of a file: column → keys of `ALTERATIONS`."""
    of_all = _OF_OLDER_READERS if has_older_readers else _OF_READERS
    halves = schema.halves if schema and has_older_readers else frozenset()
    altered = dict[str, tuple[str, ...]]()
    for name, of in types.items():
        parsed, candidates = ColumnType(of), ("half",) if name in halves else of_all.get(file_format, ())
        if apt := tuple(alteration for alteration in candidates if _is_altered(parsed, alteration)):
            altered[name] = apt
    return altered


def _is_altered(of: ColumnType, alteration: str) -> bool:
    # Coarser times of ORC were read with all their years.
    parts = of.parts(ALTERATIONS[alteration].type)
    return any(part.scale == _NANOSECONDS or alteration != "saturated" for part in parts)
