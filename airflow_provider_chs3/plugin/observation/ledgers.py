"""Find the ledgers of each node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import NamedTuple

from airflow_provider_chs3.core.ledger.table import ledgers_query, own_tables
from airflow_provider_chs3.core.model.models import Node, TableName
from airflow_provider_chs3.core.steps.fan_out import query_reachable
from airflow_provider_chs3.core.steps.operations import Steps
from airflow_provider_chs3.core.target.node_facts import RecordTable, other_schema
from airflow_provider_chs3.core.target.topology import LEDGER_TABLE, LOADS_TABLE, nodes_of
from airflow_provider_chs3.exceptions import Chs3Error


class Ledgers(NamedTuple):
    """The ledgers of the nodes that answered.

    Args:
        loads: Those of its tables of loads; most nodes have none.
        unread: What to do about those that are left out, of other versions of this package or dropped; empty if there
            are none.
        system_tables: Tables of `system` that the user sees; see `queue_of`.
        down: The error of each node that does not answer; further looks add theirs.
    """

    databases: Mapping[Node, list[str]]
    loads: Mapping[Node, list[str]]
    unread: str
    system_tables: Mapping[Node, Collection[str]]
    down: dict[Node, Chs3Error]

    @property
    def of_nodes(self) -> dict[Node, tuple[list[str], list[str]]]:
        """Both, of the nodes that have some."""
        return {
            node: (databases, self.loads[node])
            for node, databases in self.databases.items()
            if databases or self.loads[node]
        }


def find_ledgers(cluster: str | None) -> Steps[Ledgers]:
    """Find the ledgers of each node.

    Raises:
        PreflightError: If the cluster is not known.
        Chs3Error: If no host of the connection answers.
    """
    nodes = yield from nodes_of(cluster)
    down = dict[Node, Chs3Error]()
    answers = yield from query_reachable("Find the ledgers", dict.fromkeys(nodes, ledgers_query()), down)
    others = defaultdict[tuple[TableName, RecordTable], list[Node]](list)
    for node, rows in answers.items():
        for name, database, *fields in rows:
            if database != "system" and not (records := RecordTable(*fields)).is_current:
                others[TableName(database, name), records].append(node)
    unread = [other_schema({name: fields}, having, target="…") for (name, fields), having in sorted(others.items())]
    ledger_in, loads_in = (
        {database for rows in answers.values() for other, database, *_ in rows if other == name}
        for name in (LEDGER_TABLE, LOADS_TABLE)
    )
    unread += map(_dropped, sorted(loads_in - ledger_in))
    ledgers, loads = (
        {node: own_tables(rows, name) for node, rows in answers.items()} for name in (LEDGER_TABLE, LOADS_TABLE)
    )
    system_tables = {
        node: {name for name, database, *_ in rows if database == "system"} for node, rows in answers.items()
    }
    return Ledgers(ledgers, loads, " ".join(unread), system_tables, down)


def _dropped(database: str) -> str:
    return (
        f"{TableName(database, LEDGER_TABLE)} is gone from all nodes, but {TableName(database, LOADS_TABLE)} is not: "
        "somebody dropped it. Loads into the tables that it had stop; chs3 adopt records their periods again."
    )
