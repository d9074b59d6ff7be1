"""What a user must be allowed to do: asked of every node before anything is written.

`CHECK GRANT` has been there since 24.11. It takes several privileges at once and answers 1 if all are granted, by roles
and wildcards too; it asks of no table whether it exists.
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_chs3.core.models import Node, TableName
from airflow_provider_chs3.core.node_specs import shown
from airflow_provider_chs3.core.place import Place
from airflow_provider_chs3.core.request import LoadRequest
from airflow_provider_chs3.core.sql import Sql, identifier, table
from airflow_provider_chs3.core.steps import AskNodes, Steps
from airflow_provider_chs3.exceptions import PreflightError

#: What a load reads of `system`, beside what everybody may read: tables, columns, databases, settings.
_SYSTEM_TABLES = (
    "asynchronous_metrics",
    "data_skipping_indices",
    "disks",
    "macros",
    "merge_tree_settings",
    "parts",
    "processes",
    "projections",
    "server_settings",
    "storage_policies",
)


def privileges_of_load(request: LoadRequest, place: Place) -> tuple[str, ...]:
    """The privileges that a load needs on every node, as they stand in a GRANT.

    REPLACE PARTITION asks for INSERT and ALTER DELETE on the target. Table functions ask for CREATE TEMPORARY TABLE,
    which CREATE TABLE brings with it.

    Args:
        request: The load.
        place: Where it takes place.
    """
    needed = [f"SELECT ON system.{name}" for name in _SYSTEM_TABLES]
    needed += [f"INSERT ON {table(place.target)}", "READ ON S3"]
    if request.source.credentials.named_collection:
        needed.append(f"NAMED COLLECTION ON {identifier(request.source.credentials.named_collection)}")
    if place.cluster:
        needed += ["SELECT ON system.clusters", "WRITE ON REMOTE"]
    if request.is_durable:
        needed += privileges_of_detaching(place.cluster)
    if request.policies.write_mode == "append":
        return (*needed, "CREATE TEMPORARY TABLE ON *.*")
    own_tables = _own_tables(place.ledger)
    needed += [f"{each} ON {own_tables}" for each in ("SELECT", "INSERT", "CREATE TABLE", "DROP TABLE")]
    return (*needed, f"ALTER DELETE ON {table(place.target)}", "TABLE ENGINE ON MergeTree")


def privileges_of_detaching(cluster: str | None) -> tuple[str, ...]:
    """The further privileges on every node that a load needs to look for an insert which another process started.

    Args:
        cluster: The cluster; None for a single server.
    """
    return ("SELECT ON system.query_log", *(["READ ON REMOTE"] if cluster else []))


def privileges_of_replication(target: TableName, ledger: TableName) -> tuple[str, ...]:
    """The further privileges that a load into a replicated table needs on every node.

    Args:
        target: The local table.
        ledger: The ledger, beside which staging is.
    """
    return (
        "SELECT ON system.replicas",
        "TABLE ENGINE ON ReplicatedMergeTree",
        *(f"SYSTEM SYNC REPLICA ON {each}" for each in (table(target), _own_tables(ledger))),
    )


def _own_tables(ledger: TableName) -> str:
    """The ledger and every staging table, by a wildcard, which privileges have had since 24.10."""
    return f"{identifier(ledger.database)}.chs3_*"


def check_privileges(nodes: Sequence[Node], needed: Sequence[str]) -> Steps[None]:
    """Ask every node, with one statement, whether the user has all privileges.

    Args:
        nodes: The nodes.
        needed: The privileges.

    Raises:
        PreflightError: If one is missing anywhere, with the GRANT for each node.
    """
    answers = yield _check(nodes, ", ".join(needed))
    lacking = [node for node, rows in answers.items() if not rows[0][0]]
    if not lacking:
        return
    missing: dict[Node, list[str]] = {node: [] for node in lacking}
    for privilege in needed:
        answers = yield _check(lacking, privilege)
        for node, rows in answers.items():
            if not rows[0][0]:
                missing[node].append(privilege)
    ask = AskNodes(name="Ask for the user", sql=dict.fromkeys(lacking, Sql("SELECT currentUser()")))
    users = {node: rows[0][0] for node, rows in (yield ask).items()}
    raise PreflightError(
        [
            f"User {users[node]!r} lacks privileges on {shown(node)}: run GRANT {', '.join(privileges)} TO "
            f"{identifier(users[node])} there."
            for node, privileges in missing.items()
        ]
    )


def _check(nodes: Sequence[Node], privileges: str) -> AskNodes:
    return AskNodes(name="Ask for privileges", sql=dict.fromkeys(nodes, Sql(f"CHECK GRANT {privileges}")))
