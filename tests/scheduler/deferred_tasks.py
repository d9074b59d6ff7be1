"""Deferred tasks of a real scheduler and triggerer, whose processes die, and whose tasks people end."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from tests.support.airflow_services import AirflowServices

_TIMEOUT_SECONDS = 300
_TASKS_AT_ONCE = "8"

#: The fate of each task: its worker dies while its query runs, triggerer and scheduler die while it is deferred, or
#: people end it. It has the name of its fate.
FATES = ("worker_killed", "triggerer_killed", "failed", "cleared")

ENVIRONMENT = {
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
    "AIRFLOW__CORE__PARALLELISM": _TASKS_AT_ONCE,
    "AIRFLOW__CORE__MAX_ACTIVE_TASKS_PER_DAG": _TASKS_AT_ONCE,
}

#: The beginning of a DAG's file.
TELLS_PID = """
import os
from datetime import datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG

from airflow_provider_chs3.client import detached_runner as detached


def tell_pid(context):
    if context["ti"].task_id == "worker_killed" and context["ti"].try_number == 1:
        # It stays until it is killed, however slow the machine is.
        detached._ATTACHED_SECONDS = 600
    Path(__file__).with_name(context["ti"].task_id).write_text(str(os.getpid()))
"""

#: Arguments of each task.
ARGUMENTS = {
    "on_execute_callback": "tell_pid",
    "deferrable": "True",
    "progress_interval_seconds": "2",
    "retries": "2",
    "retry_delay": "timedelta(seconds=1)",
}


@dataclass
class DeferredTasks(ABC):
    """One run of a DAG with a task for each fate."""

    states: ClassVar[dict[str, str]] = {fate: "failed" if fate == "failed" else "success" for fate in FATES}

    dag_id: str
    home: Path
    _has_worker: bool = field(default=True, init=False)

    @abstractmethod
    def query_ids(self, fate: str) -> set[str]:
        """Return the ids of the queries that a task has started and that go on without it."""

    @abstractmethod
    def is_running(self, fate: str) -> bool:
        """Whether one of them runs."""

    @abstractmethod
    def have_ended(self) -> bool:
        """Whether the queries of the tasks that people end have ended."""

    def write_dag(self, text: str) -> None:
        """Write the DAG's file."""
        self._folder.mkdir(parents=True)
        (self._folder / "dag.py").write_text(text)

    def lose_worker(self) -> bool:
        """`kill -9` the process of the task that meets this fate, if its query runs; whether that is done."""
        if self._has_worker and self.is_running("worker_killed"):
            os.kill(int((self._folder / "worker_killed").read_text()), signal.SIGKILL)
            self._has_worker = False
        return not self._has_worker

    def triggers_run(self, triggerers: int) -> bool:
        """Whether the trigger of every task has started in so many triggerers."""
        return all(self.logs(fate, "*.trigger.*").count(" starting") >= triggerers for fate in FATES)

    def begin(self, airflow: AirflowServices) -> None:
        """Start the run; a command of Airflow's would import all of it anew."""
        airflow.call("POST", f"/api/v2/dags/{self.dag_id}/dagRuns", {"dag_run_id": "run", "logical_date": None})

    def end_tasks(self, airflow: AirflowServices) -> None:
        """Mark one task as failed and clear another one, as people do in the UI."""
        dag = f"/api/v2/dags/{self.dag_id}"
        airflow.call("PATCH", f"{dag}/dagRuns/run/taskInstances/failed", {"new_state": "failed"})
        cleared = {"dry_run": False, "dag_run_id": "run", "task_ids": ["cleared"], "only_failed": False}
        airflow.call("POST", f"{dag}/clearTaskInstances", cleared)

    def is_over(self) -> bool:
        """Whether each task has met its fate, and nothing runs."""
        sql = "SELECT task_id, state FROM task_instance WHERE dag_id = ?"
        return dict(self._airflows_rows(sql, self.dag_id)) == self.states and self.have_ended()

    def result(self, fate: str) -> object:
        """Return the result of a task."""
        sql = "SELECT value FROM xcom WHERE key = 'return_value' AND dag_id = ? AND task_id = ?"
        ((value,),) = self._airflows_rows(sql, self.dag_id, fate)
        return json.loads(value)

    def logs(self, fate: str, pattern: str = "*") -> str:
        """Return all that the tries of a task have logged, in workers and triggerers."""
        files = sorted(self.home.glob(f"logs/dag_id={self.dag_id}/**/task_id={fate}/{pattern}"))
        return "\n".join(file.read_text() for file in files)

    def found_in_logs(self, fate: str, pattern: str) -> set[str]:
        """Return what a pattern finds in the logs of a task."""
        return set(re.findall(pattern, self.logs(fate)))

    @property
    def _folder(self) -> Path:
        return self.home / "dags" / self.dag_id

    def _airflows_rows(self, sql: str, *values: str) -> list[tuple[str, str]]:
        with closing(sqlite3.connect(self.home / "airflow.db")) as database:
            return database.execute(sql, values).fetchall()


def befall(airflow: AirflowServices, runs: Sequence[DeferredTasks]) -> None:
    """Run the DAGs, and have each task meet its fate."""

    def wait_for_all(is_so: Callable[[DeferredTasks], bool]) -> None:
        airflow.wait_until(lambda: sum(map(is_so, runs)) == len(runs), timeout_seconds=_TIMEOUT_SECONDS)

    airflow.start(triggerer=True, apps="core,execution")
    for run in runs:
        run.begin(airflow)
    wait_for_all(DeferredTasks.lose_worker)
    wait_for_all(lambda run: run.triggers_run(1))
    airflow.kill("triggerer")
    airflow.kill("scheduler")
    airflow.start_scheduler()
    airflow.start_triggerer()
    wait_for_all(lambda run: run.triggers_run(2))
    for run in runs:
        run.end_tasks(airflow)
    wait_for_all(DeferredTasks.is_over)
