"""Create a table that is missing, alike on every node, from the files of a period."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from airflow_provider_chs3.core.files.loaded_columns import structure_of
from airflow_provider_chs3.core.files.table_suggestion import (
    NewTable,
    NewTableRequest,
    distributed_engine,
    suggest_table_of,
    table_over_all,
)
from airflow_provider_chs3.core.model.models import Node, TableName
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.sql.quoting import Sql, in_table, is_table
from airflow_provider_chs3.core.sql.quoting import table as quoted
from airflow_provider_chs3.core.steps.operations import Log, QueryNodes, Steps
from airflow_provider_chs3.core.target.topology import nodes_of
from airflow_provider_chs3.exceptions import ConfigurationError

_CREATE = "CREATE TABLE "


def create_if_missing(request: NewTableRequest, periods: Collection[Period]) -> Steps[bool]:
    """Create the table on every node that lacks it, and return whether it is there now: without files none is created.

    The first node gets it first, and the others get a copy: tasks that start at the same time see files of different
    periods, and must not create different tables. A creation that was broken off is completed so, too.
    """
    nodes = yield from nodes_of(request.cluster)
    definitions = yield from _definitions(nodes, request.table)
    if len(definitions) == len(nodes):
        return True
    if not definitions:
        new = yield from _suggest(request, periods)
        if new is None:
            return False
        if "." in (name := request.table.table):
            raise ConfigurationError(
                f"create_table creates no table with a dot in its name, and all of {name!r} is its name, as database "
                "is set beside table. Leave one of the two databases out, or create the table yourself."
            )
        first = nodes[0]
        yield from Log(name=f"Creating table {request.table}, which does not exist:\n{new.as_text}")
        yield from _create({first: new.statements[0]}, request.table)
        # A database of engine Replicated has created it on all servers of a shard.
        definitions = yield from _definitions(nodes, request.table)
        yield from _create_over_all(nodes, request.table, request.cluster)
    definition = next(iter(definitions.values()))
    yield from _create({node: definition for node in nodes if node not in definitions}, request.table)
    return True


def _definitions(nodes: tuple[Node, ...], table: TableName) -> Steps[dict[Node, str]]:
    """Return the CREATE TABLE of each node that has the table."""
    sql = Sql(
        f"SELECT create_table_query FROM system.tables WHERE {is_table(table)} "
        "SETTINGS show_table_uuid_in_table_create_query_if_not_nil = 0"
    )
    answers = yield from QueryNodes(name=f"Look for {table}", sql=dict.fromkeys(nodes, sql))
    return {node: rows[0][0] for node, rows in sorted(answers.items()) if rows}


def _create(statements: Mapping[Node, str], table: TableName) -> Steps[None]:
    if not statements:
        return
    sql = {
        node: Sql(f"{_CREATE}IF NOT EXISTS {statement.removeprefix(_CREATE)}") for node, statement in statements.items()
    }
    yield from QueryNodes(name=f"Create {table}", sql=sql)


def _create_over_all(nodes: tuple[Node, ...], local: TableName, cluster: str | None) -> Steps[None]:
    """Create the Distributed table, before the last node has the local one: then it is not looked for again."""
    if cluster is None:
        return
    sql = Sql(f"SELECT name, type FROM system.columns WHERE {in_table(local)} ORDER BY position")
    first = nodes[0]
    columns = (yield from QueryNodes(name=f"Read the columns of {local}", sql={first: sql}))[first]
    over_all, engine = table_over_all(local), distributed_engine(local, cluster)
    statement = f"{_CREATE}{quoted(over_all)} ({structure_of(dict(columns))}) ENGINE = {engine}"
    yield from _create(dict.fromkeys(nodes, statement), over_all)


def _suggest(request: NewTableRequest, periods: Collection[Period]) -> Steps[NewTable | None]:
    for period in sorted(periods, reverse=True):
        source, manifest = yield from request.source.list_period(period)
        if manifest.objects:
            return (yield from suggest_table_of(request, period, source, manifest))
    return None
