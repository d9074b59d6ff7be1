"""Replicated targets: replicas hold the same parts, so one replica of each shard publishes and the others follow.

Every replica reads objects and writes their rows, so staging is replicated too, under its own path in Keeper: if it
were plain, a shard's rows would be spread over its replicas, and no single REPLACE PARTITION could publish them.
It must be a single one: two at once, one on each replica, were seen to leave the rows of both (ClickHouse 18.16). The
others follow with the parts that they already have in staging, so nothing is transferred twice.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_chs3.core.model.models import Node, SettingValues, TableName
from airflow_provider_chs3.core.sql.quoting import Sql, in_table, is_table, table
from airflow_provider_chs3.core.steps.operations import QueryNodes, Sleep, Steps
from airflow_provider_chs3.core.target.node_facts import TargetContext
from airflow_provider_chs3.exceptions import ClickHouseServerError, ReplicasBehindError, TransientError

#: Code of ClickHouse for a replica that did not follow in time.
_TIMEOUT_EXCEEDED = 159
#: How long a server may take to know all records, which are small.
_RECORDS_SECONDS = 60
#: How long a server may take to show a new table, and to open it for writing.
_OPENS_TRIES, _OPENS_POLL_SECONDS = 300, 0.1


def follow(context: TargetContext, name: TableName, *, wait_seconds: int | None = None) -> Steps[None]:
    """Wait until all replicas of a table have the same data; do nothing if it is not replicated.

    This does not wait for merges (`LIGHTWEIGHT`).

    Raises:
        ReplicasBehindError: If a replica takes longer. The next run does what is missing.
    """
    if context.table_facts.is_replicated:
        yield from _sync(context, name, wait_seconds=wait_seconds)


def catch_up(context: TargetContext, *names: TableName) -> Steps[None]:
    """Have every node know what others have written to tables of records; do nothing where nodes have their own.

    Raises:
        ReplicasBehindError: If a server does not get there in time.
    """
    if context.shared:
        for name in names:
            yield from _sync(context, name, wait_seconds=_RECORDS_SECONDS)


def run_ddl(
    context: TargetContext,
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
    context: TargetContext,
    table_name: TableName,
    sql: Mapping[Node, Sql],
    *,
    name: str,
    settings: SettingValues | None = None,
    query_id: str | None = None,
) -> Steps[None]:
    """Create a table of the package; where a shard has one, wait until all of its servers have opened it for writing.

    A server takes a table of such a database for created before it has opened it, and INSERTs end with 242 until then.

    Raises:
        TransientError: If it is not there in time as a replicated table.
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


def _sync(context: TargetContext, name: TableName, *, wait_seconds: int | None = None) -> Steps[None]:
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
