"""The nodes behind a connection, as JSON for the page."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from airflow_provider_chs3.plugin.answers.periods import PeriodsAnswer, task_as_json
from airflow_provider_chs3.plugin.cache import Answer, LastAnswers, carry_out
from airflow_provider_chs3.plugin.connections import hook_of
from airflow_provider_chs3.plugin.observation.cluster import ClusterOverview
from airflow_provider_chs3.plugin.observation.cluster_facts import look_at_cluster
from airflow_provider_chs3.plugin.observation.period_state import PeriodState

_NOTHING = ClusterOverview(cluster=None, nodes={}, inserts=(), down={})


@dataclass(frozen=True, kw_only=True)
class ClusterAnswer(Answer):
    """The state of the nodes."""

    seen: ClusterOverview = _NOTHING

    def as_json(self, periods: PeriodsAnswer, *, readable_dags: Collection[str]) -> dict[str, Any]:
        """Return the values that `api.schemas.ConnectionNodes` is made of."""
        nodes = sorted({*self.seen.nodes, *self.seen.down})
        return {
            **self._as_json(),
            "cluster": self.seen.cluster,
            "nodes": [
                {"name": str(node), "error": self.seen.down.get(node, ""), "state": self.seen.nodes.get(node)}
                for node in nodes
            ],
            "loads": list(_loads(self.seen, periods, readable_dags)),
        }


def cluster_answers() -> LastAnswers[str, ClusterAnswer]:
    """Return the remembered states of nodes."""
    return LastAnswers(_look, nothing=lambda conn_id: ClusterAnswer(conn_id=conn_id))


def _look(conn_id: str) -> ClusterAnswer:
    hook = hook_of(conn_id)
    seen = carry_out(look_at_cluster(hook.options.cluster, hook.options.node_specs), hook)
    return ClusterAnswer(conn_id=conn_id, seen_at=time.time(), seen=seen)


def _loads(seen: ClusterOverview, periods: PeriodsAnswer, readable_dags: Collection[str]) -> Iterator[dict[str, Any]]:
    """Return the running loads: those between two queries are known from Airflow; a table is known from its ledger."""
    left = {insert.query_id: insert for insert in seen.inserts}
    for table, of_table in periods.tables.items():
        for period in of_table.periods:
            if period.state is PeriodState.LOADING:
                insert = left.pop(period.insert.query_id, None) if period.insert else None
                yield {
                    "table": str(table),
                    "period": period.period,
                    "task": task_as_json(period.owner, readable_dags),
                    "total_rows": period.insert.total_rows if period.insert else None,
                    "insert": insert,
                }
    unknown = dict.fromkeys(("table", "period", "task", "total_rows"))
    yield from ({**unknown, "insert": insert} for insert in left.values())
