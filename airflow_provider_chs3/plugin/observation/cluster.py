"""The state of a cluster's nodes: size, disks, parts against limits, inserts of loads, merges, replication."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from airflow_provider_chs3.core.cluster.node_capacity import SizedNode
from airflow_provider_chs3.core.values.models import Node, NodeSpec
from airflow_provider_chs3.core.workflow.insert_progress import progress_of
from airflow_provider_chs3.core.workflow.operations import Row

#: What happens to inserts into a table.
Inserts: TypeAlias = Literal["accepted", "delayed", "rejected"]


@dataclass(frozen=True, slots=True)
class DiskOverview:
    """A disk.

    Args:
        name: Its name.
        kind: `Local`, or another type.
        free_bytes: Free bytes.
        reserved_bytes: Free bytes that merges and inserts have reserved.
        total_bytes: All bytes; None, like the other sizes, if the storage has no limit.
    """

    name: str
    kind: str
    free_bytes: int | None
    reserved_bytes: int | None
    total_bytes: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class FullTable:
    """A table's active parts on one node, with the limits of its settings.

    Args:
        database: Its database.
        table: Its name.
        partition_id: The partition with the most parts.
        partition_parts: Parts of that partition.
        table_parts: Parts of the table.
        parts_to_delay_insert: Parts of a partition at which inserts are delayed.
        parts_to_throw_insert: Parts of a partition at which inserts are rejected.
        max_parts_in_total: Parts of the table at which inserts are rejected.
        inserts: What happens to inserts.
    """

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
    """A running merge or mutation.

    Args:
        database: Database of its table.
        table: Its table.
        partition_id: Its partition.
        is_mutation: Whether it is a mutation.
        progress: Completed share, 0 to 1.
        seconds: Seconds since it began.
        size_bytes: Size on disk of the parts that are merged.
        parts: Their number.
    """

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
    """An entry of a replica's queue.

    Args:
        database: Database of its table.
        table: Its table.
        kind: Its type, such as `GET_PART`.
        part: The part that it makes.
        age_seconds: Seconds since it was created.
        tries: Number of tries.
        last_exception: The error of the last try; empty for none.
        postpone_reason: The reason why it is postponed; empty if it is not.
    """

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
    """A node's replicated tables.

    Args:
        tables: Their number.
        readonly_tables: Number of those that are read-only.
        delay_seconds: Delay of the slowest in seconds.
        queued: Entries of the replication queue.
        oldest: The oldest of these.
    """

    tables: int
    readonly_tables: int
    delay_seconds: int
    queued: int
    oldest: tuple[QueueEntry, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeOverview:
    """One node.

    Args:
        version: Version of its server.
        uptime_seconds: Seconds since the server started.
        size: The size that loads assume; None if there is a `size_error`.
        size_error: The problem of its declared size; empty for none.
        measured: Cores and memory limit as seen by the server; 0 bytes means not known.
        machine_memory_bytes: RAM of the machine or its container; 0 if the server does not report it.
        memory_in_use_bytes: Memory of the queries that run there, as far as the user may see them.
        disks: Its disks.
        fullest: The tables nearest to their limits.
        merges: The merges that run longest.
        merges_running: Number of running merges.
        pool_busy: Busy threads for merges and mutations.
        pool_size: Number of these threads.
        replication: Its replicated tables; None if there is none.
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


@dataclass(frozen=True, kw_only=True, slots=True)
class InsertOverview:
    """An insert of a load, on all nodes that answered.

    Args:
        query_id: Its query id.
        read_rows: Rows read so far.
        read_bytes: Bytes read so far.
        memory_bytes: Memory in use, on all nodes.
        peak_memory_bytes: Peak memory on one node.
        seconds: Seconds since it began.
        rows_per_second: Rows read per second so far.
    """

    query_id: str
    read_rows: int
    read_bytes: int
    memory_bytes: int
    peak_memory_bytes: int
    seconds: float
    rows_per_second: int


@dataclass(frozen=True, kw_only=True)
class ClusterOverview:
    """The state of a cluster.

    Args:
        cluster: The cluster; None for a single server.
        nodes: The nodes that answered.
        processes: Their queries for inserts of loads, as `core.workflow.insert_progress` reads them: initial query id,
            whether it is the initial query, rows, bytes, memory, peak, written rows, seconds.
        down: The reasons why the others did not.
    """

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
        own = [row for row in rows if row[0] == query_id]
        progress = progress_of(query_id, [row[:8] for row in own], self.cluster)
        seconds = max(row[8] for row in own)
        return InsertOverview(
            query_id=query_id,
            read_rows=progress.read_rows,
            read_bytes=progress.read_bytes,
            memory_bytes=sum(each.memory_bytes for each in progress.nodes),
            peak_memory_bytes=max((each.peak_memory_bytes for each in progress.nodes), default=0),
            seconds=seconds,
            rows_per_second=round(progress.read_rows / max(seconds, 0.001)),
        )
