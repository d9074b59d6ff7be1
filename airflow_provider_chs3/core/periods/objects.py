"""List the objects that a table's periods were loaded from, and by which loads."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter

from airflow_provider_chs3.core.ledger.object_records import last_loads, objects_table, recorders_of_objects
from airflow_provider_chs3.core.ledger.records import IS_STATE, newest
from airflow_provider_chs3.core.ledger.table import LedgerKey
from airflow_provider_chs3.core.model.models import AsJson, Node
from airflow_provider_chs3.core.model.period import WHOLE_TABLE, Period
from airflow_provider_chs3.core.periods.status import LedgerRequest, look_at_table
from airflow_provider_chs3.core.sql.quoting import Sql, one_of, table
from airflow_provider_chs3.core.steps.operations import QueryNodes, Steps
from airflow_provider_chs3.core.target.node_facts import Target


@dataclass(frozen=True, slots=True)
class LoadedObject(AsJson):
    """An object, as a load read it."""

    period: Period
    path: str
    size_bytes: int
    etag: str
    last_modified: str
    rows: int | None
    loaded_at: str
    attempt: str
    is_current: bool
    arrival: str


def list_objects(request: LedgerRequest) -> Steps[list[LoadedObject]]:
    """List the objects of published loads, by period, path and time."""
    context = yield from look_at_table(request)
    nodes = recorders_of_objects(context)
    of_periods = "1" if request.periods is None else one_of("period", map(str, request.periods))
    last = (yield from last_loads(context, of_periods)) if len(nodes) > 1 else {}
    sql = {node: _objects_on(context, node, of_periods) for node in nodes}
    answers = yield from QueryNodes(name="List the objects that were loaded", sql=sql)
    listed = [
        (node, LoadedObject(*(Period.parse(period), *fields, bool(is_current), arrival)))
        for node, rows in answers.items()
        for period, *fields, is_current, arrival in rows
    ]
    known = [item for node, item in listed if item.period not in last or node == min(last[item.period].nodes)]
    return sorted(known, key=attrgetter("period", "path", "loaded_at"))


def _objects_on(context: Target, node: Node, of_periods: str) -> Sql:
    of_table = f"{LedgerKey.on(context, node, WHOLE_TABLE).table_condition} AND {of_periods}"
    ledger = table(context.ledger)
    bases = f"SELECT period, {newest('base')} FROM {ledger} WHERE {of_table} AND {IS_STATE} GROUP BY period"
    published = f"SELECT attempt FROM {ledger} WHERE {of_table} AND event = 'published'"
    return Sql(
        "SELECT period, path, size_bytes, etag, formatDateTime(last_modified, '%F %T', 'UTC'), rows, "
        f"formatDateTime(loaded_at, '%F %T', 'UTC'), attempt, (period, base) IN ({bases}), arrival "
        f"FROM {table(objects_table(context.ledger))} WHERE {of_table} AND attempt IN ({published})"
    )
