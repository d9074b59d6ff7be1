"""The page says which of the newest runs of DAGs are at work, and which failed, and why."""

from __future__ import annotations

import importlib
import pkgutil
from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.models import DagRun, TaskInstance
from airflow.models.log import Log
from airflow.models.renderedtifields import RenderedTaskInstanceFields
from airflow.utils.session import create_session
from sqlalchemy import delete, update

from airflow_provider_chs3 import transfers
from airflow_provider_chs3.operators._support.period_load_task import PeriodLoadTask
from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator
from airflow_provider_chs3.plugin.constants import LOADERS
from tests.plugin import runs
from tests.plugin.fixture_types import AsUser, Open
from tests.plugin.runs import ACTIONS, LOADER
from tests.plugin.scheduled_tasks import load, set_dag, set_task, task
from tests.support.browsing import PAGE
from tests.support.lake import Lake

#: Fixtures.
__all__ = ["task"]


def busy_dags(as_user: AsUser, **query: str) -> Any:
    return as_user("viewer").get("/chs3/api/periods", params=query).raise_for_status().json()["busy_dags"]


def test_dags_with_a_run_at_work_are_told_unless_they_are_paused(as_user: AsUser, trips_lake: Lake, task: Any) -> None:
    load(trips_lake, task)
    assert busy_dags(as_user) == [LOADER]
    set_dag(is_paused=True)
    assert busy_dags(as_user) == []
    set_dag(is_paused=False)
    runs.end(task.run_id)
    assert busy_dags(as_user) == []


def test_a_dag_that_loads_periods_is_at_work_before_it_has_loaded_any(as_user: AsUser, lake: Lake) -> None:
    runs.make_known(LOADER, ACTIONS)
    task = runs.start(as_user("admin"))
    assert busy_dags(as_user) == []
    set_task(task, operator=LOADERS[0])
    assert busy_dags(as_user) == [LOADER]
    assert busy_dags(as_user, dag_id=ACTIONS) == []


def test_every_operator_that_loads_periods_is_known_to_the_page() -> None:
    found = {
        var.__name__
        for module in pkgutil.iter_modules(transfers.__path__, f"{transfers.__name__}.")
        for var in vars(importlib.import_module(module.name)).values()
        if isinstance(var, type) and issubclass(var, PeriodLoadTask) and var.__module__ == module.name
    }
    assert {PlanLoadsOperator.__name__, *found} == set(LOADERS)


@pytest.mark.thorough
def test_a_dag_that_has_loaded_nothing_yet_is_at_work_on_its_own_page(as_user: AsUser, lake: Lake, task: Any) -> None:
    assert (busy_dags(as_user), busy_dags(as_user, dag_id=LOADER)) == ([], [LOADER])


def failed_runs(as_user: AsUser, **query: str) -> Any:
    answer = as_user("viewer").get("/chs3/api/periods", params=query).raise_for_status().json()
    # Whoever is to act is named, though no period has been loaded.
    assert answer["owners"] == {run["dag_id"]: "airflow" for run in answer["failed_runs"]}
    return answer["failed_runs"]


def test_a_run_that_failed_is_told_until_another_one_begins(as_user: AsUser, lake: Lake) -> None:
    runs.make_known(LOADER, ACTIONS)
    first = runs.start(as_user("admin"))
    set_task(first, operator=LOADERS[0])
    assert failed_runs(as_user) == []
    runs.end(first.run_id, "failed")
    (told,) = failed_runs(as_user)
    assert (told["dag_id"], told["run_id"]) == (LOADER, first.run_id)
    assert (failed_runs(as_user, dag_id=LOADER), failed_runs(as_user, dag_id=ACTIONS)) == ([told], [])
    set_dag(is_paused=True)
    assert failed_runs(as_user) == [told]
    # One that waits until somebody unpauses the DAG hides nothing.
    runs.start(as_user("admin"))
    assert failed_runs(as_user) == [told]
    set_dag(is_paused=False)
    assert failed_runs(as_user) == []


def began(run: Any, hour: int, state: str) -> None:
    """As if it had waited until then."""
    at = datetime(2099, 1, 1, hour, tzinfo=UTC)
    with create_session() as session:
        session.execute(update(DagRun).where(DagRun.run_id == run.run_id).values(start_date=at, state=state))


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("states", [("success", "failed"), ("failed", "success"), ("failed", "failed")])
def test_the_newest_run_is_the_one_that_began_last(as_user: AsUser, lake: Lake, states: tuple[str, str]) -> None:
    runs.make_known(LOADER, ACTIONS)
    waited, created_later = (runs.start(as_user("admin")) for _ in range(2))
    for hour, run, state in ((2, waited, states[0]), (1, created_later, states[1])):
        set_task(run, operator=LOADERS[0])
        began(run, hour, state)
    told = [run["run_id"] for run in failed_runs(as_user)]
    assert told == ([waited.run_id] if states[0] == "failed" else [])


