"""Read a table's past loads from its ledger."""

from __future__ import annotations

from airflow_provider_chs3.core.ledger.table import LedgerKey
from airflow_provider_chs3.core.pace.past_loads import Pace, PastLoad
from airflow_provider_chs3.core.sql.quoting import Sql, literal, table
from airflow_provider_chs3.core.values.models import Node, TableName
from airflow_provider_chs3.core.workflow.operations import QueryNodes, Steps

#: A period of nights, or of periods of a backfill.
_MOST_LOADS = 30


def read_pace(loads: TableName, key: LedgerKey, coordinator: Node, *, but: str = "") -> Steps[Pace]:
    """Read the newest loads of a table from the node that records them.

    Args:
        loads: The table of loads, which exists there.
        key: The key of any period of the table.
        coordinator: The node.
        but: An attempt that does not count. None by default.
    """
    sql = Sql(
        "SELECT loaded_bytes, source_bytes, table_bytes, CAST(seconds_by_step AS Array(Tuple(String, Float64))) "
        f"FROM {table(loads)} WHERE {key.table_condition} AND event = 'load' AND attempt != {literal(but)} "
        f"AND loaded_bytes > 0 ORDER BY recorded_at DESC LIMIT {_MOST_LOADS}"
    )
    answers = yield from QueryNodes(name="Look up how long loads of the table took", sql={coordinator: sql})
    return Pace(
        [
            PastLoad(loaded_bytes, source_bytes, table_bytes, dict(steps))
            for loaded_bytes, source_bytes, table_bytes, steps in answers[coordinator]
        ]
    )
