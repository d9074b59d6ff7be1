"""Read what earlier loads of a table recorded for the next one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from airflow_provider_chs3.core.files.file_groups import Reading
from airflow_provider_chs3.core.load.period_load import PeriodLoad
from airflow_provider_chs3.core.sql.quoting import Sql, literal, table
from airflow_provider_chs3.core.steps.operations import Row, Steps

#: Loads that must have read their files alike: if types change now and then, loads would often start over.
_LOADS_ALIKE = 3
#: The recorded reading of files that differ from each other.
_NOT_ALIKE = "[]"


@dataclass(frozen=True, kw_only=True, slots=True)
class TableHistory:
    """The history of a table, from the first node's ledger.

    Args:
        memory_steps: How often the newest load lowered its need of memory.
        memory_bytes: Memory available to that load.
        expected: The reading of files like those of the newest loads, with estimated rows and bytes; None without
            such loads, or if their files differed.
    """

    memory_steps: int = 0
    memory_bytes: int = 0
    expected: Reading | None = None


def read_history(load: PeriodLoad) -> Steps[TableHistory]:
    """Read the table's history from the first node's ledger."""
    context = load.context
    if not context.nodes[context.coordinator].has_loads:
        return TableHistory()
    ask = context.on_coordinator(name="Look up earlier loads of the table", sql=_history_query(load))
    ((loads, readings),) = yield from ask
    memory_steps, memory_bytes = loads[0] if loads else (0, 0)
    return TableHistory(
        memory_steps=memory_steps,
        memory_bytes=memory_bytes,
        expected=_expected(load, readings),
    )


def _expected(load: PeriodLoad, rows: Sequence[Row]) -> Reading | None:
    if len({text for text, *_ in rows}) != 1 or rows[0][0] == _NOT_ALIKE:
        return None
    text, row_count, size_bytes, uncompressed_bytes = rows[0]
    reading, times = Reading.of_json(json.loads(text)), load.files.manifest.size_bytes / max(size_bytes, 1)
    if not {loaded_column.column for loaded_column in reading.loaded} <= {*load.context.table_facts.columns}:
        return None
    return replace(reading, rows=round(row_count * times), uncompressed_bytes=round(uncompressed_bytes * times))


def values_of_reading(load: PeriodLoad, reading: Reading) -> dict[str, str | int]:
    """Return the values of a load's record that let the next load expect its files."""
    is_typed = load.files.format.name == "Parquet" and bool(reading.groups)
    text = reading.of_others.as_text if reading.of_others else _NOT_ALIKE
    return {"reading": text if is_typed else "", "uncompressed_bytes": reading.uncompressed_bytes or 0}


def _history_query(load: PeriodLoad) -> Sql:
    context, key = load.context, load.key_on(load.context.coordinator)
    newest_load = (
        f"SELECT memory_steps, memory_bytes FROM {table(context.loads)} "
        f"WHERE {key.table_condition} AND event = 'load' ORDER BY recorded_at DESC LIMIT 1"
    )
    newest_readings = (
        f"SELECT reading, loaded_rows, loaded_bytes, uncompressed_bytes FROM {table(context.loads)} "
        f"WHERE {key.table_condition} AND event = 'load' AND definition = {literal(load.request.definition)} "
        f"AND reading != '' ORDER BY recorded_at DESC LIMIT {_LOADS_ALIKE}"
    )
    return Sql(f"SELECT ({_as_array(newest_load)}), ({_as_array(newest_readings)})")


def _as_array(select: str) -> str:
    # clickhouse-driver cannot read a tuple from a sub-query, which is a Nullable(Tuple(…)).
    columns, rest = select.removeprefix("SELECT ").split(" FROM ", 1)
    return f"SELECT groupArray(found) FROM (SELECT ({columns}) AS found FROM {rest})"