@pytest.mark.thorough
def test_a_run_without_tasks_hides_none(as_user: AsUser, lake: Lake) -> None:
    runs.make_known(LOADER, ACTIONS)
    failed, without_tasks = (runs.start(as_user("admin")) for _ in range(2))
    set_task(failed, operator=LOADERS[0])
    began(failed, 1, "failed")
    began(without_tasks, 2, "success")
    # As Airflow makes a run whose date is before the `start_date` of all tasks.
    with create_session() as session:
        session.execute(delete(TaskInstance).where(TaskInstance.run_id == without_tasks.run_id))
    assert [run["run_id"] for run in failed_runs(as_user)] == [failed.run_id]


@pytest.mark.thorough
def test_a_run_that_failed_before_any_load_is_on_the_page(
    as_user: AsUser, trips_lake: Lake, task: Any, open_page: Open
) -> None:
    load(trips_lake, task)
    runs.set_state(task, "failed")
    runs.end(task.run_id, "failed")
    with create_session() as session:
        of_run = session.query(TaskInstance).filter(TaskInstance.run_id == task.run_id).one()
        session.add(
            RenderedTaskInstanceFields(
                of_run, render_templates=False, rendered_fields={"clickhouse_conn_id": "lake", "table": "trips"}
            )
        )
    page, troubles = open_page(PAGE)
    failed = page.get_by_role("listitem", name=f"Run of DAG {LOADER} failed")
    # Nothing has run it, so that there is no log.
    failed.get_by_text("Task load failed (connection lake): its log shows no error.").wait_for()
    # As the scheduler does when it ends a task.
    place = {"dag_id": task.dag_id, "run_id": task.run_id, "task_id": task.task_id, "map_index": task.map_index}
    for event, extra, said in (
        ("state mismatch", "Executor local reported that it finished with state failed", "finished with state failed."),
        ("stuck in queued tries exceeded", "Task was requeued more than 2 times", "requeued more than 2 times."),
    ):
        with create_session() as session:
            session.add(Log(event=event, extra=extra, **place))
        page.reload()
        failed.get_by_text(said).wait_for()
    with create_session() as session:
        session.add(Log(event="heartbeat timeout", **place))
    page.reload()
    failed.get_by_text("Airflow ended it, as its worker sent no more heartbeats: the worker was killed").wait_for()
    assert "Its newest run failed, and no period shows why." in failed.inner_text()
    assert "owner airflow" in failed.inner_text()
    failed.get_by_role("link", name="newest run").click()
    page.wait_for_url(f"**/dags/{LOADER}/runs/*")
    assert troubles == []


@pytest.mark.thorough
def test_a_run_that_failed_says_who_ended_it_or_which_task_failed_and_why_to_readers_of_its_log(
    as_user: AsUser, airflow_api: Any, trips_lake: Lake, task: Any, open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(trips_lake, task)
    runs.end(task.run_id, "failed")
    page, troubles = open_page(PAGE)
    failed = page.get_by_role("listitem", name=f"Run of DAG {LOADER} failed")
    failed.get_by_text("No task of it failed: it lasted longer than its DAG's dagrun_timeout, none of").wait_for()
    runs.end(task.run_id, "running")
    marked = {"state": "failed", "note": "The files come later."}
    as_user("admin").patch(f"/api/v2/dags/{LOADER}/dagRuns/{task.run_id}", json=marked).raise_for_status()
    page.reload()
    failed.get_by_text(
        "No task of it failed: admin marked the run as failed. Its note: The files come later."
    ).wait_for()
    assert troubles == []
    runs.set_state(task, "failed")
    manager = airflow_api.state.auth_manager
    is_authorized = manager.is_authorized_dag

    def without_logs(*, access_entity: Any = None, **asked: Any) -> bool:
        is_log = access_entity is DagAccessEntity.TASK_LOGS
        return not is_log and bool(is_authorized(access_entity=access_entity, **asked))

    monkeypatch.setattr(manager, "is_authorized_dag", without_logs)
    page.reload()
    failed.get_by_text("Task load failed: its error is shown only to users who may read its log.").wait_for()
    assert failed.get_by_role("link", name="Open the log").count() == 1
