"""The speed of loads, as JSON for the page."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.plugin.answers.periods import task_as_json
from airflow_provider_chs3.plugin.cache import Answer, LastAnswers, carry_out
from airflow_provider_chs3.plugin.connections import hook_of
from airflow_provider_chs3.plugin.observation.periods import Task
from airflow_provider_chs3.plugin.observation.speed.parts_over_time import PartsAt
from airflow_provider_chs3.plugin.observation.speed.throughput import NOTHING, Throughput, look_at_throughput
from airflow_provider_chs3.plugin.scope import Scope


class Days(IntEnum):
    """The days that the page looks back: a few ranges, so that users share answers."""

    DAY = 1
    WEEK = 7
    PERIOD = 30
    QUARTER = 90


@dataclass(frozen=True, kw_only=True)
class ThroughputAnswer(Answer):
    """The loads and the parts."""

    seen: Throughput = NOTHING

    def as_json(self, *, scope: Scope | None, readable_dags: Collection[str]) -> dict[str, Any]:
        """Return JSON-safe values."""
        tasks = [(load, task_as_json(load.owner, readable_dags)) for load in self.seen.loads]
        loads = [
            load.model_copy(update={"task": task and Task(**task)})
            for load, task in tasks
            if scope is None or scope.has(self.conn_id, load.table_name, load.period, task)
        ]
        return {
            **self._as_json(),
            "cluster": self.seen.cluster,
            "is_cut": self.seen.is_cut,
            "nodes": [self._node_as_json(node) for node in sorted([*self.seen.nodes, *self.seen.down])],
            "loads": loads,
            "costs": self.seen.costs if scope is None else (),
            "history": _parts_as_json(self.seen.parts),
        }

    def _node_as_json(self, node: Node) -> dict[str, Any]:
        return {
            "name": str(node),
            "error": self.seen.down.get(node, ""),
            "silent": list(self.seen.silent.get(node, ())),
        }


def throughput_answers(days: Days) -> LastAnswers[str, ThroughputAnswer]:
    """Return the remembered speeds of loads."""

    def look(conn_id: str) -> ThroughputAnswer:
        hook = hook_of(conn_id)
        seen = carry_out(look_at_throughput(hook.options.cluster, days=int(days)), hook)
        return ThroughputAnswer(conn_id=conn_id, unread=seen.unread, seen_at=time.time(), seen=seen)

    return LastAnswers(look, nothing=lambda conn_id: ThroughputAnswer(conn_id=conn_id))


def _parts_as_json(parts: Mapping[Node, tuple[PartsAt, ...]]) -> dict[str, Any]:
    """Return the times, and the parts of each node at each; None if a node's log does not go back that far."""
    longest = max(parts.values(), key=len, default=())

    def of(points: tuple[PartsAt, ...], name: str) -> list[int | None]:
        return [None] * (len(longest) - len(points)) + [getattr(point, name) for point in points]

    return {
        # Without the last, which is the current time: an answer with nothing new stays the same.
        "at": [sample.at for sample in longest[:-1]],
        "nodes": [
            {"name": str(node), "parts": of(points, "parts"), "backlog": of(points, "backlog")}
            for node, points in sorted(parts.items())
        ],
    }
