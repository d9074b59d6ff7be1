"""The periods behind a connection, as JSON for the page."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

from airflow_provider_chs3.core.arguments.merge_arguments import Thresholds
from airflow_provider_chs3.core.model.models import Node, TableName
from airflow_provider_chs3.plugin.cache import Answer, LastAnswers, carry_out, without_collections
from airflow_provider_chs3.plugin.connections import hook_of, tasks_of
from airflow_provider_chs3.plugin.observation.derived_tables import Derived
from airflow_provider_chs3.plugin.observation.period_state import HOLDS_ITS_ROWS, PeriodState
from airflow_provider_chs3.plugin.observation.periods import (
    PeriodOverview,
    PeriodRow,
    Seal,
    TableOverview,
    UnreadPeriods,
    owners_to_ask_for,
)
from airflow_provider_chs3.plugin.observation.periods_facts import look_at_all_tables
from airflow_provider_chs3.plugin.observation.periods_records import period_records
from airflow_provider_chs3.plugin.observation.snapshots import ClusterSnapshot
from airflow_provider_chs3.plugin.observation.tables import freshness_as_json, judge_tables
from airflow_provider_chs3.plugin.observation.unchanged_periods import Task, Wanted
from airflow_provider_chs3.plugin.scope import Scope
from airflow_provider_chs3.plugin.xcom import ChangedPeriod, ProvedPeriod, changed_in_storage, proved_periods


@dataclass(frozen=True, kw_only=True)
class PeriodsAnswer(Answer):
    """The state of the periods of all tables."""

    cluster: str | None = None
    nodes: Sequence[Mapping[str, Any]]
    tables: Mapping[TableName, TableOverview]
    axis: Sequence[str] = ()
    are_some: bool = False
    changed: Mapping[tuple[TableName, str], ChangedPeriod] = field(default_factory=dict)
    derived: Mapping[TableName, Derived] = field(default_factory=dict)
    proved: Mapping[tuple[TableName, str], ProvedPeriod] = field(default_factory=dict)

    def as_json(
        self, *, scope: Scope | None, readable_dags: Collection[str], readable_logs: Container[str]
    ) -> dict[str, Any]:
        """Return the values that `api.schemas.ConnectionPeriods` is made of."""
        tables = []
        for table, (periods, unread, freshness) in self.tables.items():
            shown_periods = [
                {**_period_as_json(period, readable_dags, readable_logs), **self._found_as_json(table, period)}
                for period in periods
            ]
            if scope is not None:
                shown_periods = [
                    shown for shown in shown_periods if scope.has(self.conn_id, table, shown["period"], shown["task"])
                ]
            if shown_periods or (unread.published and scope is None):
                dag_ids = [dag_id for dag_id in unread.dag_ids if dag_id in readable_dags]
                left = replace(unread, dag_ids=dag_ids) if scope is None else UnreadPeriods()
                names = {"database": table.database, "table": table.table}
                facts = {**self._base_as_json(table), "freshness": freshness_as_json(freshness)}
                tables.append({**names, **facts, "periods": shown_periods, "unread": left})
        return {
            **self._as_json(),
            "cluster": self.cluster,
            "nodes": self.nodes,
            "tables": tables,
            "axis": self.axis if scope is None else [],
            "are_some": self.are_some,
        }

    def _base_as_json(self, table: TableName) -> dict[str, Any]:
        derived = self.derived.get(table)
        return {"base": derived and str(derived.base), "view": derived.view if derived else ""}

    def _found_as_json(self, table: TableName, period: PeriodOverview) -> dict[str, Any]:
        """Return what plans, bases and proofs found out about a period that is as it was published."""
        if not (self.changed or self.proved) or period.state not in HOLDS_ITS_ROWS:
            return {}
        changed, proved = self.changed.get((table, period.period)), self.proved.get((table, period.period))
        return _changed_as_json(changed) if changed else _proved_as_json(proved) if proved else {}


def _changed_as_json(changed: ChangedPeriod) -> dict[str, str]:
    if changed.planned_at is None:
        return {"state": PeriodState.STALE, "why": changed.reason, "since": ""}
    at = f"{changed.planned_at:%Y-%m-%d %H:%M}"
    return {
        "state": PeriodState.BLOCKED if changed.is_blocked else PeriodState.CHANGED_IN_STORAGE,
        "why": f"{changed.reason}; a plan found that at {at} UTC",
        "since": f"{at}:00",
    }


def _proved_as_json(proved: ProvedPeriod) -> dict[str, Any]:
    at = f"{proved.proved_at:%Y-%m-%d %H:%M:%S}"
    if proved.is_equal:
        return {"seal": Seal(at, proved.found)}
    return {
        "state": PeriodState.DIFFERS,
        "why": f"a proof compared it with its objects at {at[:-3]} UTC: {proved.found}",
        "since": at,
    }


class PeriodsQuestion(NamedTuple):
    """A question of `look_at_periods`, by which answers are shared."""

    conn_id: str
    task: Task | None = None
    named: frozenset[tuple[TableName, str | None]] = frozenset()
    until: str = ""
    is_quick: bool = False

    @classmethod
    def about(cls, conn_id: str, scope: Scope | None, *, until: str, is_quick: bool) -> PeriodsQuestion:
        """Return the question about a scope; about everything without one."""
        if scope is None:
            return cls(conn_id, until=until, is_quick=is_quick)
        task = Task(scope.dag_id, scope.run_id, scope.task_id, scope.map_index)
        named = frozenset((subject.table, subject.period) for subject in scope.named if subject.conn_id == conn_id)
        return cls(conn_id, task, named, until, is_quick)


def look_at_periods(question: PeriodsQuestion) -> PeriodsAnswer:
    """Read the state of the tables that a connection leads to; it may block for some seconds."""
    conn_id, task, named, until, is_quick = question
    hook, changed, proved = hook_of(conn_id), changed_in_storage(conn_id), proved_periods(conn_id)
    unlike = [key for key, proof in proved.items() if not proof.is_equal]
    wanted = Wanted(is_quick=is_quick, until=until, task=task, named={*named, *changed, *unlike})
    with without_collections():
        seen = carry_out(look_at_all_tables(hook.options.cluster, wanted), hook)
        tasks, thresholds, at = tasks_of(owners_to_ask_for(seen)), Thresholds(), datetime.now(UTC)
        missed = missed_nodes(seen.nodes, seen.down)
        tables = carry_out(judge_tables(seen, tasks=tasks, thresholds=thresholds, at=at), hook)
        return PeriodsAnswer(
            conn_id=conn_id,
            unread=seen.unread,
            seen_at=time.time(),
            cluster=seen.cluster,
            nodes=[
                {"name": str(node), "error": seen.down.get(node, ""), "is_missed": node in missed}
                for node in sorted([*seen.nodes, *seen.down])
            ],
            tables=tables,
            axis=seen.choices.axis,
            are_some=seen.choices.are_some,
            changed=_not_loaded_since({**changed, **_stale(seen.derived)}, seen),
            derived=seen.derived,
            proved={key: proof for key, proof in proved.items() if _is_as_proved(proof, seen.versions(*key))},
        )


def _is_as_proved(proved: ProvedPeriod, versions: Mapping[Node, tuple[int, ...]]) -> bool:
    """Check whether nobody wrote to a period since; but what differed may have been mutated."""
    length = 3 if proved.is_equal else 1
    current = {str(node): versions_of_node[:length] for node, versions_of_node in versions.items()}
    return bool(current) and current == {
        node: versions_of_node[:length] for node, versions_of_node in proved.nodes.items() if node in current
    }


def _stale(tables: Mapping[TableName, Derived]) -> dict[tuple[TableName, str], ChangedPeriod]:
    return {
        (name, period): ChangedPeriod(
            f"its base, {derived.base}, has changed since it was loaded", frozenset({attempt}), None
        )
        for name, derived in tables.items()
        for period, attempt in derived.stale.items()
    }


def missed_nodes(answered: Iterable[Node], down: Iterable[Node]) -> set[Node]:
    """Return the nodes of shards without an answer of any replica."""
    shards = {node.shard_num for node in answered}
    return {node for node in down if node.shard_num not in shards}


def period_answers() -> LastAnswers[PeriodsQuestion, PeriodsAnswer]:
    """Return the remembered states of periods."""

    def nothing(question: PeriodsQuestion) -> PeriodsAnswer:
        # A quick answer and the one after it stand for each other.
        other = answers.last(question._replace(is_quick=not question.is_quick))
        return other or PeriodsAnswer(conn_id=question.conn_id, nodes=(), tables={})

    answers = LastAnswers(look_at_periods, nothing=nothing)
    return answers


def _not_loaded_since(
    changed: Mapping[tuple[TableName, str], ChangedPeriod], seen: ClusterSnapshot
) -> dict[tuple[TableName, str], ChangedPeriod]:
    """Return the periods that have not been published again since the plan."""
    attempts: dict[tuple[TableName, str], set[str]] = defaultdict(set)
    for node in seen.nodes.values():
        for table, period in changed:
            row = node.records.get(table, {}).get(period)
            if row and (record := period_records(row).record):
                attempts[table, period].add(record.attempt)
    return {key: change for key, change in changed.items() if attempts[key] & change.attempts}


def dag_ids_of(connections: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the DAGs that load the periods of an answer."""
    tables = [table for seen in connections for table in seen["tables"]]
    shown = {period["task"]["dag_id"] for table in tables for period in table["periods"] if period["task"]}
    return shown.union(*(table["unread"].dag_ids for table in tables))


