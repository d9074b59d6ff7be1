"""Read the state of a cluster's nodes, with two statements each however many tables there are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from airflow_provider_chs3.core.model.models import Node, NodeSpec, TableName
from airflow_provider_chs3.core.sql.quoting import Sql, one_of, readable
from airflow_provider_chs3.core.steps.fan_out import query_reachable, texts_of
from airflow_provider_chs3.core.steps.operations import Row, Steps
from airflow_provider_chs3.core.target.node_capacity import (
    Declared,
    Limits,
    NodeNow,
    SizedNode,
    physical_memory,
    size_nodes,
)
from airflow_provider_chs3.core.target.node_facts import METRICS, QUEUE, SIZE, NodeFacts, Target
from airflow_provider_chs3.core.target.topology import nodes_of
from airflow_provider_chs3.core.watch.merge_observation import queue_of
from airflow_provider_chs3.exceptions import Chs3Error, ConfigurationError
from airflow_provider_chs3.plugin.observation.cluster import (
    ClusterOverview,
    DiskOverview,
    FullTable,
    Inserts,
    NodeOverview,
    QueueEntry,
    Replication,
    RunningMerge,
)
from airflow_provider_chs3.plugin.observation.periods_facts import target_of
from airflow_provider_chs3.plugin.observation.running_inserts import running_insert
from airflow_provider_chs3.plugin.observation.speed.logs import NO_RIGHT

#: Tables, merges and entries of replication queues that are listed for each node; the others are only counted.
NAMED = 10
#: Threads for merges and mutations: the busy ones, and all.
POOL_METRICS = ("BackgroundMergesAndMutationsPoolTask", "BackgroundMergesAndMutationsPoolSize")


def state_query(facts: NodeFacts) -> Sql:
    """Return the query for memory, disks, the tables nearest to their limits, merges, replicas and inserts."""
    limits = one_of("name", Limits.__slots__)
    return Sql(f"""
SELECT
    {physical_memory(facts)},
    (SELECT sum(memory_usage) FROM system.processes),
    (SELECT groupArray((name, type, free_space, unreserved_space, total_space)) FROM system.disks),
    (SELECT groupArray((name, value)) FROM system.merge_tree_settings WHERE {limits}),
    (SELECT groupArray((name, value)) FROM system.replicated_merge_tree_settings WHERE {limits}),
    {_fullest_tables()},
    (SELECT groupArray((database, table, partition_id, toBool(is_mutation), progress, elapsed,
            total_size_bytes_compressed, num_parts))
        FROM (SELECT * FROM system.merges ORDER BY elapsed DESC LIMIT {NAMED})),
    (SELECT count() FROM system.merges),
    (SELECT groupArray((metric, value)) FROM system.metrics WHERE {one_of("metric", POOL_METRICS)}),
    (SELECT [count(), countIf(is_readonly), max(absolute_delay)] FROM system.replicas),
    (SELECT count() FROM {queue_of(facts.system_tables)}),
    (SELECT groupArray((database, table, type, new_part_name, dateDiff('second', create_time, now()), num_tries,
            {readable("last_exception")}, postpone_reason))
        FROM (SELECT * FROM {queue_of(facts.system_tables)} ORDER BY create_time LIMIT {NAMED})),
    (SELECT groupArray((initial_query_id, is_initial_query, read_rows, read_bytes, memory_usage, peak_memory_usage,
            written_rows, elapsed)) FROM system.processes WHERE match(initial_query_id, '^chs3_.*_insert'))
