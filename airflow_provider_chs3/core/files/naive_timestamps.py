"""Interpret timestamps of files that have no zone, in the zone of their column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from airflow_provider_chs3.core.conversion.column_types import ColumnType
from airflow_provider_chs3.core.files.file_kinds import FileKind
from airflow_provider_chs3.core.files.loaded_columns import LoadedColumn
from airflow_provider_chs3.core.sql.quoting import Sql, literal
from airflow_provider_chs3.core.workflow.operations import Query, Steps
from airflow_provider_chs3.exceptions import SourceError

_TIMES = ("DateTime", "DateTime64")
_UTC = ("UTC", "Etc/UTC", "GMT", "Etc/GMT", "Zulu", "UCT", "Universal", "Etc/Universal", "Etc/Zulu", "Etc/UCT")


def with_zones(
    loaded: Sequence[LoadedColumn], kind: FileKind, naive_timestamps: str | None
) -> Steps[list[LoadedColumn]]:
    """Read timestamps without a zone as the user says, if the zone of their column is not UTC.

    ClickHouse takes them as UTC, while it takes the same time in a CSV file as one of the column's zone.

    Args:
        loaded: The columns that are loaded from the files.
        kind: The files.
        naive_timestamps: `utc`, `column_zone`, or None, which refuses them.

    Raises:
        SourceError: If nobody says what they mean.
    """
    asked = [each for each in loaded if each.column.name in kind.naive]
    if all(time.time_zone for each in asked for time in ColumnType(each.column.type).times()):
        server_zone = "UTC"
    else:
        rows = yield from Query(name="Ask for the server's time zone", sql=Sql("SELECT serverTimezone()"))
        server_zone = str(rows[0][0])
    return [
        _with_zone(each, kind, naive_timestamps, server_zone) if each.column.name in kind.naive else each
        for each in loaded
    ]


def _is_time(each: LoadedColumn) -> bool:
    return ColumnType(each.column.type).bare.name in _TIMES


def _with_zone(each: LoadedColumn, kind: FileKind, naive_timestamps: str | None, server_zone: str) -> LoadedColumn:
    source = ColumnType(each.source_type).bare
    if source.name != "DateTime64":
        return _of_nested(each, kind, naive_timestamps, server_zone)
    zone = ColumnType(each.column.type).bare.time_zone or server_zone
    utc = replace(
        each,
        source=f"toTimeZone({each.source}, 'UTC')",
        source_type=f"Nullable(DateTime64({source.scale}, 'UTC'))",
    )
    if not _is_time(each) or zone in _UTC or naive_timestamps == "utc":
        return utc
    if naive_timestamps is None:
        raise SourceError(_what_zone(each, kind, zone))
    wanted = f"Nullable(DateTime64({source.scale}, {literal(zone)}))"
    # What stands under a NULL is cast as well, and must fit the column in any zone.
    some = f"ifNull({utc.source}, toDateTime64('2000-01-01 00:00:00', {source.scale}, 'UTC'))"
    local = f"if(isNull({utc.source}), NULL, CAST(toString({some}), {literal(wanted)}))"
    # An hour that the clocks skip in spring has no moment in the zone.
    return replace(each, source=local, source_type=wanted, kept=f"toString({local}) = toString({utc.source})")


def _of_nested(each: LoadedColumn, kind: FileKind, naive_timestamps: str | None, server_zone: str) -> LoadedColumn:
    zones = {time.time_zone or server_zone for time in ColumnType(each.column.type).times()}
    others = sorted(zones.difference(_UTC))
    if not others or naive_timestamps == "utc":
        return each
    if naive_timestamps is None:
        raise SourceError(_what_zone(each, kind, others[0]))
    raise SourceError(
        f"Column {each.column.name!r} in {kind.example} has timestamps without a zone inside of {each.column.type}: "
        "naive_timestamps='column_zone' is for columns that are timestamps themselves. Give the column in select={…}."
    )


def _what_zone(each: LoadedColumn, kind: FileKind, zone: str) -> str:
    return (
        f"Column {each.column.name!r} in {kind.example} has timestamps without a zone, and is {each.column.type}, of "
        f"{zone}: say with naive_timestamps='utc' or naive_timestamps='column_zone' what they mean, or give the column "
        "in select={…}."
    )
