"""The schemas of the answers of the Throughput view."""

from __future__ import annotations

from pydantic import BaseModel

from airflow_provider_chs3.plugin.api.schemas import NodeError, SeenByAll
from airflow_provider_chs3.plugin.observation.speed.load_history import LoadSpeed


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
    """The speed of a connection's loads."""

    is_cut: bool
    nodes: list[SilentNode]
    loads: list[LoadSpeed]
    history: History


class Speed(BaseModel):
    """The speed of loads of the last days."""

    days: int
    connections: list[ConnectionSpeed]
