"""Check that the nodes replicate the target as the cluster's definition says, before anything is written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace

from airflow_provider_chs3.core.cluster.node_facts import TargetContext
from airflow_provider_chs3.core.cluster.topology import KeeperPlace
from airflow_provider_chs3.core.preflight.privileges import check_privileges, privileges_of_replication
from airflow_provider_chs3.core.sql.quoting import Sql, in_table, literal
from airflow_provider_chs3.core.values.models import Node
from airflow_provider_chs3.core.workflow.operations import QueryNodes, Row, Steps
from airflow_provider_chs3.exceptions import PreflightError


def find_replicas(context: TargetContext) -> Steps[TargetContext]:
    """Ask every node for the path of its replica of the target in Keeper, if the target is replicated.

    Args:
        context: The nodes' facts, with a target that passed the preflight.

    Returns:
        The same with these paths.

    Raises:
        PreflightError: If privileges are missing, or the nodes do not replicate as the cluster's definition says.
    """
    if not context.table_facts.is_replicated:
        return context
    yield from check_privileges(tuple(context.nodes), privileges_of_replication(context.target, context.ledger))
    answers = yield from _ask(context)
    places = _places(answers)
    if findings := [*_databases(context, answers), *_shards(context, places)]:
        raise PreflightError(*findings)
    return replace(context, nodes={node: replace(facts, keeper=places[node]) for node, facts in context.nodes.items()})


def check_shards(context: TargetContext) -> Steps[None]:
    """Check that no two shards have the same rows, and all replicas of one do, if the target is replicated.

    Args:
        context: The nodes' facts; every node has the target.

    Raises:
        PreflightError: If the nodes do not replicate as the cluster's definition says.
    """
    if not context.table_facts.is_replicated:
        return
    answers = yield from _ask(context)
    if findings := [*_shards(context, _places(answers))]:
        raise PreflightError(*findings)


def _ask(context: TargetContext) -> QueryNodes:
    """Return the step that asks every node for its replica, and for the engine of staging's database."""
    target = context.target
    sql = Sql(
        "SELECT zookeeper_name, zookeeper_path, replica_name, "
        f"(SELECT any(engine) FROM system.databases WHERE name = {literal(context.staging_database)}) "
        f"FROM system.replicas WHERE {in_table(target)}"
    )
    return QueryNodes(name=f"Ask for the replicas of {target}", sql=dict.fromkeys(context.nodes, sql))


def _places(answers: Mapping[Node, list[Row]]) -> dict[Node, KeeperPlace]:
    return {node: KeeperPlace(*rows[0][:3]) for node, rows in answers.items()}


def _databases(context: TargetContext, answers: Mapping[Node, list[Row]]) -> Iterator[str]:
    database = context.staging_database
    if any(rows[0][3] == "Replicated" for rows in answers.values()):
        yield (
            f"Database {database!r} has the engine Replicated, which creates each table on every node: give a "
            "staging_database of engine Atomic that exists on every node."
        )


def _shards(context: TargetContext, places: Mapping[Node, KeeperPlace]) -> Iterator[str]:
    """Find nodes that replicate each other but are different shards in the cluster's definition, or the reverse.

    Shards that replicate each other would replace each other's rows, one after the other, and be unloaded twice.
    """
    paths: dict[int, set[tuple[str, str]]] = defaultdict(set)
    shards: dict[tuple[str, str], set[int]] = defaultdict(set)
    for node, place in places.items():
        paths[node.shard_num].add((place.keeper, place.path))
        shards[place.keeper, place.path].add(node.shard_num)
    for shard, found in paths.items():
        if len(found) > 1:
            on = ", ".join(f"{node}: {place.path}" for node, place in places.items() if node.shard_num == shard)
            yield (
                f"The nodes of shard {shard} of cluster {context.cluster!r} do not replicate {context.target} to each "
                f"other ({on}): give its replicas one path in Keeper, or name another cluster."
            )
    for (_, path), numbers in shards.items():
        if len(numbers) > 1:
            yield (
                f"Shards {', '.join(map(str, sorted(numbers)))} of cluster {context.cluster!r} replicate "
                f"{context.target} to each other ({path}), so all of them have the same rows: name a cluster in which "
                "they are replicas of one shard."
            )
