"""Interpret timestamps of files that have no zone, in the zone of their column.

Files that carry types are read with UTC for each such timestamp, so that it shows what is written in the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from airflow_provider_chs3.core.files.field_values import over, used_fields
from airflow_provider_chs3.core.files.file_kinds import FileKind
from airflow_provider_chs3.core.files.loaded_columns import LoadedColumn
from airflow_provider_chs3.core.sql.column_types import ColumnType
from airflow_provider_chs3.core.sql.quoting import identifier, literal
from airflow_provider_chs3.core.sql.server_casts import TIMES, Cast
from airflow_provider_chs3.core.target.table_facts import Column, is_utc
from airflow_provider_chs3.exceptions import SourceError


@dataclass(frozen=True, kw_only=True)
class NaiveTimestamps:
    """The timestamps without a zone of some files, and what they mean."""

    names: frozenset[str]
    types: dict[str, str]
    example: str
    meaning: str | None
    zone: str

    @classmethod
    def of(cls, kinds: Sequence[FileKind], types: dict[str, str], *, meaning: str | None, zone: str) -> NaiveTimestamps:
        """Create those of kinds of files that are read together."""
        names = frozenset[str]().union(*(kind.naive for kind in kinds))
        return cls(names=names, types=types, example=kinds[0].example, meaning=meaning, zone=zone)

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
