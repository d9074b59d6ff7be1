"""When tables are due, as their newest loads said, and when loads last found periods unchanged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from airflow_provider_chs3.core.ledger.table import ARRIVED, LOOKS
from airflow_provider_chs3.core.model.freshness import FreshBy
from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.core.sql.quoting import Sql, literal, table
from airflow_provider_chs3.core.steps.fan_out import query_reachable
from airflow_provider_chs3.core.steps.operations import Steps
from airflow_provider_chs3.core.target.topology import LOADS_TABLE
from airflow_provider_chs3.plugin.observation.ledgers import Ledgers


class Due(NamedTuple):
    """When a table is due.

    Args:
        looks: When loads found periods unchanged, in UTC.
        arrivals: When loads last looked at arrivals, in UTC; none if the table is loaded by period.
    """

    fresh_by: FreshBy
    looks: Mapping[str, datetime]
    arrivals: Mapping[str, datetime]


def look_at_due_times(ledgers: Ledgers) -> Steps[dict[TableName, Due]]:
    """Read when each table is due; those whose newest load did not say so are left out."""
    asked = {node: _query(databases) for node, databases in ledgers.loads.items() if databases}
    answers = yield from query_reachable("Find the times that tables are due", asked, ledgers.down)
    newest = dict[TableName, tuple[datetime, str]]()
    looks, arrivals = (
        defaultdict[TableName, dict[str, datetime]](dict),
        defaultdict[TableName, dict[str, datetime]](dict),
    )
    for database, name, fresh_by, at, of_periods, of_arrivals in (row for rows in answers.values() for row in rows):
        key = TableName(database, name)
        newest[key] = max(newest.get(key, (_utc(0), "")), (_utc(at), fresh_by))
        for known, found in ((looks[key], of_periods), (arrivals[key], of_arrivals)):
            known |= {period: max(_utc(seconds), known.get(period, _utc(0))) for period, seconds in found.items()}
    return {key: Due(FreshBy.recorded(text), looks[key], arrivals[key]) for key, (_, text) in newest.items() if text}


def _utc(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _query(databases: list[str]) -> Sql:
    columns = "target_database, target_table, period, event, fresh_by, recorded_at"
    loads = " UNION ALL ".join(
        f"SELECT {columns} FROM {table(TableName(database, LOADS_TABLE))} WHERE event IN {LOOKS} "
        f"OR event = {literal(ARRIVED)}"
        for database in databases
    )
    return Sql(
        "SELECT target_database, target_table, argMax(fresh_by, recorded_at), toUnixTimestamp(max(recorded_at)), "
        "maxMapIf(map(CAST(period AS String), toUnixTimestamp(recorded_at)), event = 'unchanged' AND fresh_by != ''), "
        f"maxMapIf(map(CAST(period AS String), toUnixTimestamp(recorded_at)), event = {literal(ARRIVED)}) "
        f"FROM ({loads}) GROUP BY target_database, target_table"
    )
