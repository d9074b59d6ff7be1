"""List the objects that a table's periods were loaded from, and by which loads."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_chs3.core.ledger.object_records import objects_table
from airflow_provider_chs3.core.ledger.records import IS_STATE, newest
from airflow_provider_chs3.core.ledger.table import LedgerKey
from airflow_provider_chs3.core.model.models import AsJson
from airflow_provider_chs3.core.model.period import WHOLE_TABLE, Period
from airflow_provider_chs3.core.periods.status import LedgerRequest, look_at_table
from airflow_provider_chs3.core.sql.quoting import Sql, one_of, table
from airflow_provider_chs3.core.steps.operations import Steps


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
    node = context.coordinator
    if not (context.nodes[node].objects and context.nodes[node].has_ledger):
        return []
    of_table = LedgerKey.on(context, node, WHOLE_TABLE).table_condition
    if request.periods is not None:
        of_table += f" AND {one_of('period', map(str, request.periods))}"
    ledger = table(context.ledger)
    bases = f"SELECT period, {newest('base')} FROM {ledger} WHERE {of_table} AND {IS_STATE} GROUP BY period"
    published = f"SELECT attempt FROM {ledger} WHERE {of_table} AND event = 'published'"
    sql = Sql(
        "SELECT period, path, size_bytes, etag, formatDateTime(last_modified, '%F %T', 'UTC'), rows, "
        f"formatDateTime(loaded_at, '%F %T', 'UTC'), attempt, (period, base) IN ({bases}), arrival "
        f"FROM {table(objects_table(context.ledger))} WHERE {of_table} AND attempt IN ({published}) "
        "ORDER BY period, path, loaded_at"
    )
    rows = yield from context.on_coordinator(name="List the objects that were loaded", sql=sql)
    return [
        LoadedObject(*(Period.parse(period), *fields, bool(is_current), arrival))
        for period, *fields, is_current, arrival in rows
    ]
