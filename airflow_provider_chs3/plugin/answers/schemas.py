"""The schemas of the API's answers, made of what is observed, from which the page's types are made.

FastAPI checks each answer against them, and tests check those of the periods, as there are many.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from airflow_provider_chs3.plugin.observation.cluster import NodeOverview
from airflow_provider_chs3.plugin.observation.period_details import FinishedLoad, NodeShare
from airflow_provider_chs3.plugin.observation.periods import PeriodRow, Task, UnreadPeriods
from airflow_provider_chs3.plugin.observation.running_inserts import RunningInsert
from airflow_provider_chs3.plugin.observation.speed.costs import TableCost
from airflow_provider_chs3.plugin.observation.speed.load_history import LoadSpeed


class TableFreshness(BaseModel):
    """When a table is due by the `fresh_by` of its newest load: its next period, and until when that must be there."""

    fresh_by: str
    due_at: float
    next_period: str


class TablePeriods(BaseModel):
    """The periods of one table, in order: those that are shown, and how many others there are.

    Of a derived table, the base that it is made of, and the view over that which writes to it, if there is one.
    """

    database: str
    table: str
    base: str | None
    view: str
    freshness: TableFreshness | None
    periods: list[PeriodRow]
    unread: UnreadPeriods


class NodeError(BaseModel):
    """A node, and why it did not answer; empty if it did."""

    name: str
    error: str


class Seen(BaseModel):
    """Fields that all answers about a connection have.

    The error is why the rest is old, or missing; `unread` says what to do about ledgers that are left out.
    """

    conn_id: str
    error: str
    seen_at: float | None
    unread: str
    cluster: str | None


class SeenByAll(Seen):
    """The view of a cluster through that of its connections which sees most."""

    conn_ids: list[str]


class ShardNode(NodeError):
    """A node, and whether it and all other replicas of its shard did not answer."""

    is_missed: bool


class ConnectionPeriods(Seen):
    """The tables behind a connection, and all of their periods, those of one length together.

    If they are some, there are others, and perhaps further tables, which were not read.
    """

    nodes: list[ShardNode]
    tables: list[TablePeriods]
    axis: list[str]
    are_some: bool


class FailedRun(BaseModel):
    """The newest run of a DAG, which failed."""

    dag_id: str
    run_id: str
    ended_at: float | None


class Periods(BaseModel):
    """The periods of all connections; and the owners, active runs and failed newest runs of the DAGs that load them.

    Also the DAGs that the user may edit, and those that the user may start runs of, among the DAG of the actions and
    those whose periods need a person; when the next runs of DAGs that load periods are due, as Unix time; and the DAGs
    that Airflow cannot import.
    """

    connections: list[ConnectionPeriods]
    owners: dict[str, str]
    busy_dags: list[str]
    failed_runs: list[FailedRun]
    editable_dags: list[str]
    startable_dags: list[str]
    next_runs: dict[str, float]
    actions_dag_id: str
    broken_dags: list[str]


class NodeOfPeriod(NodeError):
    """A node, and its share of a period; none if it did not answer."""

    share: NodeShare | None


class Setting(BaseModel):
    """A setting of an insert; those that the user gave have no reason."""

    name: str
    value: Any
    reason: str


class CheckFound(BaseModel):
    """The result of a check of the rows; without values for those who may not see them."""

    name: str
    wanted: str
    found: str | None
    has_passed: bool


class Entry(BaseModel):
    """A record of a ledger."""

    attempt: str
    recorded_at: str
    objects: int
    source_bytes: int


class Reads(Entry):
    """A load: of the period's objects, those that it reads."""

    loaded_objects: int
    loaded_bytes: int


class Load(Reads):
    """The newest load that published."""

    is_published: bool
    reason: str | None
    rows: int | None
    parts: int | None
    other_period_rows: int | None
    insert_seconds: float | None
    peak_memory_bytes: int | None
    memory_bytes: int | None
    memory_steps: int | None
    query_ids: list[str] | None
    object_changes: dict[str, int]
    rows_per_second: int | None
    bytes_per_second: int | None
    seconds_by_step: dict[str, float]
    settings: list[Setting]
    checks: list[CheckFound]


class Inserting(Reads):
    """A load that has begun to insert, and not published."""

    reason: str
    memory_bytes: int | None
    memory_steps: int | None
    query_ids: list[str]
    seconds_by_step: dict[str, float]
    settings: list[Setting]


class Failure(Entry):
    """The failure of the newest load; without the message for those who may not read the logs of its task."""

    type: str | None
    code: int | None
    name: str | None
    host: str | None
    query_id: str | None
    message: str | None
    hint: str | None
    is_terminal: bool | None


class Past(BaseModel):
    """An event of a period, by a load or by somebody, and whether its version is kept."""

    recorded_at: str
    event: str
    attempt: str
    loaded_objects: int
    loaded_bytes: int
    loaded_rows: int
    seconds: float
    why: str
    task: Task | None
    is_kept: bool


class PeriodDetails(BaseModel):
    """One period in detail; its SQL is empty if Airflow has none, or only for those who may read XComs."""

    error: str
    nodes: list[NodeOfPeriod]
    load: Load | None
    inserting: Inserting | None
    failure: Failure | None
    last_finished: FinishedLoad | None
    history: list[Past]
    insert_sql: str


class ClusterNode(NodeError):
    """A node; without its state if it did not answer."""

    state: NodeOverview | None


class RunningLoad(BaseModel):
    """A running load; it has no table here if no ledger that was read names its insert."""

    table: str | None
    period: str | None
    task: Task | None
    total_rows: int | None
    insert: RunningInsert | None


class ConnectionNodes(SeenByAll):
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
    may_edit: bool


class Rights(BaseModel):
    """The rights on the DAG of a period and on that of the actions; None without that DAG.

    Also what a reload may be allowed to do, each with its meaning.
    """

    dag: DagRights | None
    actions_dag: DagRights | None
    actions_dag_id: str
    reload_options: dict[str, str]


class SilentNode(NodeError):
    """A node, and the logs that it lacks."""

    silent: list[str]


class NodeParts(BaseModel):
    """The parts of one node at each time; None before its log begins."""

    name: str
    parts: list[int | None]
    backlog: list[int | None]


class History(BaseModel):
    """Parts over time; the last value of each node is that of `seen_at`."""

    at: list[float]
    nodes: list[NodeParts]


class ConnectionSpeed(SeenByAll):
    """The speed of a connection's loads, and what those of each table cost; not beside one DAG."""

    is_cut: bool
    nodes: list[SilentNode]
    loads: list[LoadSpeed]
    costs: list[TableCost]
    history: History


class Speed(BaseModel):
    """The speed of loads of the last days."""

    days: int
    connections: list[ConnectionSpeed]
