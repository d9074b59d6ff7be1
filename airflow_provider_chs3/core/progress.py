"""How far an insert is, in one line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_chs3.core.sql import Sql, literal


@dataclass(frozen=True, slots=True)
class NodeProgress:
    """What one node has done of an insert.

    Args:
        shard_num: Its shard, from 1.
        read_rows: Rows read by it.
        read_bytes: Bytes read by it.
        memory_bytes: Memory in use.
        peak_memory_bytes: The most that was in use.
    """

    shard_num: int
    read_rows: int
    read_bytes: int
    memory_bytes: int
    peak_memory_bytes: int


def progress_query(query_id: str, cluster: str | None) -> Sql:
    """Ask what every node does for a query.

    The initiator's own line counts what the others report to it, so it is left out where others read.
    """
    processes = f"clusterAllReplicas({literal(cluster)}, system.processes)" if cluster else "system.processes"
    return Sql(
        f"SELECT {'_shard_num' if cluster else '1'} AS shard, sum(read_rows), sum(read_bytes), sum(memory_usage), "
        f"max(peak_memory_usage) FROM {processes} WHERE initial_query_id = {literal(query_id)} "
        f"AND is_initial_query = {0 if cluster else 1} GROUP BY shard ORDER BY shard"
    )


def progress_line(nodes: Sequence[NodeProgress], *, total_rows: int | None, seconds: float) -> str:
    """One line for the log.

    Args:
        nodes: What each node has done.
        total_rows: What there is to do, where known.
        seconds: Since the start.
    """
    rows = sum(node.read_rows for node in nodes)
    share = f"{100 * rows / total_rows:.0f} % of {total_rows:,} rows" if total_rows else f"{rows:,} rows"
    per_node = ", ".join(
        f"shard {node.shard_num}: {node.read_rows:,} rows, {_mib(node.memory_bytes)}" for node in nodes
    )
    read_bytes = sum(node.read_bytes for node in nodes)
    return f"{share}, {_mib(read_bytes)} read, {rows / max(seconds, 0.001):,.0f} rows/s ({per_node})"


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / 1024**2:,.0f} MiB"
