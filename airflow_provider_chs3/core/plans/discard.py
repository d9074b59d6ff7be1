"""Drop what is held of periods: the table stays as it is, and the next load loads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_chs3.core.ledger.queries import look_up_periods
from airflow_provider_chs3.core.ledger.recording import add_records
from airflow_provider_chs3.core.plans.status import LedgerRequest, ledger_key, look_at_table
from airflow_provider_chs3.core.preflight.target_checks import partitions_of
from airflow_provider_chs3.core.staging.ending import drop_held
from airflow_provider_chs3.core.staging.tables import Attempt
from airflow_provider_chs3.core.values.period import Period
from airflow_provider_chs3.core.workflow.operations import QueryNodes, Steps


@dataclass(frozen=True, slots=True)
class DiscardedPeriod:
    """The outcome of discarding what is held of a period.

    Args:
        period: The period.
        was_held: Whether anything was held of it.
        why: Why it was; empty if it was not.
    """

    period: Period
    was_held: bool
    why: str

    def as_json(self) -> dict[str, Any]:
        """Return JSON-safe values."""
        return {"period": str(self.period), "was_held": self.was_held, "why": self.why}


def discard_periods(request: LedgerRequest, periods: Sequence[Period]) -> Steps[list[DiscardedPeriod]]:
    """Record on each node that what is held of periods is discarded, and drop it.

    Args:
        request: The table.
        periods: The periods.

    Raises:
        PreflightError: If the cluster or the table is missing, or not fit.
    """
    context = yield from look_at_table(request)
    found = yield from look_up_periods(context, (yield from partitions_of(context, sorted(periods))))
    discarded = []
    for period, nodes in found.items():
        held = {node: each.held for node, each in nodes.items() if each.held}
        if held:
            values = {"attempt": next(iter(held.values())).record.attempt}
            record = {node: (ledger_key(context, node, period, ""), values) for node in held}
            sql = add_records(context, "discarded", [record])
            yield from QueryNodes(name=f"Discard what is held of {period}", sql=sql)
        # One that died before may have recorded it already.
        yield from drop_held(context, Attempt(context.target, (period,), "", hold_limit_days=1))
        why = next((each.why for each in held.values()), "")
        discarded.append(DiscardedPeriod(period, was_held=bool(held), why=why))
    return discarded
