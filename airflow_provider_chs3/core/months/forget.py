"""Remove months from the ledger: the rows in their partitions stay, but no load owns them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_provider_chs3.core.cluster.node_facts import TargetContext
from airflow_provider_chs3.core.ledger.records import record
from airflow_provider_chs3.core.months.status import LedgerRequest, ledger_key, list_months_of, look_at_table
from airflow_provider_chs3.core.sql.quoting import Sql
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

    Returns:
        The requested months, or all that were known.

    Raises:
        PreflightError: If the cluster or the table is missing, or not fit.
    """
    context = yield from look_at_table(request, needs_all=True)
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


def _record(context: TargetContext, node: Node, month: Month, partition_id: str) -> Sql:
    return record(context.ledger, ledger_key(context, node, month, partition_id), "forgotten", {})
