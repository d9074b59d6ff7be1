"""The overview of all tables behind a connection, and their costs."""

from __future__ import annotations

import argparse
import logging
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from airflow_provider_chs3.cli.loads import ChosenLoad, hook_of
from airflow_provider_chs3.cli.reports import Report
from airflow_provider_chs3.cli.tables import size
from airflow_provider_chs3.client.runner import Runner
from airflow_provider_chs3.core.arguments.merge_arguments import Thresholds
from airflow_provider_chs3.core.model.freshness import Freshness
from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.core.model.quantities import duration_text, quantity
from airflow_provider_chs3.exceptions import PreflightError
from airflow_provider_chs3.plugin.observation.period_state import HOLDS_ITS_ROWS, PeriodState
from airflow_provider_chs3.plugin.observation.periods import TableOverview
from airflow_provider_chs3.plugin.observation.periods_facts import look_at_all_tables
from airflow_provider_chs3.plugin.observation.running_inserts import TasksOfLoads
from airflow_provider_chs3.plugin.observation.speed.costs import find_costs
from airflow_provider_chs3.plugin.observation.tables import judge_tables

_LOG = logging.getLogger(__name__)
#: States that are no reason to act.
_FINE = (*HOLDS_ITS_ROWS, PeriodState.NEVER_LOADED, PeriodState.LOADING)


def list_tables(given: argparse.Namespace) -> Report:
    """List the tables that have a ledger; all is fine if nothing is to be done."""
    session = hook_of(given)
    runner = Runner(session=session, log=_LOG)
    seen = runner.run(look_at_all_tables(given.cluster or session.options.cluster))
    if seen.down or seen.unread:
        raise PreflightError(*(f"{node}: {error}" for node, error in seen.down.items()), *filter(None, [seen.unread]))
    nothing = TasksOfLoads(at_work={}, failed=())
    judged = runner.run(judge_tables(seen, tasks=nothing, thresholds=Thresholds(), at=datetime.now(UTC)))
    values = [_table_as_json(name, of_table) for name, of_table in judged.items()]
    is_late = any(table.freshness and not table.freshness.is_fresh for table in judged.values())
    return Report(
        header=["table", "periods", "rows", "newest", "published (UTC)", "freshness", "not as published"],
        rows=[_shown(value, judged[name].freshness) for name, value in zip(judged, values, strict=True)],
        values=values,
        is_fine=not is_late and not any(value["states"] for value in values),
        nothing="No ledger has a table: nothing was loaded through this connection.",
    )


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


def show_costs(given: argparse.Namespace, chosen: ChosenLoad | None = None) -> Report:
    """Return the cost of each table, or of that of a chosen load."""
    session, cluster = (chosen.table.session, chosen.table.cluster) if chosen else (hook_of(given), given.cluster)
    costs = Runner(session=session, log=_LOG).run(find_costs(cluster or session.options.cluster, days=given.days))
    shown = [cost for cost in costs if not chosen or chosen.table.name == TableName(cost.database, cost.table)]
    return Report(
        header=["table", "loads", "read", "rows", "node time"],
        rows=[
            [
                *(f"{cost.database}.{cost.table}", cost.loads, size(cost.read_bytes), cost.rows),
                duration_text(cost.node_seconds),
            ]
            for cost in shown
        ],
        values=[cost.model_dump() for cost in shown],
        summary=quantity(sum(cost.loads for cost in shown), "load"),
        nothing=f"No load in the last {quantity(given.days, 'day')}.",
    )
