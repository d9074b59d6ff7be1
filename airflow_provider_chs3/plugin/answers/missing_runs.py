"""Periods whose run is missing (late, paused) or ended badly, by the DAGs that load them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState, State
from sqlalchemy import ColumnElement, and_, case, exists, false, func, or_, select
from sqlalchemy.orm import aliased

from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.plugin.constants import LOADERS
from airflow_provider_chs3.plugin.observation.period_state import HOLDS_ITS_ROWS, PeriodState

#: From Airflow 3.2: whether a DAG has so many runs that it may not have another one yet. Before, nothing was due then.
_HAS_ALL_RUNS = getattr(DagModel, "exceeds_max_non_backfill", false())
#: States that only the next load changes.
WAITING = (PeriodState.OVERDUE, PeriodState.UNFINISHED, PeriodState.CHANGED_IN_STORAGE, PeriodState.STALE)
#: States of the period that a run is for that a load may change; anything more urgent is shown instead.
_CALM = (*WAITING, *HOLDS_ITS_ROWS)
#: The summary of Airflow's timetable for `schedule=None`.
_NO_SCHEDULE = "None"
#: Schedulers create runs within seconds; a busy one, or one that restarts, takes minutes.
_GRACE = timedelta(minutes=10)


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """The schedule of a DAG."""

    is_paused: bool
    due_at: datetime | None
    due_for: datetime | None
    is_there: bool
    is_broken: bool
    is_awaited: bool

    def is_overdue(self, at: datetime) -> bool:
        """Check whether its next run should be there."""
        return self.is_there and not self.is_paused and self.due_at is not None and self.due_at + _GRACE < at

    def why_no_run(self, state: str) -> str:
        """Return why no run comes that would change a period, as the end of a sentence about the DAG; else nothing."""
        if self.is_there:
            # A plan without a load may have been all that was asked for; a load that was killed was not.
            return "" if self.is_awaited or state != PeriodState.UNFINISHED else "has no schedule, and no run is active"
        return "cannot be imported: fix its file first" if self.is_broken else "is no longer in Airflow"


def schedules_of(dag_ids: Collection[str]) -> dict[str, Schedule]:
    """Return the schedules of DAGs, also of those whose files are gone."""
    is_at_work = exists().where(DagRun.dag_id == DagModel.dag_id, DagRun.state.in_(State.unfinished_dr_states))
    asked = select(
        DagModel.dag_id,
        DagModel.is_paused,
        DagModel.is_stale,
        DagModel.has_import_errors,
        DagModel.timetable_summary,
        case((_HAS_ALL_RUNS, None), else_=DagModel.next_dagrun_create_after).label("due_at"),
        DagModel.next_dagrun_data_interval_start.label("due_for"),
        is_at_work.label("is_at_work"),
    ).where(DagModel.dag_id.in_(dag_ids))
    with create_session() as session:
        rows = session.execute(asked).all()
    return {
        row.dag_id: Schedule(
            is_paused=row.is_paused,
            due_at=row.due_at,
            due_for=row.due_for.astimezone(UTC).replace(tzinfo=None) if row.due_for else None,
            is_there=not row.is_stale,
            is_broken=bool(row.is_stale and row.has_import_errors),
            is_awaited=row.is_at_work or row.timetable_summary != _NO_SCHEDULE,
        )
        for row in rows
    }


def newest_runs(dag_ids: Collection[str], *, with_loaders: bool) -> tuple[set[str], list[dict[str, Any]]]:
    """Return the DAGs with active runs, and the newest runs that failed, also of paused DAGs.

    Active are runs that are queued or running; those of a paused DAG wait. The newest run of a DAG is the one that
    began last: it may have failed before a load that records why.
    """
    is_busy = and_(DagRun.state.in_(State.unfinished_dr_states), ~DagModel.is_paused)
    asked = (
        select(DagRun.dag_id, DagRun.run_id, DagRun.state, DagRun.end_date)
        .join(DagModel, DagModel.dag_id == DagRun.dag_id)
        .where(
            or_(is_busy, and_(DagRun.state == DagRunState.FAILED, _is_newest())),
            ~DagModel.is_stale,
            _is_of(dag_ids, with_loaders=with_loaders),
        )
        .order_by(DagRun.end_date.desc(), DagRun.dag_id)
    )
    with create_session() as session:
        rows = session.execute(asked).all()
    failed = [
        {"dag_id": dag_id, "run_id": run_id, "ended_at": ended_at.timestamp() if ended_at else None}
        for dag_id, run_id, state, ended_at in rows
        if state == DagRunState.FAILED
    ]
    return {row.dag_id for row in rows if row.state != DagRunState.FAILED}, failed


def _is_newest() -> ColumnElement[bool]:
    """Return the condition that no other run of the DAG began later, or was queued later and will begin.

    One that was created later may have begun earlier. Runs before the tasks' `start_date` have no tasks and do nothing.
    """
    newer = aliased(DagRun)
    began, newer_began = (func.coalesce(run.start_date, run.queued_at) for run in (DagRun, newer))
    has_tasks = exists().where(TaskInstance.dag_id == newer.dag_id, TaskInstance.run_id == newer.run_id)
    is_later = or_(newer_began > began, and_(newer_began == began, newer.id > DagRun.id))
    waits = and_(newer.state == DagRunState.QUEUED, DagModel.is_paused)
    return ~exists().where(newer.dag_id == DagRun.dag_id, is_later, has_tasks, ~waits)


def _is_of(dag_ids: Collection[str], *, with_loaders: bool) -> ColumnElement[bool]:
    among = DagRun.dag_id.in_(dag_ids)
    loads = exists().where(
        TaskInstance.dag_id == DagRun.dag_id, TaskInstance.run_id == DagRun.run_id, TaskInstance.operator.in_(LOADERS)
    )
    return or_(among, loads) if with_loaders else among


def mark_waiting(
    connections: Iterable[Mapping[str, Any]],
    schedules: Mapping[str, Schedule],
    at: datetime,
    *,
    are_newest: bool = True,
) -> None:
    """Give periods that wait for a run of their DAG that does not come a state of its own."""
    overdue = {dag_id for dag_id, schedule in schedules.items() if schedule.is_overdue(at)}
    for table, are_some in ((table, seen["are_some"]) for seen in connections for table in seen["tables"]):
        known = [(period, dag_id) for period in table["periods"] if (dag_id := _dag_of(period)) in schedules]
        are_all = not (are_some or table["unread"].published)
        awaited = dict[str, str | None]()
        for dag_id in {dag_id for _, dag_id in known} & overdue:
            names = [period["period"] for period, of_dag in known if of_dag == dag_id]
            awaited[dag_id] = _awaited(
                names, schedules[dag_id].due_for, are_all=are_all, are_newest=are_newest and not are_some
            )
        for period, dag_id in known:
            is_awaited = awaited.get(dag_id) == period["period"]
            is_late = dag_id in overdue and (period["state"] in WAITING or is_awaited)
            period |= _waiting(period, dag_id, schedules[dag_id], is_late=is_late)


def _dag_of(period: Mapping[str, Any]) -> str:
    return str(period["task"]["dag_id"]) if period["task"] else ""


def _awaited(names: Collection[str], due_for: datetime | None, *, are_all: bool, are_newest: bool) -> str | None:
    """Return the period that a DAG's next run is for, or the last one before it if that one is not there yet."""
    if due_for is None:
        return None
    begun = [period for period in map(Period.parse, names) if period.begin <= due_for]
    # If not all periods of a table are read, there may be others between them.
    is_last = are_all or (are_newest and len(begun) == len(names))
    return str(begun[-1]) if begun and (is_last or due_for < begun[-1].end) else None


def _waiting(period: Mapping[str, Any], dag_id: str, schedule: Schedule, *, is_late: bool) -> dict[str, str]:
    if period["state"] in WAITING and (why_no_run := schedule.why_no_run(period["state"])):
        reason = f"the DAG {dag_id}, which loaded it last, {why_no_run}; {period['why']}"
        return {"state": PeriodState.STRANDED, "why": reason}
    if schedule.is_paused and period["state"] in WAITING:
        reason = f"the DAG {dag_id}, which loaded it last, is paused; {period['why']}"
        return {"state": PeriodState.PAUSED, "why": reason}
    if schedule.due_at and is_late and period["state"] in _CALM:
        at = f"{schedule.due_at.astimezone(UTC):%Y-%m-%d %H:%M}"
        reason = f"a run of the DAG {dag_id} was due at {at} UTC, and Airflow never created it; {period['why']}"
        return {"state": PeriodState.LATE, "why": reason, "since": f"{at}:00"}
    return {}
