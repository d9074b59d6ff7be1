"""The partition key as the table evaluates it: its parts, and the time zone in which it has months."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_chs3.core.sql import Sql, identifier, literal, one_of
from airflow_provider_chs3.core.sql_text import elements, strings
from airflow_provider_chs3.core.steps import AskNodes, Steps
from airflow_provider_chs3.core.target import Surroundings
from airflow_provider_chs3.core.target_facts import Column

_DATES = ("Nullable(Date)", "LowCardinality(Date)", "LowCardinality(Nullable(Date))")


def parts_of_key(around: Surroundings, column: Column) -> Steps[tuple[str, ...]]:
    """What `partitionId` must be given so that it tells the ids that the table's partitions have.

    A tuple's id is not that of its parts, of which the table makes it. And `partitionId` takes a Nullable or
    LowCardinality Date for a Date, whose id is 20240501, where the table writes the number of the day, 19844 (seen on
    26.9).

    Args:
        around: The nodes, and the target.
        column: The one column of the key.
    """
    parts = tuple(elements(around.shape.partition_key))
    if not column.type.startswith(("Nullable(", "LowCardinality(")):
        return parts
    types = ", ".join(f"toTypeName({part})" for part in parts)
    value = f"CAST('2000-01-01' AS {column.type}) AS {identifier(column.name)}"
    sql = Sql(f"SELECT {types} FROM (SELECT {value})")
    ask = AskNodes(
        name="Ask for the types of the partition key", sql={around.coordinator: sql}, settings=around.permissions
    )
    row = (yield ask)[around.coordinator][0]
    return tuple(f"toUInt16({part})" if of in _DATES else part for part, of in zip(parts, row, strict=True))


def zones_of_key(around: Surroundings) -> Steps[tuple[str, ...]]:
    """The time zones that the key names, as in `toYYYYMM(at, 'America/New_York')`.

    Args:
        around: The nodes, and the target.
    """
    names = strings(around.shape.partition_key)
    if not names:
        return ()
    sql = Sql(f"SELECT time_zone FROM system.time_zones WHERE {one_of('time_zone', names)}")
    ask = AskNodes(name="Ask for the time zones of the partition key", sql={around.coordinator: sql})
    known = {zone for (zone,) in (yield ask)[around.coordinator]}
    return tuple(name for name in names if name in known)


def partition_ids_query(column: Column, parts: Sequence[str], instants: Sequence[str], *, zone: str | None) -> str:
    """A SELECT of instants, each with the id of its partition.

    Args:
        column: The one column of the key.
        parts: What `parts_of_key` gave.
        instants: Dates, or dates with times.
        zone: The time zone of the instants; None takes the column's.
    """
    # As one text: the server takes five times as long over an array of so many literals.
    each = f"arrayJoin(splitByChar(',', {literal(','.join(instants))})) AS chs3_instant"
    instant = f"toDateTime64(chs3_instant, 0, {literal(zone)})" if zone else "chs3_instant"
    typed = f"CAST({instant} AS {column.type}) AS {identifier(column.name)}"
    return f"SELECT chs3_instant, partitionId({', '.join(parts)}) FROM (SELECT {each}, {typed})"
