"""Remove months from the ledger: the rows in their partitions stay, but no load owns them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from airflow_provider_chs3.core.cluster.node_facts import TargetContext, inspect_target
from airflow_provider_chs3.core.ledger.records import IS_STATE, newest, record
from airflow_provider_chs3.core.ledger.table import LedgerKey
from airflow_provider_chs3.core.months.status import LedgerRequest, ledger_key, list_months_of
from airflow_provider_chs3.core.preflight.target_checks import check_target
from airflow_provider_chs3.core.sql.quoting import Sql, table
from airflow_provider_chs3.core.values.models import Month, Node
from airflow_provider_chs3.core.workflow.operations import QueryNodes, Steps


@dataclass(frozen=True, slots=True)
class ForgottenMonth:
    """The outcome of forgetting a month.

    Args:
        month: The month.
        was_known: Whether a ledger had it.
        rows: Rows of its partition, on all nodes; they stay.
    """

    month: Month
    was_known: bool
    rows: int

    def as_json(self) -> dict[str, Any]:
        """Return JSON-safe values."""
        return {"month": str(self.month), "was_known": self.was_known, "rows": self.rows}


def forget_months(request: LedgerRequest) -> Steps[list[ForgottenMonth]]:
    """Record on each node that the month is forgotten. Rows and earlier records stay.

    Of a table that no node has, because it was dropped or renamed, the months of all tables are forgotten that have had
    its name.

    Returns:
        The requested months, or all that were known.

    Raises:
        PreflightError: If the cluster is missing, or the table is not fit, or missing on some nodes.
    """
    context = yield from inspect_target(request, needs_all=True)
    if not any(facts.target for facts in context.nodes.values()):
        return (yield from _forget_gone(context, request.months))
    check_target(context, required_settings=())
    listed = {each.month: each for each in (yield from list_months_of(context, request.months)) if each.month}
    forgotten = []
    for month in sorted(listed if request.months is None else set(request.months)):
        found = listed.get(month)
        knowing = [node for node, each in found.nodes.items() if each.record] if found else []
        if found and knowing:
            statements = {node: _record(context, node, month, found.partition_id) for node in knowing}
            yield from QueryNodes(name=f"Forget {month}", sql=statements)
        forgotten.append(ForgottenMonth(month, was_known=bool(knowing), rows=found.rows if found else 0))
    return forgotten


def _forget_gone(context: TargetContext, wanted: Collection[Month] | None) -> Steps[list[ForgottenMonth]]:
    columns = f"target_uuid, month, {newest('partition_id, event')}"
    name = LedgerKey(context.target, "", Month(2000, 1), "").name_condition
    sql = Sql(f"SELECT {columns} FROM {table(context.ledger)} WHERE {name} AND {IS_STATE} GROUP BY target_uuid, month")
    asked = [node for node, facts in context.nodes.items() if facts.has_ledger]
    answers = yield from QueryNodes(name="Ask the ledgers for their months", sql=dict.fromkeys(asked, sql))
    of_months: dict[Month, dict[str, dict[Node, Sql]]] = defaultdict(lambda: defaultdict(dict))
    for node, rows in answers.items():
        for uuid, text, (partition_id, event) in rows:
            month = Month.parse(text)
            if event != "forgotten" and (wanted is None or month in wanted):
                key = LedgerKey(context.target, uuid, month, partition_id)
                of_months[month][uuid][node] = record(context.ledger, key, "forgotten", {})
    if not of_months:
        check_target(context, required_settings=())
    for month, of_tables in sorted(of_months.items()):
        for statements in of_tables.values():
            yield from QueryNodes(name=f"Forget {month}", sql=statements)
    months = sorted(of_months if wanted is None else set(wanted))
    return [ForgottenMonth(month, was_known=month in of_months, rows=0) for month in months]


def _record(context: TargetContext, node: Node, month: Month, partition_id: str) -> Sql:
    return record(context.ledger, ledger_key(context, node, month, partition_id), "forgotten", {})
