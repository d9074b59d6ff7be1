"""Materialized views of the target: how they get the rows of a month that was put into place."""

from __future__ import annotations

import re
from collections.abc import Sequence

from airflow_provider_chs3.core.attempt.context import Load
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, literal, table
from airflow_provider_chs3.core.values.models import Node, TableName
from airflow_provider_chs3.core.workflow.operations import AskNodes, Steps

_NAME = r"(?:`(?:[^`\\]|\\.)*`|\w+)"
#: Where a view writes, as the server shows it; a view without it has a table of its own, named as the view.
_TO = re.compile(rf"CREATE MATERIALIZED VIEW {_NAME}\.{_NAME} TO ({_NAME}\.{_NAME}) ")


def fill_statements(load: Load, node: Node) -> Steps[list[str]]:
    """For each view an INSERT that gives it the month's rows, as the view would have made of them.

    The view's SELECT stays as it is: a setting keeps it to the month's partition. The rows go into the view's table
    rather than through the view, which does not cast them where types differ.

    Args:
        load: The load.
        node: A node that has the views.

    Returns:
        The statements, in the order of the views' names; views that the user may not see have none.
    """
    target = load.around.target
    of_target = f"database = {literal(target.database)} AND name = {literal(target.table)}"
    views = (
        "SELECT view.1, view.2 FROM (SELECT arrayJoin(arrayZip(dependencies_database, dependencies_table)) AS view "
        f"FROM system.tables WHERE {of_target})"
    )
    sql = Sql(
        "SELECT database, name, any(create_table_query), any(as_select), groupArray((columns.position, columns.name)) "
        f"FROM (SELECT * FROM system.tables WHERE (database, name) IN ({views})) AS views "
        f"JOIN (SELECT * FROM system.columns WHERE (database, table) IN ({views})) AS columns "
        "ON columns.database = views.database AND columns.table = views.name "
        "WHERE views.engine = 'MaterializedView' GROUP BY database, name ORDER BY database, name"
    )
    rows = (yield AskNodes(name=f"Look at the views of {target}", sql={node: sql}))[node]
    return [
        _statement(load, TableName(database, name), definition, select, [column for _, column in sorted(columns)])
        for database, name, definition, select, columns in rows
    ]


def _statement(load: Load, view: TableName, definition: str, select: str, columns: Sequence[str]) -> str:
    matched = _TO.match(definition)
    to = matched[1] if matched else table(view)
    month = f"_partition_id = {literal(load.key.partition_id)}"
    filters = f"{{{literal(str(load.around.target))}: {literal(month)}}}"
    return (
        f"INSERT INTO {to} ({', '.join(map(identifier, columns))}) SELECT * FROM ({select}) "
        f"SETTINGS additional_table_filters = {filters}"
    )
