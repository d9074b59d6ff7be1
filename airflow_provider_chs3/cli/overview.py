"""The overview of all tables behind a connection, and their costs."""

from __future__ import annotations

import logging
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.cli.tables import size
from airflow_provider_chs3.client.runner import Runner
from airflow_provider_chs3.core.arguments.merge_arguments import Thresholds
from airflow_provider_chs3.core.model.freshness import Freshness
from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.core.model.quantities import duration_text
from airflow_provider_chs3.exceptions import PreflightError
from airflow_provider_chs3.plugin.observation.period_state import HOLDS_ITS_ROWS, PeriodState
from airflow_provider_chs3.plugin.observation.periods import TableOverview
from airflow_provider_chs3.plugin.observation.periods_facts import look_at_all_tables
from airflow_provider_chs3.plugin.observation.running_inserts import TasksOfLoads
from airflow_provider_chs3.plugin.observation.speed.costs import find_costs
from airflow_provider_chs3.plugin.observation.tables import judge_tables

if TYPE_CHECKING:
    from airflow_provider_chs3.client.session import Session

_LOG = logging.getLogger(__name__)
#: States that are no reason to act.
_FINE = (*HOLDS_ITS_ROWS, PeriodState.NEVER_LOADED, PeriodState.LOADING)
TABLES_HEADER = ["table", "periods", "rows", "newest", "published (UTC)", "freshness", "not as published"]
COSTS_HEADER = ["table", "loads", "read", "rows", "node time"]


def show_tables(session: Session, cluster: str | None) -> tuple[list[list[object]], list[dict[str, Any]], bool]:
    """Return a row for each table that has a ledger, the same as values, and whether nothing is to be done.

    Raises:
        Chs3Error: If a node does not answer, or ledgers of another version are left out.
    """
    runner = Runner(session=session, listing=None, log=_LOG)
    seen = runner.run(look_at_all_tables(cluster or session.options.cluster))
    if seen.down or seen.unread:
        raise PreflightError(*(f"{node}: {error}" for node, error in seen.down.items()), *filter(None, [seen.unread]))
    nothing = TasksOfLoads(at_work={}, failed=())
    judged = runner.run(judge_tables(seen, tasks=nothing, thresholds=Thresholds(), at=datetime.now(UTC)))
    values = [_table_as_json(name, of_table) for name, of_table in judged.items()]
    rows = [_shown(value, judged[name].freshness) for name, value in zip(judged, values, strict=True)]
    is_late = any(table.freshness and not table.freshness.is_fresh for table in judged.values())
    return rows, values, not is_late and not any(value["states"] for value in values)


def _table_as_json(name: TableName, of_table: TableOverview) -> dict[str, Any]:
    periods, unread, freshness = of_table
    counts = Counter(period.state for period in periods)
    published = [period for period in periods if period.published_at]
    return {
        "database": name.database,
        "table": name.table,
        "periods": len(published) + unread.published,
        "rows": sum(period.rows for period in periods) + unread.rows,
        "newest": max((period.period for period in published), default=unread.newest),
        "published_at": max([period.published_at for period in published], default=unread.published_at),
        "freshness": freshness.as_json() if freshness else None,
        "states": {state.value: count for state, count in counts.items() if state not in _FINE},
    }


def _shown(value: dict[str, Any], freshness: Freshness | None) -> list[object]:
    states = ", ".join(f"{count:,} {state.replace('_', ' ')}" for state, count in value["states"].items())
    name = f"{value['database']}.{value['table']}"
    return [name, value["periods"], value["rows"], value["newest"], value["published_at"], freshness or "", states]


def show_costs(
    session: Session, cluster: str | None, *, days: int, only: TableName | None = None
) -> tuple[list[list[object]], list[dict[str, Any]]]:
    """Return the cost of each table as a row, and as values.

    Args:
        session: The connection.
        cluster: The cluster; None for the connection's.
        days: How many days back.
        only: The table; None for all.

    Raises:
        Chs3Error: If a node does not answer.
    """
    costs = Runner(session=session, listing=None, log=_LOG).run(
        find_costs(cluster or session.options.cluster, days=days)
    )
    shown = [cost for cost in costs if only in (None, TableName(cost.database, cost.table))]
    rows: list[list[object]] = [
        [
            f"{cost.database}.{cost.table}",
            cost.loads,
            size(cost.read_bytes),
            cost.rows,
            duration_text(cost.node_seconds),
        ]
        for cost in shown
    ]
    return rows, [cost.model_dump() for cost in shown]
