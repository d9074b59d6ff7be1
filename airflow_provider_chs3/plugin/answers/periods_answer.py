"""The answer about the periods of all connections, as bytes of JSON."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from pydantic import TypeAdapter

from airflow_provider_chs3.plugin.answers.missing_runs import WAITING, mark_waiting, newest_runs, schedules_of
from airflow_provider_chs3.plugin.answers.periods import PeriodsAnswer, dag_ids_of
from airflow_provider_chs3.plugin.observation.period_state import PeriodState
from airflow_provider_chs3.plugin.scope import Scope
from airflow_provider_chs3.plugin.security import ACTIONS_DAG, PeriodRights, owners_of

_ANY: TypeAdapter[Any] = TypeAdapter(Any)


def periods_answer(
    seen: Iterable[PeriodsAnswer], *, scope: Scope | None, rights: PeriodRights, are_newest: bool = True
) -> bytes:
    """Return what `api.answers.Periods` describes; it queries Airflow's database.

    FastAPI would make an object of each of thousands of periods, only to check it: tests check them instead.
    """
    readable_dags = rights.readable_dags
    connections = [
        answer.as_json(scope=scope, readable_dags=readable_dags, readable_logs=rights.readable_logs) for answer in seen
    ]
    dag_ids = dag_ids_of(connections)
    schedules = schedules_of(dag_ids)
    broken = {dag_id for dag_id, schedule in schedules.items() if schedule.is_broken and not schedule.is_paused}
    mark_waiting(connections, schedules, datetime.now(UTC), are_newest=are_newest)
    # Beside one DAG, others matter only if they load its periods.
    loaders = {*dag_ids, *([scope.dag_id] if scope else [])}
    busy, failed = newest_runs({*loaders, ACTIONS_DAG}, with_loaders=scope is None)
    # No period shows the actions, but whoever asked for one follows it.
    failed = [run for run in failed if run["dag_id"] in readable_dags and run["dag_id"] != ACTIONS_DAG]
    return _ANY.dump_json(
        {
            "connections": connections,
            "owners": owners_of({*dag_ids, *(run["dag_id"] for run in failed)}),
            "busy_dags": sorted(busy & set(readable_dags)),
            "failed_runs": failed,
            "editable_dags": sorted(_dags_of(connections, (PeriodState.PAUSED,), rights.editable)),
            "startable_dags": sorted(_startable(connections, rights)),
            "next_runs": {
                dag_id: due_at.timestamp()
                for dag_id in sorted(_dags_of(connections, WAITING, schedules))
                if (due_at := schedules[dag_id].due_at) and not schedules[dag_id].is_paused
            },
            "actions_dag_id": ACTIONS_DAG,
            "broken_dags": sorted(broken),
        }
    )


def _startable(connections: Collection[Mapping[str, Any]], rights: PeriodRights) -> set[str]:
    """Return the DAGs whose runs help, and that the user may start."""
    helped = (
        PeriodState.FAILED,
        PeriodState.CHANGED,
        PeriodState.BLOCKED,
        PeriodState.HELD,
        PeriodState.STRANDED,
        PeriodState.DIFFERS,
        *WAITING,
    )
    dags = _dags_of(connections, helped, rights.startable)
    needs_action = any(
        period["state"] in (PeriodState.GONE, PeriodState.PINNED, PeriodState.TOO_MANY_PARTS)
        for seen in connections
        for table in seen["tables"]
        for period in table["periods"]
    )
    may_act = needs_action and ACTIONS_DAG in rights.readable_dags and ACTIONS_DAG in rights.startable
    return dags | ({ACTIONS_DAG} if may_act else set())


def _dags_of(connections: Iterable[Mapping[str, Any]], states: Collection[str], allowed: Container[str]) -> set[str]:
    """Return the allowed DAGs with periods in these states: the auth manager is asked about each DAG."""
    periods = (period for seen in connections for table in seen["tables"] for period in table["periods"])
    dag_ids = {period["task"]["dag_id"] for period in periods if period["state"] in states and period["task"]}
    return {dag_id for dag_id in dag_ids if dag_id in allowed}
