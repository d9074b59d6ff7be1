"""The state of a cluster's nodes: size, disks, parts against limits, inserts of loads, merges, replication."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from airflow_provider_chs3.core.model.models import Node, NodeSpec
from airflow_provider_chs3.core.target.node_capacity import SizedNode
from airflow_provider_chs3.plugin.observation.running_inserts import RunningInsert

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


@dataclass(frozen=True, kw_only=True)
class ClusterOverview:
    """The state of a cluster."""

    cluster: str | None
    nodes: Mapping[Node, NodeOverview]
    inserts: tuple[RunningInsert, ...]
    down: Mapping[Node, str]
