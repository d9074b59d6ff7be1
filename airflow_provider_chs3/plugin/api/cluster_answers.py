"""The shapes of the API's answers about nodes, and about the rights of the user."""

from __future__ import annotations

from pydantic import BaseModel, Field

from airflow_provider_chs3.plugin.api.answers import NodeError, Seen, Task


class Spec(BaseModel):
    """The size of a node; 0 bytes are not known."""

    cores: int
    memory_bytes: int | None


class Size(BaseModel):
    """The size that loads assume a node has, and where it comes from."""

    spec: Spec
    source: str
    note: str


class Disk(BaseModel):
    """A disk; without bytes if its storage has no limit."""

    name: str
    kind: str
    free_bytes: int | None
    reserved_bytes: int | None
    total_bytes: int | None


class FullTable(BaseModel):
    """A table near its limits for parts."""

    database: str
    table: str
    partition_id: str
    partition_parts: int
    table_parts: int
    parts_to_delay_insert: int
    parts_to_throw_insert: int
    max_parts_in_total: int
    inserts: str


class Merge(BaseModel):
    """A running merge or mutation."""

    database: str
    table: str
    partition_id: str
    is_mutation: bool
    progress: float
    seconds: float
    size_bytes: int
    parts: int


class QueueEntry(BaseModel):
    """An entry of a replication queue."""

    database: str
    table: str
    kind: str
    part: str
    age_seconds: int
    tries: int
    last_exception: str
    postpone_reason: str


class Replication(BaseModel):
    """The replicated tables of a node."""

    tables: int
    readonly_tables: int
    delay_seconds: int
    queued: int
    oldest: list[QueueEntry]


class ClusterNode(NodeError):
    """A node; only the error if it did not answer."""

    version: str = ""
    uptime_seconds: int = 0
    size: Size | None = None
    size_error: str = ""
    measured: Spec | None = None
    machine_memory_bytes: int = 0
    memory_in_use_bytes: int = 0
    disks: list[Disk] = Field(default_factory=list)
    fullest: list[FullTable] = Field(default_factory=list)
    merges: list[Merge] = Field(default_factory=list)
    merges_running: int = 0
    pool_busy: int = 0
    pool_size: int = 0
    replication: Replication | None = None


class ClusterInsert(BaseModel):
    """A running insert of a load, on all nodes."""

    query_id: str
    read_rows: int
    read_bytes: int
    memory_bytes: int
    peak_memory_bytes: int
    seconds: float
    rows_per_second: int


class RunningLoad(BaseModel):
    """A running load; an append is in no ledger and has no table here."""

    table: str | None
    month: str | None
    task: Task | None
    total_rows: int | None
    insert: ClusterInsert | None


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
