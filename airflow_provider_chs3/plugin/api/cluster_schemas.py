"""The schemas of the API's answers about nodes, made of what is observed there, and about the rights of the user."""

from __future__ import annotations

from pydantic import BaseModel

from airflow_provider_chs3.plugin.api.schemas import NodeError, SeenByAll
from airflow_provider_chs3.plugin.observation.cluster import InsertOverview, NodeOverview
from airflow_provider_chs3.plugin.observation.periods import Task


class ClusterNode(NodeError):
    """A node; without its state if it did not answer."""

    state: NodeOverview | None


class RunningLoad(BaseModel):
    """A running load; an append is in no ledger and has no table here."""

    table: str | None
    period: str | None
    task: Task | None
    total_rows: int | None
    insert: InsertOverview | None


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
    """The rights on the DAG of a period and on that of the actions; None without that DAG."""

    dag: DagRights | None
    actions_dag: DagRights | None
    actions_dag_id: str