""")


def _fullest_tables() -> str:
    """Return the query for the tables nearest to their limits, with the partition that has the most parts."""
    # This determines only their order, in which a limit written as '2K' counts as the server's.
    return f"""(SELECT groupArray((database, table, engine, engine_full, fullest.1, fullest.2, fullest.3, parts)) FROM (
        SELECT database, table, engine, engine_full, fullest, parts FROM (
            SELECT database, table, argMax((partition_id, number, bytes), number) AS fullest, sum(number) AS parts
            FROM (SELECT database, table, partition_id, count() AS number, sum(bytes_on_disk) AS bytes
                FROM system.parts WHERE active AND database != 'system' GROUP BY ALL)
            GROUP BY ALL) AS counted
        INNER JOIN (SELECT database, name AS table, engine, engine_full FROM system.tables) AS named
        USING (database, table)
        ORDER BY greatest(fullest.2 / {_limit("parts_to_delay_insert")}, parts / {_limit("max_parts_in_total")}) DESC
        LIMIT {NAMED}))"""


def _limit(name: str) -> str:
    server = f"(SELECT any(toUInt64(value)) FROM system.merge_tree_settings WHERE name = '{name}')"
    of_table = f"toUInt64OrZero(extract(engine_full, '{name} = (\\\\d+)'))"
    return f"if({of_table} > 0, {of_table}, {server})"


#: Unlimited storage, such as S3, reports more than an exbibyte.
_UNLIMITED_BYTES = 1024**6


def look_at_cluster(cluster: str | None, specs: Declared) -> Steps[ClusterOverview]:
    """Read the state of every node; one that does not answer is reported as down."""
    nodes = yield from nodes_of(cluster)
    down: dict[Node, Chs3Error] = {}
    size = Sql(f"SELECT version(), uptime(), {SIZE}")
    sizes = yield from query_reachable("Read the size of the nodes", dict.fromkeys(nodes, size), down)
    facts = {node: _facts(*rows[0][2:]) for node, rows in sizes.items()}
    statements: dict[Node, Sql] = {node: state_query(node_facts) for node, node_facts in facts.items()}
    states = yield from query_reachable("Read the state of the nodes", statements, down)
    processes = [(node, process) for node, rows in states.items() for process in rows[0][-1]]
    return ClusterOverview(
        cluster=cluster,
        nodes={
            node: _node_overview(node, sizes[node][0], rows[0], facts[node], specs) for node, rows in states.items()
        },
        inserts=tuple(
            insert
            for query_id in sorted({process[0] for _, process in processes})
            if (insert := running_insert(query_id, processes, cluster))
        ),
        down=texts_of(down),
    )


def _facts(cores: int, memory_bytes: int, macros: Iterable[Row], system_tables: Iterable[str]) -> NodeFacts:
    return NodeFacts(
        target=None,
        databases={},
        known_settings={},
        measured=NodeSpec(cores=int(cores), memory_bytes=int(memory_bytes)),
        macros=dict(macros),
        system_tables=frozenset(system_tables),
    )


def _node_overview(node: Node, size: Row, state: Sequence[Any], facts: NodeFacts, specs: Declared) -> NodeOverview:
    machine_bytes, in_use_bytes, disks, limits, replicated_limits, fullest = state[:6]
    merges, merges_running, pool, replicas, queued, queue = state[6:12]
    sized, error = _size(node, facts, int(machine_bytes), specs)
    would_show = {METRICS: True, QUEUE: queued > 0}
    return NodeOverview(
        version=size[0],
        uptime_seconds=size[1],
        size=sized,
        size_error=error,
        measured=facts.measured,
        machine_memory_bytes=int(machine_bytes),
        memory_in_use_bytes=max(0, int(in_use_bytes)),
        disks=tuple(_disk(*disk) for disk in disks),
        fullest=tuple(_full_table(full_table, dict(limits), dict(replicated_limits)) for full_table in fullest),
        merges=tuple(RunningMerge(*merge) for merge in merges),
        merges_running=merges_running,
        pool_busy=dict(pool).get(POOL_METRICS[0], 0),
        pool_size=dict(pool).get(POOL_METRICS[1], 0),
        # Entries of `queue_of` only stand for those of a queue that the user cannot read.
        replication=_replication(replicas, queued, queue if QUEUE in facts.system_tables else ()),
        unread=tuple(
            f"system.{name}: {NO_RIGHT}"
            for name, shows in would_show.items()
            if shows and name not in facts.system_tables
        ),
    )


def _size(node: Node, facts: NodeFacts, machine_bytes: int, specs: Declared) -> tuple[SizedNode | None, str]:
    nowhere = TableName("", "")
    context = Target(cluster=None, target=nowhere, ledger=nowhere, nodes={node: facts})
    states = {node: NodeNow(physical_memory_bytes=machine_bytes)}
    try:
        return size_nodes(context, states, argument={}, connection=specs)[node], ""
    except ConfigurationError as error:
        return None, str(error)


def _disk(name: str, kind: str, free_bytes: int, unreserved_bytes: int, total_bytes: int) -> DiskOverview:
    if total_bytes >= _UNLIMITED_BYTES:
        return DiskOverview(name, kind, None, None, None)
    return DiskOverview(name, kind, free_bytes, max(0, free_bytes - unreserved_bytes), total_bytes)


def _full_table(row: Row, limits: Mapping[str, str], replicated_limits: Mapping[str, str]) -> FullTable:
    database, table, engine, engine_full, partition_id, partition_parts, partition_bytes, table_parts = row
    target = target_of(engine, engine_full)
    allowed = Limits.of(replicated_limits if target.is_replicated else limits, target.settings)
    # Where parts are large, their number in a partition does not matter.
    counts = partition_bytes <= partition_parts * allowed.max_avg_part_size_for_too_many_parts
    inserts: Inserts = "accepted"
    if counts and partition_parts >= allowed.parts_to_delay_insert:
        inserts = "delayed"
    if (counts and partition_parts >= allowed.parts_to_throw_insert) or table_parts >= allowed.max_parts_in_total:
        inserts = "rejected"
    return FullTable(
        database=database,
        table=table,
        partition_id=partition_id,
        partition_parts=partition_parts,
        table_parts=table_parts,
        parts_to_delay_insert=allowed.parts_to_delay_insert,
        parts_to_throw_insert=allowed.parts_to_throw_insert,
        max_parts_in_total=allowed.max_parts_in_total,
        inserts=inserts,
    )


def _replication(replicas: Iterable[int], queued: int, queue: Iterable[Row]) -> Replication | None:
    tables, readonly_tables, delay_seconds = replicas
    if not tables:
        return None
    return Replication(
        tables=tables,
        readonly_tables=readonly_tables,
        delay_seconds=delay_seconds,
        queued=queued,
        oldest=tuple(QueueEntry(*entry) for entry in queue),
    )
