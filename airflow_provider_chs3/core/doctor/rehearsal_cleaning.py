"""Drop a rehearsal's table, and everything that rehearsals left behind, on every node that answers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from airflow_provider_chs3.core.doctor.rehearsal_tables import PERIOD, Where
from airflow_provider_chs3.core.ledger.object_records import objects_table
from airflow_provider_chs3.core.load.end_attempts import end_earlier_attempts
from airflow_provider_chs3.core.load.staging_tables import Attempt
from airflow_provider_chs3.core.model.models import Node, TableName
from airflow_provider_chs3.core.sql.quoting import Sql, literal, table
from airflow_provider_chs3.core.steps.fan_out import query_reachable
from airflow_provider_chs3.core.steps.operations import QueryNodes, Steps
from airflow_provider_chs3.core.target.node_facts import Target, look_at
from airflow_provider_chs3.core.target.replication import run_ddl
from airflow_provider_chs3.core.target.table_facts import NAME_PREFIX
from airflow_provider_chs3.core.target.topology import TableLocation, resolve_table
from airflow_provider_chs3.exceptions import Chs3Error


@dataclass(frozen=True, slots=True)
class Cleaned:
    """The result of a clean-up."""

    tables: tuple[str, ...]
    unreached: Mapping[Node, Chs3Error]

    @property
    def left(self) -> str:
        """The tables that may be left, and on which nodes; empty if none are."""
        if not self.unreached:
            return ""
        nodes = ", ".join(f"{node} ({error})" for node, error in self.unreached.items())
        return f"left on {nodes}: {', '.join(self.tables) or 'tables of rehearsals'}, with staging and records"


def clean_after(location: TableLocation) -> Steps[Cleaned]:
    """Drop a rehearsal's table, the staging of its loads and their records, on every node that answers.

    The tables of records are also dropped if they contain no other records.
    """
    down: dict[Node, Chs3Error] = {}
    up = yield from query_reachable("Check which nodes answer", dict.fromkeys(location.nodes, Sql("SELECT 1")), down)
    if up:
        yield from _drop(replace(location, nodes=tuple(up)))
    return Cleaned((location.target.table,), down)


def clean_database(where: Where) -> Steps[Cleaned]:
    """Drop the tables of all rehearsals in a database, with their staging and records."""
    location = yield from resolve_table(where)
    database = where.target.database
    sql = Sql(
        f"SELECT name FROM system.tables WHERE database = {literal(database)} "
        f"AND startsWith(name, {literal(NAME_PREFIX)})"
    )
    down: dict[Node, Chs3Error] = {}
    answers = yield from query_reachable("Find the tables of rehearsals", dict.fromkeys(location.nodes, sql), down)
    names = sorted({name for rows in answers.values() for (name,) in rows})
    for name in names:
        yield from _drop(replace(location, target=TableName(database, name), nodes=tuple(answers)))
    return Cleaned(tuple(names), down)


def _drop(location: TableLocation) -> Steps[None]:
    context = yield from look_at(location, settings=())
    target = location.target
    yield from end_earlier_attempts(context, Attempt(target, (PERIOD,), ""))
    drop = Sql(f"DROP TABLE IF EXISTS {table(target)} SYNC")
    yield from run_ddl(context, dict.fromkeys(context.nodes, drop), name=f"Drop {target}")
    ledger, objects = location.ledger, objects_table(location.ledger)
    nodes = {node: context.nodes[node] for node in context.recorders}
    yield from _delete_records(context, ledger, [node for node, facts in nodes.items() if facts.has_ledger])
    yield from _delete_records(context, objects, [node for node, facts in nodes.items() if facts.objects])
    yield from _delete_records(context, context.loads, [node for node, facts in nodes.items() if facts.loads])


def _delete_records(context: Target, records: TableName, nodes: Collection[Node]) -> Steps[None]:
    """Delete the records of a rehearsal's table, or drop the table of records if it contains no other records."""
    others = Sql(f"SELECT countIf(NOT startsWith(target_table, {literal(NAME_PREFIX)})) FROM {table(records)}")
    answers = yield from QueryNodes(name="Count the records of other tables", sql=dict.fromkeys(nodes, others))
    target = context.target
    of_target = f"target_table = {literal(target.table)}"
    delete = Sql(f"ALTER TABLE {table(records)} DELETE WHERE {of_target} SETTINGS mutations_sync = 1")
    drop = Sql(f"DROP TABLE IF EXISTS {table(records)} SYNC")
    kept = [node for node, rows in answers.items() if rows[0][0]]
    name = f"Delete the records of {target} from {records}"
    yield from QueryNodes(name=name, sql=dict.fromkeys(kept, delete))
    yield from run_ddl(context, dict.fromkeys(answers.keys() - kept, drop), name=name)
