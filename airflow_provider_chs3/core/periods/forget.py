"""Remove periods from the ledger: the rows in their partitions stay, but no load owns them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from airflow_provider_chs3.core.ledger.recording import Value, add_records
from airflow_provider_chs3.core.ledger.records import IS_STATE, newest
from airflow_provider_chs3.core.ledger.table import LedgerKey
from airflow_provider_chs3.core.load.end_attempts import drop_held
from airflow_provider_chs3.core.load.staging_tables import Attempt
from airflow_provider_chs3.core.model.models import AsJson, Node
from airflow_provider_chs3.core.model.period import WHOLE_TABLE, Period
from airflow_provider_chs3.core.periods.status import LedgerRequest, list_periods_of
from airflow_provider_chs3.core.sql.quoting import Sql, table
from airflow_provider_chs3.core.steps.operations import QueryNodes, Steps
from airflow_provider_chs3.core.target.node_facts import Target, inspect_target
from airflow_provider_chs3.core.target.target_checks import check_target


@dataclass(frozen=True, slots=True)
class ForgottenPeriod(AsJson):
    """The outcome of forgetting a period."""

    period: Period
    was_known: bool
    rows: int


def forget_periods(request: LedgerRequest) -> Steps[list[ForgottenPeriod]]:
    """Record on each node that the period is forgotten, and drop what is held of it. Its rows and records stay.

    If no node has the table, because it was dropped or renamed, the periods of all tables that have had its name are
    forgotten. Without requested periods, all that were known are returned.
    """
    context = yield from inspect_target(request, needs_all=True)
    if not any(facts.target for facts in context.nodes.values()):
        return (yield from _forget_gone(context, request.periods))
    check_target(context)
    listed = {
        period.period: period for period in (yield from list_periods_of(context, request.periods)) if period.period
    }
    forgotten = []
    for period in sorted(listed if request.periods is None else set(request.periods)):
        known = listed.get(period)
        knowing = [node for node, on_node in known.nodes.items() if on_node.record or on_node.held] if known else []
        if known and knowing:
            keys = {node: LedgerKey.on(context, node, period, known.partition_id) for node in knowing}
            yield from _record(context, period, keys)
            yield from drop_held(context, Attempt(context.target, (period,), "", hold_limit_days=1))
        forgotten.append(ForgottenPeriod(period, was_known=bool(knowing), rows=known.rows if known else 0))
    return forgotten


def _forget_gone(context: Target, wanted: Collection[Period] | None) -> Steps[list[ForgottenPeriod]]:
    columns = f"target_uuid, period, {newest('partition_id, event')}"
    name = LedgerKey(context.target, "", WHOLE_TABLE, "").name_condition
    sql = Sql(f"SELECT {columns} FROM {table(context.ledger)} WHERE {name} AND {IS_STATE} GROUP BY target_uuid, period")
    asked = [node for node, facts in context.nodes.items() if facts.has_ledger]
    answers = yield from QueryNodes(name="Ask the ledgers for their periods", sql=dict.fromkeys(asked, sql))
    of_periods: dict[Period, dict[str, dict[Node, LedgerKey]]] = defaultdict(lambda: defaultdict(dict))
    for node, rows in answers.items():
        for uuid, text, (partition_id, event) in rows:
            period = Period.parse(text)
            if event != "forgotten" and (wanted is None or period in wanted):
                of_periods[period][uuid][node] = LedgerKey(context.target, uuid, period, partition_id)
    if not of_periods:
        check_target(context)
    for period, of_tables in sorted(of_periods.items()):
        for keys in of_tables.values():
            yield from _record(context, period, keys)
    periods = sorted(of_periods if wanted is None else set(wanted))
    return [ForgottenPeriod(period, was_known=period in of_periods, rows=0) for period in periods]


def _record(context: Target, period: Period, keys: Mapping[Node, LedgerKey]) -> Steps[None]:
    records = ((node, key, dict[str, Value]()) for node, key in keys.items())
    yield from add_records(context, "forgotten", records, name=f"Forget {period}")
