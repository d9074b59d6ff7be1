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

from airflow_provider_chs3.core.ledger.recording import add_records
from airflow_provider_chs3.core.ledger.records import LAST_FORGOTTEN, OF_ARRIVALS, Held, Record, record_columns
from airflow_provider_chs3.core.ledger.table import LedgerKey
from airflow_provider_chs3.core.load.decision import LoadResult, held_text
from airflow_provider_chs3.core.load.end_attempts import drop_held, end_attempts
from airflow_provider_chs3.core.load.finish import not_held_error
from airflow_provider_chs3.core.load.outcome import result_of
from airflow_provider_chs3.core.load.period_load import PeriodLoad
from airflow_provider_chs3.core.load.staging_tables import Attempt
from airflow_provider_chs3.core.model.models import Manifest, Node
from airflow_provider_chs3.core.model.period import WHOLE_TABLE, Period
from airflow_provider_chs3.core.sql.quoting import Sql, table
from airflow_provider_chs3.core.steps.operations import QueryNodes, Steps
from airflow_provider_chs3.core.target.node_facts import Target
from airflow_provider_chs3.core.target.replication import catch_up

HeldPeriods: TypeAlias = Mapping[Period, Mapping[Node, Held]]


def find_held(context: Target) -> Steps[dict[str, HeldPeriods]]:
    """Return the periods that are held of arrivals, by arrival; several may be held of a period."""
    if not any(facts.has_ledger for facts in context.nodes.values()):
        return {}
    yield from catch_up(context, context.ledger)
    sql = {node: _held_query(context, node) for node, facts in context.nodes.items() if facts.has_ledger}
    answers = yield from QueryNodes(name="Look for what is held", sql=sql)
    of_arrivals = defaultdict[str, dict[Period, dict[Node, Held]]](lambda: defaultdict(dict))
    for node, rows in answers.items():
        for text, fields, *of_held in rows:
            held, period = Held((Record(*fields),), *of_held), Period.parse(text)
            of_nodes = of_arrivals[held.arrival][period]
            known = of_nodes.get(node, replace(held, records=()))
            of_nodes[node] = replace(known, records=(*known.records, *held.records))
    return dict(of_arrivals)


def _held_query(context: Target, node: Node) -> Sql:
    of_table = f"FROM {table(context.ledger)} WHERE {LedgerKey.on(context, node, WHOLE_TABLE).table_condition}"
    periods = (
        f"SELECT period, mapValues({OF_ARRIVALS}) AS numbers, {LAST_FORGOTTEN} AS forgotten {of_table} GROUP BY period"
    )
    is_held = "number -> number % 2 = 1 AND intDiv(number, 2) > forgotten"
    return Sql(
        f"SELECT period, ({record_columns()}), why, formatDateTime(recorded_at, '%F %T', 'UTC'), hold_limit_days, "
        f"keep_versions {of_table} AND event = 'held' AND (period, sequence) IN "
        f"(SELECT period, intDiv(arrayJoin(arrayFilter({is_held}, numbers)), 2) FROM ({periods}))"
    )


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
    """Return the result of an arrival that waits until somebody decides; None if it is loaded."""
    assert load.spread
    same = held_of_same(load.period, load.manifest, load.request.definition, held)
    if is_approval and not same:
        changed = (
            "its objects, or the load's arguments, are not those that it was held with, or it was held for too long"
        )
        raise not_held_error(load, changed if held else "nothing of this arrival is held")
    if same is None or is_approval or load.request.reload or load.spread.unfinished:
        return None
    return result_of(load, {}, status="held", reason=held_text(same))


def discard_held(context: Target, period: Period, held: Mapping[Node, Held]) -> Steps[str]:
    """Record on each node that what is held of a period is discarded, drop it, and return its attempt."""
    nonce = next(iter(held.values())).record.attempt
    records = [
        (node, LedgerKey.on(context, node, period), {"attempt": nonce, "why": of_node.with_arrival})
        for node, of_node in held.items()
    ]
    yield from add_records(context, "discarded", records, name=f"Discard what is held of {period}")
    # An approval that does not know that yet loses what it publishes from.
    yield from end_attempts(context, Attempt(context.target, (period,), nonce))
    yield from drop_held(context, Attempt(context.target, (period,), "", hold_limit_days=1))
    return nonce


def discard_all(context: Target, held: HeldPeriods) -> Steps[None]:
    """Discard what an earlier load holds of an arrival, where the newest has no rows."""
    for period, nodes in held.items():
        yield from discard_held(context, period, nodes)
