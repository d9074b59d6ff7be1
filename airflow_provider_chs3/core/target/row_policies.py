"""See whether row policies filter what the user reads of `system`.

A policy may hide a column, which would stay empty, or parts, which would be replaced as if they were not there.
"""

from __future__ import annotations

from collections.abc import Collection

from airflow_provider_chs3.core.model.models import Node, TableName
from airflow_provider_chs3.core.sql.quoting import Sql, literal, table
from airflow_provider_chs3.core.steps.operations import QueryNodes, Steps
from airflow_provider_chs3.exceptions import PreflightError

#: Tables of `system` that a period is judged by, where a hidden row would not just be an error,
OF_A_PERIOD = ("columns", "mutations", "parts", "tables")
#: and all that a load decides by.
OF_A_LOAD = (*OF_A_PERIOD, "detached_parts", "processes", "settings")

#: Where a policy applies. Only administrators may list policies, but the plan of a query shows it.
_IS_POLICY = "explain ILIKE '%row-level%'"
#: The filter of a MergeTree table, which a policy applies as it is read (25.8 as PREWHERE).
_FILTERS_ROWS = "match(explain, '^ *(Row level filter|Prewhere info)')"


def policies_query(names: Collection[str]) -> str:
    """Return an expression of the number of tables that a policy filters for the user.

    The plan of all tables at once takes servers half the time of one for each.
    """
    if not names:
        return "0"
    tables = " UNION ALL ".join(f"SELECT 1 FROM system.{name}" for name in names)
    return f"(SELECT countIf({_IS_POLICY}) FROM (EXPLAIN SELECT 1 FROM ({tables})))"


def find_filtered(nodes: Collection[Node], names: Collection[str]) -> Steps[dict[Node, tuple[str, ...]]]:
    """Find the tables that a policy filters for the user on each node."""
    filters = (
        f"if((SELECT countIf({_IS_POLICY}) FROM (EXPLAIN SELECT 1 FROM system.{name})) > 0, {literal(name)}, '')"
        for name in names
    )
    sql = Sql(f"SELECT arrayFilter(name -> notEmpty(name), [{', '.join(filters)}])")
    answers = yield from QueryNodes(name="Find what row policies filter", sql=dict.fromkeys(nodes, sql))
    return {node: tuple(rows[0][0]) for node, rows in answers.items()}


def check_all_seen(nodes: Collection[Node], target: TableName) -> Steps[None]:
    """Check that the user sees all rows of a table.

    Raises:
        PreflightError: If a row policy hides some.
    """
    sql = Sql(f"SELECT countIf({_FILTERS_ROWS}) FROM (EXPLAIN actions = 1 SELECT 1 FROM {table(target)})")
    answers = yield from QueryNodes(name=f"Find what row policies filter of {target}", sql=dict.fromkeys(nodes, sql))
    if filtered := ", ".join(str(node) for node, rows in answers.items() if rows[0][0]):
        raise PreflightError(
            f"A row policy filters {target} for the connection's user on {filtered}: rows that the user does not see "
            "would count as missing. Exempt the user from the policy (ALTER ROW POLICY … TO ALL EXCEPT …), or connect "
            "as another user."
        )