def is_of_dag_in(owner: str, dag_ids: Container[str]) -> bool:
    """Check whether a load belongs to one of these DAGs."""
    return bool(owner) and _task_of(owner)["dag_id"] in dag_ids


_SHOWN = tuple(column.name for column in fields(PeriodRow))
_shown = attrgetter(*_SHOWN)


def _period_as_json(
    period: PeriodOverview, readable_dags: Collection[str], readable_logs: Container[str]
) -> dict[str, Any]:
    values = dict(zip(_SHOWN, _shown(period), strict=True))
    if not is_of_dag_in(period.owner, readable_logs):
        values["failing_rows"] = []
    elif period.why_with_values:
        values["why"] = period.why_with_values
    values["task"] = task_as_json(period.owner, readable_dags)
    return values


def task_as_json(owner: str, readable_dags: Collection[str]) -> dict[str, Any] | None:
    """Return the task of a load as JSON-safe values; None if it is unknown or may not be named."""
    if not owner:
        return None
    task = _task_of(owner)
    return dict(task) if task["dag_id"] in readable_dags else None


# One for each of a hundred tables' 120 periods: if looks have more than this, none is found again.
@lru_cache(maxsize=16_384)
def _task_of(owner: str) -> Mapping[str, Any]:
    dag_id, run_id, task_id, map_index = json.loads(owner)
    return {"dag_id": dag_id, "run_id": run_id, "task_id": task_id, "map_index": map_index}
