"""List the objects that a table's periods were loaded from, and by which loads."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter

from airflow_provider_chs3.core.ledger.object_records import last_loads, objects_table, recorders_of_objects
from airflow_provider_chs3.core.ledger.table import LedgerKey
from airflow_provider_chs3.core.model.models import AsJson, TableName
from airflow_provider_chs3.core.model.period import WHOLE_TABLE, Period
from airflow_provider_chs3.core.periods.status import LedgerRequest, look_at_table
from airflow_provider_chs3.core.sql.quoting import Sql, one_of, table
from airflow_provider_chs3.core.steps.operations import QueryNodes, Steps


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
    modified_at, loaded_at = (f"formatDateTime({name}, '%F %T', 'UTC')" for name in ("last_modified", "loaded_at"))
    columns = f"period, path, size_bytes, etag, {modified_at}, rows, {loaded_at}, attempt, is_current, arrival"
    of_tables = {node: LedgerKey.on(context, node, WHOLE_TABLE).table_condition for node in nodes}
    sql = {
        node: Sql(f"SELECT {columns} FROM ({reads_of_objects(context.ledger, f'{of_table} AND {of_periods}')})")
        for node, of_table in of_tables.items()
    }
    answers = yield from QueryNodes(name="List the objects that were loaded", sql=sql)
    listed = [
        (node, LoadedObject(*(Period.parse(period), *fields, bool(is_current), arrival)))
        for node, rows in answers.items()
        for period, *fields, is_current, arrival in rows
    ]
    known = [item for node, item in listed if item.period not in last or node == min(last[item.period].nodes)]
    return sorted(known, key=attrgetter("period", "path", "loaded_at"))


def reads_of_objects(ledger: TableName, condition: str) -> str:
    """Return the query for the objects that published loads read, and whether the newest of them counts them still."""
    published = f"FROM {table(ledger)} WHERE {condition} AND event = 'published'"
    bases = f"SELECT period, argMax(base, (sequence, recorded_at)) {published} GROUP BY period"
    return (
        f"SELECT *, (period, base) IN ({bases}) AS is_current FROM {table(objects_table(ledger))} "
        f"WHERE {condition} AND attempt IN (SELECT attempt {published})"
    )
