"""Tasks that a run of a DAG has, and loads that they leave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from airflow.models.dag import DagModel
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from sqlalchemy import update

from airflow_provider_chs3.client.runner import Runner
from tests.plugin import runs
from tests.plugin.fixture_types import AsUser
from tests.plugin.period_loads import TRIPS
from tests.plugin.runs import LOADER
from tests.support.lake import Lake

if TYPE_CHECKING:
    pass


@pytest.fixture
def task(as_user: AsUser) -> Any:
    runs.make_known(LOADER)
    return runs.start(as_user("admin"))


def set_dag(**columns: Any) -> None:
    """As if somebody, or a scheduler, had done it."""
    with create_session() as session:
        session.execute(update(DagModel).where(DagModel.dag_id == LOADER).values(columns))


def set_task(task: Any, **columns: Any) -> None:
    """The same of the task."""
    with create_session() as session:
        session.execute(update(TaskInstance).where(TaskInstance.run_id == task.run_id).values(columns))


def leave_unfinished(lake: Lake, task: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A load that is killed when it begins to insert."""
    lake.upload(TRIPS)

    def die(runner: Runner, step: Any) -> None:
        raise KeyboardInterrupt

    operator = lake.operator()
    with monkeypatch.context() as patch:
        patch.setattr(Runner, "insert", die)
        with pytest.raises(KeyboardInterrupt):
            operator.execute({"ti": task})
    runs.set_state(task, "failed")


def load(lake: Lake, task: Any) -> None:
    lake.upload(TRIPS)
    lake.operator().execute({"ti": task})
    runs.set_state(task, "success")
