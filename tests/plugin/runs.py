"""DAGs that Airflow knows, and runs of them, without a scheduler: nothing runs."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from airflow.models import DagRun, TaskInstance
from airflow.models.dag import DagModel
from airflow.models.log import Log
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable
from airflow.utils.session import create_session
from fastapi.testclient import TestClient
from sqlalchemy import delete, select, update

from tests.support.dag_bag import DagBag, sync_bag_to_db

#: Loads periods, as far as Airflow knows.
LOADER = "acted_on"
#: Forgets periods, and merges them.
ACTIONS = "chs3_period_actions"
_ACTIONS_FILE = Path(__file__).parents[2] / "dags" / f"{ACTIONS}.py"


def make_known(*dag_ids: str) -> None:
    """Have Airflow know these of the two DAGs, without any run, and not the other one."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager

    DagBundlesManager().sync_bundles_to_db()
    bag = DagBag(_ACTIONS_FILE) if ACTIONS in dag_ids else DagBag(os.devnull)
    if LOADER in dag_ids:
        with DAG(dag_id=LOADER, schedule=CronDataIntervalTimetable("0 3 * * *", timezone="UTC")) as dag:
            EmptyOperator(task_id="load")
        bag.bag_dag(dag)
    sync_bag_to_db(bag, "dags-folder", None)
    with create_session() as session:
        session.execute(delete(DagRun).where(DagRun.dag_id.in_((LOADER, ACTIONS))))
        session.execute(
            update(DagModel).values(
                is_stale=DagModel.dag_id.not_in(dag_ids),
                is_paused=False,
                # No scheduler is late.
                next_dagrun_create_after=None,
            )
        )


def start(client: TestClient, **body: Any) -> SimpleNamespace:
    """A run of the loader; gives the task of it that loads."""
    made = client.post(f"/api/v2/dags/{LOADER}/dagRuns", json={"logical_date": None, **body}).raise_for_status()
    run_id = made.json()["dag_run_id"]
    return SimpleNamespace(
        dag_id=LOADER, run_id=run_id, task_id="load", map_index=-1, try_number=1, xcom_push=lambda **_: None
    )


def runs(dag_id: str) -> list[DagRun]:
    """The runs of a DAG, the oldest first."""
    with create_session() as session:
        return list(session.scalars(select(DagRun).where(DagRun.dag_id == dag_id).order_by(DagRun.id)))


def audited(dag_id: str) -> list[tuple[str, str]]:
    """What Airflow's audit log has of a DAG, and whose doing it was, the oldest first."""
    with create_session() as session:
        asked = select(Log.event, Log.owner).where(Log.dag_id == dag_id).order_by(Log.id)
        return [(row.event, row.owner) for row in session.execute(asked)]


def set_state(task: SimpleNamespace, state: str) -> None:
    """As if a scheduler had come so far."""
    with create_session() as session:
        session.execute(update(TaskInstance).where(TaskInstance.run_id == task.run_id).values(state=state))


def state_of(task: SimpleNamespace) -> str:
    with create_session() as session:
        return str(session.scalar(select(TaskInstance.state).where(TaskInstance.run_id == task.run_id)))


def end(run_id: str, state: str = "success") -> None:
    """As if all tasks of a run had ended so."""
    with create_session() as session:
        session.execute(update(DagRun).where(DagRun.run_id == run_id).values(state=state, end_date=datetime.now(UTC)))
