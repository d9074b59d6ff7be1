"""Replicated targets: replicas hold the same parts, so one replica of each shard publishes and the others follow.

Every replica reads objects and writes their rows, so staging is replicated too, under its own path in Keeper: if it
were plain, a shard's rows would be spread over its replicas, and no single REPLACE PARTITION could publish them.
It must be a single one: two at once, one on each replica, were seen to leave the rows of both (ClickHouse 18.16). The
others follow with the parts that they already have in staging, so nothing is transferred twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace

from airflow_provider_chs3.core.model.models import Node, SettingValues, TableName
from airflow_provider_chs3.core.sql.quoting import Sql, in_table, is_table, table
from airflow_provider_chs3.core.steps.operations import QueryNodes, Sleep, Steps
from airflow_provider_chs3.core.target.node_facts import Target
from airflow_provider_chs3.core.target.privileges import check_privileges, privileges_of_replication
from airflow_provider_chs3.core.target.topology import KeeperPlace
from airflow_provider_chs3.exceptions import ClickHouseServerError, PreflightError, ReplicasBehindError, TransientError

#: Code of ClickHouse for a replica that did not follow in time.
_TIMEOUT_EXCEEDED = 159
#: How long a server may take to know all records, which are small.
_RECORDS_SECONDS = 60
#: How long a server may take to show a new table, and to open it for writing.
_OPENS_TRIES, _OPENS_POLL_SECONDS = 300, 0.1


def follow(context: Target, name: TableName, *, wait_seconds: int | None = None) -> Steps[None]:
    """Wait until all replicas of a table have the same data; do nothing if it is not replicated.

    This does not wait for merges (`LIGHTWEIGHT`).
    """
    if context.table_facts.is_replicated:
        yield from _sync(context, name, wait_seconds=wait_seconds)


def catch_up(context: Target, *names: TableName) -> Steps[None]:
    """Have nodes with tables of records know what others wrote to them; do nothing where each has its own."""
    for name in names if context.shared else ():
        field = "has_ledger" if name == context.ledger else "objects"
        if nodes := {node: facts for node, facts in context.nodes.items() if getattr(facts, field)}:
            yield from _sync(replace(context, nodes=nodes), name, wait_seconds=_RECORDS_SECONDS)


def run_ddl(
    context: Target,
    sql: Mapping[Node, Sql],
    *,
    name: str,
    settings: SettingValues | None = None,
    query_id: str | None = None,
) -> Steps[None]:
    """Create, drop or rename tables of the package: on every node, or once for all servers of a shard.

    Of a shard, a server does so that runs the statements of its database: one that is stuck at a table of a dead load
    goes on once another has dropped that.
    """
    if not context.shared:
        yield from QueryNodes(name=name, sql=sql, settings=settings or {}, query_id=query_id)
        return
    texts = {node.shard_num: sql[node] for node in sorted(sql, reverse=True)}
    # A server that has the table, if it can.
    first = sorted(context.nodes, key=lambda node: (context.is_stuck(node), node not in sql, node))
    of_shards = {node.shard_num: node for node in reversed(first) if node.shard_num in texts}
    try:
        yield from QueryNodes(
            name=name,
            sql={node: texts[shard] for shard, node in of_shards.items()},
            settings={**(settings or {}), **context.ddl_settings_of(context.staging_database)},
            query_id=query_id,
        )
    except ClickHouseServerError as error:
        # It goes on: who needs what it does looks for that.
        if error.code != _TIMEOUT_EXCEEDED:
            raise


def create_table(
    context: Target,
    table_name: TableName,
    sql: Mapping[Node, Sql],
    *,
    name: str,
    settings: SettingValues | None = None,
    query_id: str | None = None,
) -> Steps[None]:
    """Create a table of the package; where a shard has one, wait until all of its servers have opened it for writing.

    A server takes a table of such a database for created before it has opened it, and INSERTs end with 242 until then.
    """
    yield from run_ddl(context, sql, name=name, settings=settings, query_id=query_id)
    if not context.shared:
        return
    shards = {node.shard_num for node in sql}
    nodes = [node for node in context.nodes if node.shard_num in shards]
    # Whether ClickHouse Cloud lists tables of engine Shared… among replicas, nobody has tried.
    open_replicas = f"SELECT count() FROM system.replicas WHERE {in_table(table_name)} AND NOT is_readonly"
    is_open = Sql(
        f"SELECT count() FROM system.tables WHERE {is_table(table_name)} "
        f"AND (startsWith(engine, 'Shared') OR ({open_replicas}) > 0)"
    )
    for _ in range(_OPENS_TRIES):
        answers = yield from QueryNodes(name=f"Wait for {table_name}", sql=dict.fromkeys(nodes, is_open))
        nodes = [node for node, rows in answers.items() if not rows[0][0]]
        if not nodes:
            return
        yield from Sleep(name="Wait for servers to open it", seconds=_OPENS_POLL_SECONDS)
    raise TransientError(
        f"{table_name} is not there as a replicated table that takes rows {context.place(nodes)}, "
        f"{_OPENS_TRIES * _OPENS_POLL_SECONDS:g} s after CREATE TABLE. Look at system.replicas there (is_readonly), "
        "and at the server's log: it may not reach Keeper, or be stuck at an earlier statement of its database, as "
        "after a crash (docs/replicas.md)."
    )


def _sync(context: Target, name: TableName, *, wait_seconds: int | None = None) -> Steps[None]:
    sql = Sql(f"SYSTEM SYNC REPLICA {table(name)} LIGHTWEIGHT")
    settings = {} if wait_seconds is None else {"receive_timeout": wait_seconds}
    try:
        yield from context.on_each(name=f"Wait for the replicas of {name}", sql=sql, settings=settings)
    except ClickHouseServerError as error:
        if error.code != _TIMEOUT_EXCEEDED:
            raise
        down = ", ".join(map(str, context.absent))
        raise ReplicasBehindError(
            f"Replicas of {name} have not caught up with each other in time (159, from {error.host}). Look at "
            "system.replication_queue on each of them: postpone_reason and last_exception say what they wait for. "
            + (f"{down} may have it, but is down: start it. " if down else "")
            + "If somebody stopped them, SYSTEM START FETCHES and SYSTEM START REPLICATION QUEUES start them again."
        ) from error


def find_replicas(context: Target) -> Steps[Target]:
    """Return the target with the path in Keeper of each node's replica, if it is replicated."""
    check_databases(context)
    if not context.table_facts.is_replicated:
        return context
    needed = privileges_of_replication(context.target, context.ledger, is_shared=bool(context.shared))
    yield from check_privileges(tuple(context.nodes), needed)
    places = yield from _find_places(context)
    return replace(context, nodes={node: replace(facts, keeper=places[node]) for node, facts in context.nodes.items()})


