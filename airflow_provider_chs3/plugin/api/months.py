"""The months behind a connection, as JSON for the page."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from operator import attrgetter
from typing import Any

from airflow_provider_chs3.core.values.merge_arguments import Thresholds
from airflow_provider_chs3.core.values.models import Node, TableName
from airflow_provider_chs3.plugin.cache import Answer, LastAnswers, carry_out, without_collections
from airflow_provider_chs3.plugin.connections import hook_of, tasks_of
from airflow_provider_chs3.plugin.observation.month_state import MonthState
from airflow_provider_chs3.plugin.observation.months import MonthOverview, MonthRow, overview, owners_to_ask_for
from airflow_provider_chs3.plugin.observation.months_facts import ClusterSnapshot, look_at_all_tables, with_contents
from airflow_provider_chs3.plugin.observation.months_records import month_records
from airflow_provider_chs3.plugin.scope import Scope
from airflow_provider_chs3.plugin.xcom import ChangedMonth, changed_in_storage

_HIDDEN_BY_CHANGES = (MonthState.PUBLISHED, MonthState.MERGING, MonthState.TOO_MANY_PARTS)


@dataclass(frozen=True, kw_only=True)
class MonthsAnswer(Answer):
    """The state of the months of all tables.

    Args:
        cluster: The cluster; None for a single server.
        nodes: Node → the reason why it did not answer; empty if it did.
        missed: The nodes that did not answer, and of whose shard no replica did: their rows are in no figure.
        tables: The months of each table.
        changed: Months whose objects in the storage differ from the published ones, as found by plans.
    """

    cluster: str | None = None
    nodes: Mapping[str, str]
    missed: Collection[str] = ()
    tables: Mapping[TableName, tuple[MonthOverview, ...]]
    changed: Mapping[tuple[TableName, str], ChangedMonth] = field(default_factory=dict)

    def as_json(
        self, *, scope: Scope | None, readable_dags: Collection[str], readable_logs: Container[str]
    ) -> dict[str, Any]:
        """Return the values that `api.schemas.ConnectionMonths` is made of.

        Args:
            scope: Only these months; None for all.
            readable_dags: DAGs whose tasks may be named.
            readable_logs: DAGs whose errors may be shown with the values that they quote.
        """
        tables = []
        for table, months in self.tables.items():
            shown_months = [
                {**_month_as_json(month, readable_dags, readable_logs), **self._changed_as_json(table, month)}
                for month in months
            ]
            if scope is not None:
                shown_months = [
                    each for each in shown_months if scope.has(self.conn_id, table, each["month"], each["task"])
                ]
            if shown_months:
                tables.append({"database": table.database, "table": table.table, "months": shown_months})
        return {
            **self._as_json(),
            "cluster": self.cluster,
            "nodes": [
                {"name": name, "error": error, "is_missed": name in self.missed} for name, error in self.nodes.items()
            ],
            "tables": tables,
        }

    def _changed_as_json(self, table: TableName, month: MonthOverview) -> dict[str, str]:
        changed = self.changed.get((table, month.month)) if self.changed else None
        if changed is None or month.state not in _HIDDEN_BY_CHANGES:
            return {}
        at = f"{changed.planned_at:%Y-%m-%d %H:%M}"
        return {
            "state": MonthState.CHANGED_IN_STORAGE,
            "why": f"a plan found at {at} UTC: {changed.reason}",
            "since": f"{at}:00",
        }


def look_at_months(conn_id: str) -> MonthsAnswer:
    """Read the state of all tables that a connection leads to; it may block for some seconds.

    Args:
        conn_id: The connection.

    Raises:
        Chs3Error: If the cluster does not answer.
    """
    hook = hook_of(conn_id)
    with without_collections():
        seen = carry_out(look_at_all_tables(hook.options.cluster), hook)
        tasks, thresholds = tasks_of(owners_to_ask_for(seen)), Thresholds()
        tables = overview(seen, tasks=tasks, thresholds=thresholds)
        if changed := [name for name, months in tables.items() if any(map(_is_changed, months))]:
            compared = carry_out(with_contents(seen, changed), hook)
            tables |= overview(compared, tasks=tasks, thresholds=thresholds, only=changed)
        return MonthsAnswer(
            conn_id=conn_id,
            unread=seen.unread,
            seen_at=time.time(),
            cluster=seen.cluster,
            nodes={str(node): seen.down.get(node, "") for node in sorted([*seen.nodes, *seen.down])},
            missed={str(node) for node in missed_nodes(seen.nodes, seen.down)},
            tables=tables,
            changed=_not_loaded_since(changed_in_storage(conn_id), seen),
        )


def _is_changed(month: MonthOverview) -> bool:
    return month.state is MonthState.CHANGED


def missed_nodes(answered: Iterable[Node], down: Iterable[Node]) -> set[Node]:
    """Return the nodes of whose shard no replica answered.

    Args:
        answered: The nodes that answered.
        down: Those that did not.
    """
    shards = {node.shard_num for node in answered}
    return {node for node in down if node.shard_num not in shards}


def month_answers() -> LastAnswers[MonthsAnswer]:
    """Return the remembered states of months."""
    return LastAnswers(look_at_months, nothing=lambda conn_id: MonthsAnswer(conn_id=conn_id, nodes={}, tables={}))


def _not_loaded_since(
    changed: Mapping[tuple[TableName, str], ChangedMonth], seen: ClusterSnapshot
) -> dict[tuple[TableName, str], ChangedMonth]:
    """Return the months that have not been published again since the plan."""
    attempts: dict[tuple[TableName, str], set[str]] = defaultdict(set)
    for node in seen.nodes.values():
        for table, month in changed:
            row = node.records.get(table, {}).get(month)
            if row and (record := month_records(row).record):
                attempts[table, month].add(record.attempt)
    return {key: found for key, found in changed.items() if attempts[key] & found.attempts}


def dag_ids_of(connections: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the DAGs that load the months of an answer.

    Args:
        connections: What `MonthsAnswer.as_json` returned for each connection.
    """
    months = (month for seen in connections for table in seen["tables"] for month in table["months"])
    return {month["task"]["dag_id"] for month in months if month["task"]}


