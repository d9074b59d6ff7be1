"""Records of loads that nobody ran."""

from __future__ import annotations

from airflow_provider_chs3.core.sql.quoting import literal
from tests.support.lake import Lake


def remember_loads(lake: Lake, *, table: str, insert_seconds: list[int]) -> None:
    """Records of so many earlier loads of a table, an hour apart, as copies of its own."""
    loads = f"{lake.database}.chs3_loads"
    values = {
        "recorded_at": "recorded_at - toIntervalHour(number)",
        "attempt": "toString(number)",
        "loaded_rows": "60000",
        "parts": "3",
        "peak_memory_bytes": "intDiv(memory_bytes, 5)",
        "loaded_objects": "objects",
        "loaded_bytes": "source_bytes * 100",
        "insert_seconds": "took",
        "seconds_by_step": "map('list', 1.5, 'insert', toFloat64(took), 'verify', 2., 'publish', 0.5)",
    }
    lake.on_node(
        0,
        f"INSERT INTO {loads} SELECT * EXCEPT (number, took) REPLACE "
        f"({', '.join(f'{value} AS {name}' for name, value in values.items())}) "
        f"FROM (SELECT * FROM {loads} WHERE event = 'load' AND target_table = {literal(table)}) AS one "
        f"CROSS JOIN (SELECT number, {insert_seconds}[number] AS took "
        f"FROM numbers(1, {len(insert_seconds)})) AS earlier",
    )
