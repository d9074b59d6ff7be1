"""How the nodes of a cluster are asked: two statements each, however many tables there are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from airflow_provider_chs3.core.cluster.node_capacity import Declared, NodeNow, SizedNode, size_nodes
from airflow_provider_chs3.core.cluster.node_facts import NodeFacts, Surroundings
from airflow_provider_chs3.core.cluster.topology import nodes_of
from airflow_provider_chs3.core.sql.quoting import Sql
from airflow_provider_chs3.core.values.merge_tree_limits import Limits
from airflow_provider_chs3.core.values.models import Node, NodeSpec, TableName
from airflow_provider_chs3.core.workflow.fan_out import texts_of, try_nodes
from airflow_provider_chs3.core.workflow.operations import Row, Steps
from airflow_provider_chs3.exceptions import Chs3Error, ConfigurationError
from airflow_provider_chs3.plugin.observation import cluster_statements
from airflow_provider_chs3.plugin.observation.cluster import (
    ClusterOverview,
    DiskOverview,
    FullTable,
    NodeOverview,
    QueueEntry,
    Replication,
    RunningMerge,
)
from airflow_provider_chs3.plugin.observation.cluster_statements import POOL_METRICS
from airflow_provider_chs3.plugin.observation.months_facts import target_of

#: Storages without an end, such as S3, tell more than an exbibyte.
_ENDLESS_BYTES = 1024**6


def look_at_cluster(cluster: str | None, specs: Declared) -> Steps[ClusterOverview]:
    """Ask every node how it is; one that does not answer is told of, and left out.

    Args:
        cluster: The cluster; None is the single server that the connection leads to.
        specs: The connection's `node_specs`.

    Raises:
        PreflightError: If the cluster is not known.
        Chs3Error: If no host of the connection answers.
    """
    nodes = yield from nodes_of(cluster)
    down: dict[Node, Chs3Error] = {}
    size = cluster_statements.size()
    sizes = yield from try_nodes("Ask the nodes for their size", dict.fromkeys(nodes, size), down)
    facts = {node: _facts(*rows[0][2:]) for node, rows in sizes.items()}
    statements: dict[Node, Sql] = {node: cluster_statements.state(each) for node, each in facts.items()}
    states = yield from try_nodes("Ask the nodes how they are", statements, down)
    told = {node: _node_overview(node, sizes[node][0], rows[0], facts[node], specs) for node, rows in states.items()}
    return ClusterOverview(cluster=cluster, nodes=told, down=texts_of(down))


def _facts(cores: int, memory_bytes: int, macros: Iterable[Row], metrics: int) -> NodeFacts:
    return NodeFacts(
        target=None,
        databases=frozenset(),
        ledger_columns=frozenset(),
        known_settings={},
        measured=NodeSpec(cores=int(cores), memory_bytes=int(memory_bytes)),
        macros=dict(macros),
        has_metrics=bool(metrics),
    )


def _node_overview(node: Node, size: Row, state: Row, facts: NodeFacts, specs: Declared) -> NodeOverview:
    machine_bytes, in_use_bytes, disks, limits, replicated_limits, fullest, processes = state[:7]
    merges, merges_running, pool, replicas, queued, queue = state[7:]
    sized, error = _size(node, facts, int(machine_bytes), specs)
    return NodeOverview(
        version=size[0],
        uptime_seconds=size[1],
        size=sized,
        size_error=error,
        measured=facts.measured,
        machine_memory_bytes=int(machine_bytes),
        memory_in_use_bytes=max(0, int(in_use_bytes)),
        disks=tuple(_disk(*disk) for disk in disks),
        fullest=tuple(_full_table(each, dict(limits), dict(replicated_limits)) for each in fullest),
        processes=tuple(processes),
        merges=tuple(RunningMerge(*merge) for merge in merges),
        merges_running=merges_running,
        pool_busy=dict(pool).get(POOL_METRICS[0], 0),
        pool_size=dict(pool).get(POOL_METRICS[1], 0),
        replication=_replication(replicas, queued, queue),
    )


def _size(node: Node, facts: NodeFacts, machine_bytes: int, specs: Declared) -> tuple[SizedNode | None, str]:
    nowhere = TableName("", "")
    around = Surroundings(cluster=None, target=nowhere, ledger=nowhere, nodes={node: facts})
    now = {node: NodeNow(physical_memory_bytes=machine_bytes)}
    try:
        return size_nodes(around, now, argument={}, connection=specs)[node], ""
    except ConfigurationError as error:
        return None, str(error)


def _disk(name: str, kind: str, free_bytes: int, unreserved_bytes: int, total_bytes: int) -> DiskOverview:
    if total_bytes >= _ENDLESS_BYTES:
        return DiskOverview(name, kind, None, None, None)
    return DiskOverview(name, kind, free_bytes, max(0, free_bytes - unreserved_bytes), total_bytes)


def _full_table(row: Row, limits: Mapping[str, str], replicated_limits: Mapping[str, str]) -> FullTable:
    database, table, engine, engine_full, partition_id, partition_parts, partition_bytes, table_parts = row
    target = target_of(engine, engine_full, "")
    allowed = Limits.of(replicated_limits if target.is_replicated else limits, target.settings)
    # Where parts are large, their number in a partition does not matter.
    counts = partition_bytes <= partition_parts * allowed.max_avg_part_size_for_too_many_parts
    inserts = "taken"
    if counts and partition_parts >= allowed.parts_to_delay_insert:
        inserts = "slowed"
    if (counts and partition_parts >= allowed.parts_to_throw_insert) or table_parts >= allowed.max_parts_in_total:
        inserts = "refused"
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