def is_of_dag_in(owner: str, dag_ids: Container[str]) -> bool:
    """Check whether a load belongs to one of these DAGs.

    Args:
        owner: The task of the load, as named in the ledger; empty if not known: then it belongs to none.
        dag_ids: The DAGs, such as those whose logs a user may read.
    """
    return bool(owner) and _task_of(owner)["dag_id"] in dag_ids


_SHOWN = tuple(each.name for each in fields(MonthRow))
_shown = attrgetter(*_SHOWN)


def _month_as_json(
    month: MonthOverview, readable_dags: Collection[str], readable_logs: Container[str]
) -> dict[str, Any]:
    values = dict(zip(_SHOWN, _shown(month), strict=True))
    if month.why_with_values and is_of_dag_in(month.owner, readable_logs):
        values["why"] = month.why_with_values
    values["task"] = task_as_json(month.owner, readable_dags)
    return values


def task_as_json(owner: str, readable_dags: Collection[str]) -> dict[str, Any] | None:
    """Return the task of a load as JSON-safe values; None if it is unknown or may not be named.

    Args:
        owner: The task, as named in the ledger; empty if not known.
        readable_dags: DAGs whose tasks may be named.
    """
    if not owner:
        return None
    task = _task_of(owner)
    return dict(task) if task["dag_id"] in readable_dags else None


# One for each of a hundred tables' 120 months: if looks have more than this, none is found again.
@lru_cache(maxsize=16_384)
def _task_of(owner: str) -> Mapping[str, Any]:
    dag_id, run_id, task_id, map_index = json.loads(owner)
    return {"dag_id": dag_id, "run_id": run_id, "task_id": task_id, "map_index": map_index}