def check_databases(context: Target) -> None:
    """Check that statements of a load take effect where they are sent, and on all servers that share the table."""
    if findings := [*_databases(context)]:
        raise PreflightError(*findings)


def check_shards(context: Target) -> Steps[None]:
    """Check that no two shards have the same rows, and all replicas of one do, if the target is replicated."""
    if context.table_facts.is_replicated:
        yield from _find_places(context)


def _find_places(context: Target) -> Steps[dict[Node, KeeperPlace]]:
    target = context.target
    sql = Sql(f"SELECT zookeeper_name, zookeeper_path, replica_name FROM system.replicas WHERE {in_table(target)}")
    answers = yield from context.on_each(name=f"Ask for the replicas of {target}", sql=sql)
    # In a database of engine Shared, a table of an engine that is not listed has the same UUID on all servers.
    uuids = {node: facts.target.uuid for node, facts in context.nodes.items() if facts.target}
    places = {node: KeeperPlace(*(rows[0] if rows else ("", uuids[node], str(node)))) for node, rows in answers.items()}
    if findings := [*_shards(context, places)]:
        raise PreflightError(*findings)
    return places


def _databases(context: Target) -> Iterator[str]:
    """Find databases of engine Replicated that would run statements elsewhere than where they are sent."""
    target, facts, staging = context.target, context.table_facts, context.staging_database
    of_target = context.nodes[context.coordinator].databases.get(target.database)
    if (of_target or context.shared) and not facts.is_replicated:
        yield (
            f"Database {(target.database if of_target else staging)!r} has the engine Replicated, which would run each "
            f"REPLACE PARTITION of {target}, a plain {facts.engine}, on all servers, each with rows of its own: create "
            f"it as Replicated{facts.engine}, or in a database of engine Atomic."
        )
    elif of_target and of_target.shards > 1:
        yield (
            f"Database {target.database!r} of engine Replicated has {of_target.shards} shards, and runs each REPLACE "
            "PARTITION on all of them. Create a database for each shard, with the shard in its path in Keeper, such as "
            f"Replicated('/clickhouse/databases/{target.database}/{{shard}}', '{{shard}}', '{{replica}}')."
        )
    elif context.shared:
        yield from _servers(context)


def _servers(context: Target) -> Iterator[str]:
    """Find servers of the staging database that the load would not ask, and tables that are not one table."""
    nodes, database = (*context.nodes, *context.absent), context.staging_database
    for node, facts in context.nodes.items():
        shared, replicas = facts.databases[database], [other for other in nodes if other.shard_num == node.shard_num]
        if shared and shared.servers not in (None, len(replicas)):
            yield (
                f"Database {database!r} of engine Replicated has {shared.servers or 'further'} servers, of which "
                f"{'cluster ' + repr(context.cluster) if context.cluster else 'the connection'} names "
                f"{len(replicas)} ({', '.join(map(str, replicas))}). A load must ask all of them: name a cluster of "
                f"exactly these, as cluster={database!r} is. SYSTEM DROP DATABASE REPLICA removes one that is lost."
            )
            return
    uuids = {(node.shard_num, facts.target.uuid) for node, facts in context.nodes.items() if facts.target}
    if len(uuids) > len(context.publishers):
        yield (
            f"{context.target} has another UUID on each of its replicas, so a ledger that they share would not know "
            f"it: name a staging_database of engine Atomic instead of {database!r}, which is of engine Replicated."
        )


def _shards(context: Target, places: Mapping[Node, KeeperPlace]) -> Iterator[str]:
    """Find nodes that replicate each other but are different shards in the cluster's definition, or the reverse.

    Shards that replicate each other would replace each other's rows, one after the other, and be unloaded twice.
    """
    paths: dict[int, set[tuple[str, str]]] = defaultdict(set)
    shards: dict[tuple[str, str], set[int]] = defaultdict(set)
    for node, place in places.items():
        paths[node.shard_num].add((place.keeper, place.path))
        shards[place.keeper, place.path].add(node.shard_num)
    for shard, places_of_shard in paths.items():
        if len(places_of_shard) > 1:
            on = ", ".join(f"{node}: {place.path}" for node, place in places.items() if node.shard_num == shard)
            yield (
                f"The nodes of shard {shard} of cluster {context.cluster!r} do not replicate {context.target} to each "
                f"other ({on}): create its replicas with one path in Keeper, or name another cluster."
            )
    for (_, path), numbers in shards.items():
        if len(numbers) > 1:
            yield (
                f"Shards {', '.join(map(str, sorted(numbers)))} of cluster {context.cluster!r} replicate "
                f"{context.target} to each other ({path}), so all of them have the same rows: name a cluster in which "
                "they are replicas of one shard."
            )
