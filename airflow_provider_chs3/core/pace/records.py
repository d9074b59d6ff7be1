"""Read a table's past loads from its ledger."""

from __future__ import annotations

from airflow_provider_chs3.core.cluster.node_facts import TargetContext
from airflow_provider_chs3.core.ledger.table import LedgerKey
from airflow_provider_chs3.core.pace.past_loads import Pace, PastLoad
from airflow_provider_chs3.core.sql.quoting import Sql, literal, table
from airflow_provider_chs3.core.values.period import WHOLE_TABLE
from airflow_provider_chs3.core.workflow.operations import Steps

#: A period of nights, or of periods of a backfill.
_MOST_LOADS = 30


def read_pace(context: TargetContext, *, but: str = "") -> Steps[Pace]:
    """Read the newest loads of a table from the coordinator, which has the table of loads.

    Args:
        context: The table and its nodes.
        but: An attempt that does not count. None by default.
    """
    of_table = LedgerKey.on(context, context.coordinator, WHOLE_TABLE).table_condition
    sql = Sql(
        "SELECT loaded_bytes, source_bytes, table_bytes, CAST(seconds_by_step AS Array(Tuple(String, Float64))) "
        f"FROM {table(context.loads)} WHERE {of_table} AND event = 'load' AND attempt != {literal(but)} "
        f"AND loaded_bytes > 0 ORDER BY recorded_at DESC LIMIT {_MOST_LOADS}"
    )
    rows = yield from context.on_coordinator(name="Look up how long loads of the table took", sql=sql)
    return Pace([PastLoad(loaded, source, in_table, dict(steps)) for loaded, source, in_table, steps in rows])
