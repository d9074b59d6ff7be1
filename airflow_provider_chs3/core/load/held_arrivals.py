"""Hold arrivals as a whole: the record of each period that one touches says of which arrival it is held.

Held rows of a period would be published with the rows that it had then; those of other arrivals may have come since. So
an approval loads the same objects again, and lets pass what held them.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from airflow_provider_chs3.core.ledger.comparison import held_on
from airflow_provider_chs3.core.ledger.queries import look_up_periods
from airflow_provider_chs3.core.ledger.recording import add_records
from airflow_provider_chs3.core.ledger.records import Held, newest
from airflow_provider_chs3.core.ledger.table import LedgerKey
from airflow_provider_chs3.core.load.decision import held_text
from airflow_provider_chs3.core.load.end_attempts import drop_held, end_attempts
from airflow_provider_chs3.core.load.finish import not_held_error
from airflow_provider_chs3.core.load.load_result import LoadResult
from airflow_provider_chs3.core.load.outcome import result_of
from airflow_provider_chs3.core.load.period_load import PeriodLoad
from airflow_provider_chs3.core.load.staging_tables import Attempt
from airflow_provider_chs3.core.model.models import Manifest, Node
from airflow_provider_chs3.core.model.period import WHOLE_TABLE, Period
from airflow_provider_chs3.core.sql.quoting import Sql, table
from airflow_provider_chs3.core.steps.operations import QueryNodes, Steps
from airflow_provider_chs3.core.target.node_facts import TargetContext
from airflow_provider_chs3.core.target.period_partitions import partitions_of

_DECIDES = "event IN ('held', 'discarded', 'intent', 'forgotten')"


#: What is held, by period of the table.
HeldPeriods: TypeAlias = Mapping[Period, Mapping[Node, Held]]


def find_held(context: TargetContext) -> Steps[dict[str, HeldPeriods]]:
    """Return the periods that are held of arrivals, by arrival."""
    sql = {
        node: Sql(
            f"SELECT period FROM {table(context.ledger)} "
            f"WHERE {LedgerKey.on(context, node, WHOLE_TABLE).table_condition} "
            f"GROUP BY period HAVING {newest('event', condition=_DECIDES)} = 'held'"
        )
        for node, facts in context.nodes.items()
        if facts.has_ledger
    }
    answers = yield from QueryNodes(name="Look for what is held", sql=sql)
    periods = {Period.parse(period) for rows in answers.values() for (period,) in rows}
    if not periods:
        return {}
    before = yield from look_up_periods(context, (yield from partitions_of(context, sorted(periods))))
    of_arrivals = defaultdict[str, dict[Period, Mapping[Node, Held]]](dict)
    for period, nodes in before.items():
        held = held_on(nodes)
        for of_node in held.values():
            if of_node.arrival:
                of_arrivals[of_node.arrival][period] = held
    return dict(of_arrivals)


def held_of_same(period: Period, listed: Manifest, definition: str, held: HeldPeriods) -> Held | None:
    """Return what is held of the objects of an arrival, by the same definition; None if nothing is."""
    wanted = ([str(period), listed.fingerprint], definition)
    for nodes in held.values():
        for of_node in nodes.values():
            record = of_node.record
            if (json.loads(record.structure)["arrival"], record.definition) == wanted and not of_node.is_over:
                return of_node
    return None


def as_approved(load: PeriodLoad) -> PeriodLoad:
    """Return the load of an approved arrival: as that which was held, but nothing holds it."""
    policies = replace(load.policies, on_failed_check="warn", max_shrink_fraction=1)
    return replace(load, request=replace(load.request, reload=None), policies=policies)


def judge_held(load: PeriodLoad, held: HeldPeriods, *, is_approval: bool) -> LoadResult | None:
    """Return the result of an arrival that waits until somebody decides; None if it is loaded.

    Raises:
        TargetChangedError: If it is approved, and is not what was held.
    """
    assert load.spread
    same = held_of_same(load.period, load.manifest, load.request.definition, held)
    if is_approval:
        if not same:
            changed = (
                "its objects, or the load's arguments, are not those that it was held with, or it was held for too long"
            )
            raise not_held_error(load, changed if held else "nothing of this arrival is held")
        return None
    if same is None or load.request.reload or load.spread.unfinished:
        return None
    return result_of(load, {}, status="held", reason=held_text(same))


def discard_held(context: TargetContext, period: Period, held: Mapping[Node, Held]) -> Steps[str]:
    """Record on each node that what is held of a period is discarded, drop it, and return its attempt."""
    nonce = next(iter(held.values())).record.attempt
    records = [(node, LedgerKey.on(context, node, period), {"attempt": nonce}) for node in held]
    yield from add_records(context, "discarded", records, name=f"Discard what is held of {period}")
    # An approval that does not know that yet loses what it publishes from.
    yield from end_attempts(context, Attempt(context.target, (period,), nonce))
    yield from drop_held(context, Attempt(context.target, (period,), "", hold_limit_days=1))
    return nonce


def discard_all(context: TargetContext, held: HeldPeriods) -> Steps[None]:
    """Discard what an earlier load holds of an arrival, where the newest has no rows."""
    for period, nodes in held.items():
        yield from discard_held(context, period, nodes)
