"""The shapes of the API's answers about nodes, made of what is observed there, and about the rights of the user."""

from __future__ import annotations

from pydantic import BaseModel, Field

from airflow_provider_chs3.core.cluster.node_capacity import SizedNode
from airflow_provider_chs3.core.values.models import NodeSpec
from airflow_provider_chs3.plugin.api.answers import NodeError, Seen, Task
from airflow_provider_chs3.plugin.observation.cluster import (
    DiskOverview,
    FullTable,
    InsertOverview,
    Replication,
    RunningMerge,
)


class ClusterNode(NodeError):
    """A node; only the error if it did not answer."""

    version: str = ""
    uptime_seconds: int = 0
    size: SizedNode | None = None
    size_error: str = ""
    measured: NodeSpec | None = None
    machine_memory_bytes: int = 0
    memory_in_use_bytes: int = 0
    disks: list[DiskOverview] = Field(default_factory=list)
    fullest: list[FullTable] = Field(default_factory=list)
    merges: list[RunningMerge] = Field(default_factory=list)
    merges_running: int = 0
    pool_busy: int = 0
    pool_size: int = 0
    replication: Replication | None = None


class RunningLoad(BaseModel):
    """A running load; an append is in no ledger and has no table here."""

    table: str | None
    month: str | None
    task: Task | None
    total_rows: int | None
    insert: InsertOverview | None


class ConnectionNodes(Seen):
    """The nodes behind a connection."""

    nodes: list[ClusterNode]
    loads: list[RunningLoad]


class Cluster(BaseModel):
    """The nodes of all connections."""

    connections: list[ConnectionNodes]


class DagRights(BaseModel):
    """The rights of the user on a DAG."""

    dag_id: str
    is_paused: bool
    may_start_runs: bool
    may_end_tasks: bool


class Rights(BaseModel):
    """The rights on the DAG of a month and on that of the actions; None without that DAG."""

    dag: DagRights | None
    actions_dag: DagRights | None
    actions_dag_id: str
