"""Read values as their files declare them, where servers read them otherwise, and refuse those that they alter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_provider_chs3.core.files.field_values import FieldValues, over, used_fields
from airflow_provider_chs3.core.files.loaded_columns import LoadedColumn
from airflow_provider_chs3.core.files.parquet_footers import FooterSchema
from airflow_provider_chs3.core.sql.casts import Casting
from airflow_provider_chs3.core.sql.column_types import COMPOUND, ColumnType
from airflow_provider_chs3.core.sql.quoting import identifier, literal
from airflow_provider_chs3.core.sql.server_casts import ALTERATIONS, TIMES, Cast, all_hold
from airflow_provider_chs3.core.target.table_facts import Column, is_utc
from airflow_provider_chs3.exceptions import SourceError

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


@dataclass(frozen=True, kw_only=True)
class NaiveTimestamps:
    """The timestamps without a zone of some files, and what they mean: they are read as UTC, as the files show them."""

    names: frozenset[str]
    types: dict[str, str]
    example: str
    meaning: str | None
    zone: str

    def with_zones(self, loaded: Iterable[LoadedColumn]) -> list[LoadedColumn]:
        """Read columns as the user says, if the zone of their column is not UTC.

        ClickHouse takes such timestamps as UTC, while it takes the same time in a CSV file as one of the column's zone.
        """
        return [
            self._with_zone(loaded_column) if loaded_column.column.name in self.names else loaded_column
            for loaded_column in loaded
        ]

    def _with_zone(self, loaded: LoadedColumn) -> LoadedColumn:
        name = loaded.column.name
        if (zone := self._zone_for(loaded.column, (name,))) is None:
            return loaded
        local = self._local(name, zone)
        wanted = f"Nullable(DateTime64({ColumnType(self.types[name]).bare.scale}, {literal(zone)}))"
        return replace(loaded, source=local.value, source_type=wanted, kept=local.holds or "")

    def of_expression(self, column: Column, expression: str, used: Iterable[str]) -> Cast:
        """Return an expression of the user's over the local times of its column's zone, if that is what they mean.

        With it comes the condition that each local time exists; none if it always does.
        """
        names = used_fields(used, self.names & self.types.keys())
        if not names or (zone := self._zone_for(column, names)) is None:
            return Cast(expression)
        locals_ = {name: self._local(name, zone) for name in names}
        made = over(expression, {name: local.value for name, local in locals_.items()})
        return Cast(made, " AND ".join(f"ifNull({local.holds}, 1)" for local in locals_.values()))

    def _zone_for(self, column: Column, names: Sequence[str]) -> str | None:
        """Return the zone in which they are local times; None if they are UTC, or the column knows no zones."""
        zones = {time.time_zone or self.zone for time in ColumnType(column.type).times()}
        others = sorted(zone for zone in zones if not is_utc(zone))
        if not others or self.meaning == "utc":
            return None
        nested = next((name for name in names if ColumnType(self.types[name]).bare.name != "DateTime64"), "")
        is_plain = len(others) == len(zones) == 1 and ColumnType(column.type).bare.name in TIMES and not nested
        if self.meaning and is_plain:
            return others[0]
        raise SourceError(self._explain_zone(column, nested or names[0], others[0], is_plain=is_plain))

    def _local(self, name: str, zone: str) -> Cast:
        """Return the moment at which clocks of a zone show what is in the file, and that they do."""
        column, scale = identifier(name), ColumnType(self.types[name]).bare.scale
        wanted = f"Nullable(DateTime64({scale}, {literal(zone)}))"
        # The value under a NULL is cast as well, and must fit the column in any zone.
        filled = f"ifNull({column}, toDateTime64('2000-01-01 00:00:00', {scale}, 'UTC'))"
        local = f"if(isNull({column}), NULL, CAST(toString({filled}), {literal(wanted)}))"
        # An hour that the clocks skip in spring has no moment in the zone.
        return Cast(local, f"toString({local}) = toString({column})")

    def _explain_zone(self, column: Column, name: str, zone: str, *, is_plain: bool) -> str:
        if not is_plain:
            return (
                f"Column {name!r} in {self.example} has timestamps without a zone, and {column.name!r} is "
                f"{column.type}: casts={{'naive_timestamps': 'column_zone'}} works only for columns that are "
                "timestamps themselves. If they are in UTC, set casts={'naive_timestamps': 'utc'}; if not, set also "
                "an expression in select={…} that names their zone."
            )
        select = {column.name: f"toDateTime64(toString({identifier(name)}), 6, 'America/New_York')"}
        return (
            f"Column {name!r} in {self.example} has timestamps without a zone, and {column.name!r} is {column.type}, "
            f"in {zone}: set casts={{'naive_timestamps': 'utc'}} or 'column_zone', whichever is their zone. If "
            f"neither is, set casts={{'naive_timestamps': 'utc'}} and an expression such as select={select}."
        )
