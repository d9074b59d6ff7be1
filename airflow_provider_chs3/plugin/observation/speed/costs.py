"""The cost of each table's loads: what they read, and the time of the nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from pydantic import BaseModel

from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.core.sql.quoting import Sql, table
from airflow_provider_chs3.core.steps.fan_out import query_reachable
from airflow_provider_chs3.core.steps.operations import Steps
from airflow_provider_chs3.core.target.topology import LOADS_TABLE
from airflow_provider_chs3.plugin.observation.ledgers import Ledgers, find_ledgers


class TableCost(BaseModel):
    """The cost of a table's loads over some days: objects read, rows loaded, and seconds of inserts on all nodes."""

    database: str
    table: str
    loads: int
    read_bytes: int
    rows: int
    node_seconds: float


def find_costs(cluster: str | None, *, days: int) -> Steps[list[TableCost]]:
    """Find the ledgers, and add up the costs of each table. It is an error if a node does not answer."""
    ledgers = yield from find_ledgers(cluster)
    costs = yield from add_up_costs(ledgers, days=days)
    for error in ledgers.down.values():
        raise error
    return costs


def add_up_costs(ledgers: Ledgers, *, days: int) -> Steps[list[TableCost]]:
    """Add up the costs of each table, the most expensive first."""
    asked = {node: _query(databases, days=days) for node, databases in ledgers.loads.items() if databases}
    answers = yield from query_reachable("Add up what loads cost", asked, ledgers.down)
    by_table: dict[TableName, list[tuple[float, ...]]] = defaultdict(list)
    for database, name, *sums in (row for rows in answers.values() for row in rows):
        by_table[TableName(database, name)].append(tuple(sums))
    costs = []
    for target, of_nodes in by_table.items():
        loads, read_bytes, rows, seconds = map(sum, zip(*of_nodes, strict=True))
        costs.append(
            TableCost(
                database=target.database,
                table=target.table,
                loads=int(loads),
                read_bytes=int(read_bytes),
                rows=int(rows),
                node_seconds=round(seconds, 1),
            )
        )
    return sorted(costs, key=lambda cost: (-cost.node_seconds, cost.database, cost.table))


def _query(databases: Iterable[str], *, days: int) -> Sql:
    columns = "target_database, target_table, loaded_bytes, loaded_rows, insert_seconds, rows_by_node"
    loads = " UNION ALL ".join(
        f"SELECT {columns} FROM {table(TableName(database, LOADS_TABLE))} "
        f"WHERE event IN ('load', 'withheld') AND recorded_at >= now() - toIntervalDay({days})"
        for database in databases
    )
    return Sql(
        "SELECT target_database, target_table, count(), sum(loaded_bytes), sum(loaded_rows), "
        f"sum(insert_seconds * length(rows_by_node)) FROM ({loads}) GROUP BY target_database, target_table"
    )
