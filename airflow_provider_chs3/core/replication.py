"""Replicated targets: their replicas hold the same parts, so that one of each shard publishes and the others follow.

Every replica reads objects and writes what it reads, so staging is replicated too, under a path of its own in Keeper:
where it was plain, the rows of a shard would lie on all of its replicas, a part on each, and no single REPLACE
PARTITION could put them into place. It must be a single one: two at once, one on each replica, were seen to leave the
rows of both (ClickHouse 18.16). The others follow by what they have of staging already, so that nothing travels twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from airflow_provider_chs3.core.ledger import MonthOnNode, Record
from airflow_provider_chs3.core.models import Node, TableName
from airflow_provider_chs3.core.node_specs import shown
from airflow_provider_chs3.core.place import KeeperPlace
from airflow_provider_chs3.core.privileges import check_privileges, privileges_of_replication
from airflow_provider_chs3.core.sql import Sql, literal, table
from airflow_provider_chs3.core.steps import AskNodes, Row, Say, Steps
from airflow_provider_chs3.core.target import Surroundings
from airflow_provider_chs3.exceptions import ClickHouseServerError, PreflightError

#: Code of ClickHouse for a replica that did not follow in time.
_NOT_CAUGHT_UP = 159
#: What a replica that came back lacks is minutes old in the worst case, and fetched as it is.
_CATCH_UP_SECONDS = 60


def find_replicas(around: Surroundings) -> Steps[Surroundings]:
    """Ask every node where in Keeper its replica of the target is, where the target is replicated.

    Args:
        around: What the nodes said, with a target that passed the preflight.

    Returns:
        The same, with these places.

    Raises:
        PreflightError: If privileges are missing, or the nodes do not replicate as the cluster says.
    """
    if not around.shape.is_replicated:
        return around
    yield from check_privileges(tuple(around.nodes), privileges_of_replication(around.target, around.ledger))
    target, database = around.target, around.staging_database
    sql = Sql(
        "SELECT zookeeper_name, zookeeper_path, replica_name, "
        f"(SELECT any(engine) FROM system.databases WHERE name = {literal(database)}) FROM system.replicas "
        f"WHERE database = {literal(target.database)} AND table = {literal(target.table)}"
    )
    answers = yield AskNodes(name=f"Ask for the replicas of {target}", sql=dict.fromkeys(around.nodes, sql))
    places = {node: KeeperPlace(*rows[0][:3]) for node, rows in answers.items()}
    if findings := [*_databases(around, answers), *_shards(around, places)]:
        raise PreflightError(findings)
    return replace(around, nodes={node: replace(facts, keeper=places[node]) for node, facts in around.nodes.items()})


def _databases(around: Surroundings, answers: Mapping[Node, list[Row]]) -> Iterator[str]:
    database = around.staging_database
    if any(rows[0][3] == "Replicated" for rows in answers.values()):
        yield (
            f"Database {database!r} has the engine Replicated, which repeats on every node what is created on one: "
            "give a staging_database of engine Atomic, on every node."
        )


def _shards(around: Surroundings, places: Mapping[Node, KeeperPlace]) -> Iterator[str]:
    """Nodes that are replicas of each other, but not by the cluster; or the other way round.

    Shards that replicate each other would replace each other's rows, one after the other.
    """
    paths: dict[int, set[tuple[str, str]]] = defaultdict(set)
    shards: dict[tuple[str, str], set[int]] = defaultdict(set)
    for node, place in places.items():
        paths[node.shard_num].add((place.keeper, place.path))
        shards[place.keeper, place.path].add(node.shard_num)
    for shard, found in paths.items():
        if len(found) > 1:
            on = ", ".join(f"{shown(node)}: {place.path}" for node, place in places.items() if node.shard_num == shard)
            yield (
                f"The nodes of shard {shard} of cluster {around.cluster!r} do not replicate {around.target} to each "
                f"other ({on}): give its replicas one path in Keeper, or name another cluster."
            )
    for (_, path), numbers in shards.items():
        if len(numbers) > 1:
            yield (
                f"Shards {', '.join(map(str, sorted(numbers)))} of cluster {around.cluster!r} replicate "
                f"{around.target} to each other ({path}), so that each would replace the other's rows: name a cluster "
                "in which they are replicas of one shard."
            )


def follow(around: Surroundings, name: TableName, *, wait_seconds: int | None = None) -> Steps[None]:
    """Wait until every replica of a table has what any replica of it has; nothing to do where it is not replicated.

    Merges are not waited for (`LIGHTWEIGHT`). A replica that does not manage within the server's `receive_timeout`
    (300 s by default) ends in error 159, and the next run does what is missing.

    Args:
        around: The nodes.
        name: The table.
        wait_seconds: How long; None leaves it to the server.
    """
    if around.shape.is_replicated:
        sql = Sql(f"SYSTEM SYNC REPLICA {table(name)} LIGHTWEIGHT")
        settings = {} if wait_seconds is None else {"receive_timeout": wait_seconds}
        yield around.on_each(name=f"Wait for the replicas of {name}", sql=sql, settings=settings)


def look_up_caught_up(
    around: Surroundings, look_up: Callable[[], Steps[dict[Node, MonthOnNode]]]
) -> Steps[dict[Node, MonthOnNode]]:
    """Look a month up; where replicas differ in it, once more when they have caught up with each other.

    One that was down, and has just come back, holds what the month was before.

    Args:
        around: The nodes.
        look_up: Asks every node for the month.
    """
    months = yield from look_up()
    states = {(node.shard_num, month.state.rows, month.state.max_block) for node, month in months.items()}
    if not around.shape.is_replicated or len(states) == len(around.publishers):
        return months
    try:
        yield from follow(around, around.target, wait_seconds=_CATCH_UP_SECONDS)
    except ClickHouseServerError as error:
        if error.code != _NOT_CAUGHT_UP:
            raise
        yield Say(name=f"Replicas of {around.target} have not caught up with each other in {_CATCH_UP_SECONDS} s.")
    return (yield from look_up())


def with_records_of_replicas(around: Surroundings, months: Mapping[Node, MonthOnNode]) -> dict[Node, MonthOnNode]:
    """Let each replica go by the newest record of the month that any of its shard has.

    Block numbers come from Keeper and are the same on all replicas. One that was set up anew, or was down while others
    published, has got the rows from them, but not the records.

    Args:
        around: The nodes.
        months: What each node has.
    """
    return records_of_replicas(months) if around.shape.is_replicated else dict(months)


def records_of_replicas(months: Mapping[Node, MonthOnNode]) -> dict[Node, MonthOnNode]:
    """The same, of a table that is replicated."""
    newest: dict[int, Record] = {}
    for node, month in months.items():
        known = newest.get(node.shard_num)
        if month.record and (known is None or month.record.sequence > known.sequence):
            newest[node.shard_num] = month.record
    return {node: _with_record(month, newest.get(node.shard_num)) for node, month in months.items()}


def _with_record(month: MonthOnNode, newest: Record | None) -> MonthOnNode:
    own = month.record
    if newest is None or (own and (own.attempt, own.event) == (newest.attempt, newest.event)):
        return month
    return replace(month, record=newest, is_of_replica=True)
