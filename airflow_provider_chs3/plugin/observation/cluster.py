"""The state of a cluster's nodes: size, disks, parts against limits, inserts of loads, merges, replication."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from airflow_provider_chs3.core.model.models import Node, NodeSpec
from airflow_provider_chs3.core.steps.insert_progress import progress_of
from airflow_provider_chs3.core.steps.operations import Row
from airflow_provider_chs3.core.target.node_capacity import SizedNode

#: The state of inserts into a table.
Inserts: TypeAlias = Literal["accepted", "delayed", "rejected"]


@dataclass(frozen=True, slots=True)
class DiskOverview:
    """A disk."""

    name: str
    kind: str
    free_bytes: int | None
    reserved_bytes: int | None
    total_bytes: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class FullTable:
    """A table's active parts on one node, with the limits of its settings."""

    database: str
    table: str
    partition_id: str
    partition_parts: int
    table_parts: int
    parts_to_delay_insert: int
    parts_to_throw_insert: int
    max_parts_in_total: int
    inserts: Inserts


@dataclass(frozen=True, slots=True)
class RunningMerge:
    """A running merge or mutation."""

    database: str
    table: str
    partition_id: str
    is_mutation: bool
    progress: float
    seconds: float
    size_bytes: int
    parts: int


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """An entry of a replica's queue."""

    database: str
    table: str
    kind: str
    part: str
    age_seconds: int
    tries: int
    last_exception: str
    postpone_reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Replication:
    """A node's replicated tables."""

    tables: int
    readonly_tables: int
    delay_seconds: int
    queued: int
    oldest: tuple[QueueEntry, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeOverview:
    """One node.

    Args:
        unread: The tables that would show more, each with the reason why they don't.
    """

    version: str
    uptime_seconds: int
    size: SizedNode | None
    size_error: str
    measured: NodeSpec
    machine_memory_bytes: int
    memory_in_use_bytes: int
    disks: tuple[DiskOverview, ...]
    fullest: tuple[FullTable, ...]
    merges: tuple[RunningMerge, ...]
    merges_running: int
    pool_busy: int
    pool_size: int
    replication: Replication | None
    unread: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class InsertOverview:
    """An insert of a load, on all nodes that answered."""

    query_id: str
    read_rows: int
    read_bytes: int
    memory_bytes: int
    peak_memory_bytes: int
    seconds: float
    rows_per_second: int


@dataclass(frozen=True, kw_only=True)
class ClusterOverview:
    """The state of a cluster."""

    cluster: str | None
    nodes: Mapping[Node, NodeOverview]
    processes: Mapping[Node, tuple[Row, ...]]
    down: Mapping[Node, str]

    @property
    def inserts(self) -> tuple[InsertOverview, ...]:
        """The running inserts of loads, in the order of their query ids."""
        rows = [
            (query_id, is_initial, node.shard_num, *figures)
            for node, processes in self.processes.items()
            for query_id, is_initial, *figures in processes
        ]
        return tuple(self._insert(query_id, rows) for query_id in sorted({row[0] for row in rows}))

    def _insert(self, query_id: str, rows: Iterable[Row]) -> InsertOverview:
        of_insert = [row for row in rows if row[0] == query_id]
        progress = progress_of(query_id, [row[:8] for row in of_insert], self.cluster)
        seconds = max(row[8] for row in of_insert)
        return InsertOverview(
            query_id=query_id,
            read_rows=progress.read_rows,
            read_bytes=progress.read_bytes,
            memory_bytes=sum(node.memory_bytes for node in progress.nodes),
            peak_memory_bytes=max((node.peak_memory_bytes for node in progress.nodes), default=0),
            seconds=seconds,
            rows_per_second=round(progress.read_rows / max(seconds, 0.001)),
        )
