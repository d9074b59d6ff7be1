"""Drop what is held of periods: the table stays as it is, and the next load loads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider_chs3.core.ledger.period_comparison import held_on
from airflow_provider_chs3.core.ledger.queries import look_up_periods
from airflow_provider_chs3.core.ledger.records import Held, PeriodOnNode
from airflow_provider_chs3.core.load.end_attempts import drop_held
from airflow_provider_chs3.core.load.held_arrivals import discard_held, find_held
from airflow_provider_chs3.core.load.staging_tables import Attempt
from airflow_provider_chs3.core.model.models import AsJson, Node
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.periods.status import LedgerRequest, look_at_table
from airflow_provider_chs3.core.steps.operations import Steps
from airflow_provider_chs3.core.target.period_partitions import partitions_of


@dataclass(frozen=True, slots=True)
class DiscardedPeriod(AsJson):
    """The outcome of discarding what is held of a period."""

    period: Period
    was_held: bool
    why: str


def discard_periods(request: LedgerRequest) -> Steps[list[DiscardedPeriod]]:
    """Record on each node that what is held of periods is discarded, and drop it."""
    context = yield from look_at_table(request)
    owns = yield from partitions_of(context, sorted(request.periods or ()))
    before = yield from look_up_periods(context, owns)
    held: dict[Period, list[Mapping[Node, Held]]] = {
        period: [of_nodes] for period, nodes in before.items() if (of_nodes := held_on(nodes))
    }
    if any(of_node.arrival for (of_nodes,) in held.values() for of_node in of_nodes.values()):
        # Each arrival is held as a whole; several may be held of a period.
        arrivals = [periods for periods in (yield from find_held(context)).values() if owns.keys() & periods.keys()]
        owns = yield from partitions_of(context, sorted({*owns}.union(*arrivals)))
        before = yield from look_up_periods(context, owns)
        held |= {period: [of[period] for of in arrivals if period in of] for period in set[Period]().union(*arrivals)}
    attempts = dict[Period, str]()
    for period in owns:
        for of_arrival in held.get(period, ()):
            attempts[period] = yield from discard_held(context, period, of_arrival)
        if period not in attempts:
            # A discard that died may have recorded it already.
            yield from drop_held(context, Attempt(context.target, (period,), "", hold_limit_days=1))
    after = yield from look_up_periods(context, owns)
    return [_discarded(period, nodes, attempts.get(period, ""), after[period]) for period, nodes in before.items()]


def _discarded(
    period: Period, before: Mapping[Node, PeriodOnNode], attempt: str, after: Mapping[Node, PeriodOnNode]
) -> DiscardedPeriod:
    # Nothing is replaced before all nodes have the intent.
    if attempt and all(on_node.record and on_node.record.attempt == attempt for on_node in after.values()):
        return DiscardedPeriod(period, was_held=False, why="it was approved just before")
    reason = next((on_node.held.reason for on_node in before.values() if on_node.held and attempt), "")
    return DiscardedPeriod(period, was_held=bool(attempt), why=reason)
