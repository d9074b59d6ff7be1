"""Deferred tasks of a real scheduler and triggerer, whose processes die, and whose tasks people end."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tests.scheduler.airflow_services import AirflowServices

_TIMEOUT_SECONDS = 180

#: What befalls each task: its worker dies while its query runs, triggerer and scheduler die while it is deferred, or
#: people end it. It has the name of its fate.
FATES = ("worker_killed", "triggerer_killed", "failed", "cleared")

ENVIRONMENT = {
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
    "AIRFLOW__CORE__MAX_ACTIVE_TASKS_PER_DAG": "4",
}

#: The beginning of a DAG's file.
TELLS_PID = """
import os
from datetime import datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG


def tell_pid(context):
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
    """One run of a DAG with a task for each fate.

    Attributes:
        dag_id: The DAG; its file has the same name.
        home: Airflow's.
        dags: Folder of the DAG's file.
    """

    dag_id: str
    home: Path
    dags: Path

    @abstractmethod
    def query_ids(self, fate: str) -> set[str]:
        """Return the ids of the queries that a task has started and that go on without it."""

    @abstractmethod
    def is_running(self, fate: str) -> bool:
        """Whether one of them runs."""

    def befall(self, database: Path, environment: dict[str, str], *, ended: Callable[[], bool]) -> None:
        """Run the DAG, and have each task meet its fate.

        Args:
            database: What the fixture `airflow_db` gives.
            environment: Airflow's connections.
            ended: Whether the queries of the tasks that people end have ended, which is waited for.
        """
        environment |= ENVIRONMENT
        with AirflowServices(home=self.home, dags=self.dags, database=database, environment=environment) as airflow:
            airflow.command("dags", "trigger", self.dag_id, "--run-id", "run")
            airflow.start(triggerer=True, apps="core,execution")
            self._wait_until(airflow, lambda: self.is_running("worker_killed"))
            os.kill(int((self.dags / "worker_killed").read_text()), signal.SIGKILL)
            self._wait_until(airflow, lambda: self._triggers_run(1))
            airflow.kill("triggerer")
            airflow.kill("scheduler")
            airflow.start_scheduler()
            airflow.start_triggerer()
            self._wait_until(airflow, lambda: self._triggers_run(2))
            dag = f"/api/v2/dags/{self.dag_id}"
            airflow.call("PATCH", f"{dag}/dagRuns/run/taskInstances/failed", {"new_state": "failed"})
            cleared = {"dry_run": False, "dag_run_id": "run", "task_ids": ["cleared"], "only_failed": False}
            airflow.call("POST", f"{dag}/clearTaskInstances", cleared)
            states = {fate: "failed" if fate == "failed" else "success" for fate in FATES}
            self._wait_until(airflow, lambda: self._tasks() == states and ended())

    def result(self, fate: str) -> object:
        """Return the result of a task."""
        sql = "SELECT value FROM xcom WHERE key = 'return_value' AND task_id = ?"
        ((value,),) = self._airflows_rows(sql, fate)
        return json.loads(value)

    def logs(self, fate: str, pattern: str = "*") -> str:
        """Return all that the tries of a task have logged, in workers and triggerers."""
        files = sorted(self.home.glob(f"logs/**/task_id={fate}/{pattern}"))
        return "\n".join(file.read_text() for file in files)

    def found_in_logs(self, fate: str, pattern: str) -> set[str]:
        """Return what a pattern finds in the logs of a task."""
        return set(re.findall(pattern, self.logs(fate)))

    def _wait_until(self, airflow: AirflowServices, done: Callable[[], bool]) -> None:
        airflow.wait_until(done, timeout_seconds=_TIMEOUT_SECONDS)

    def _triggers_run(self, triggerers: int) -> bool:
        return all(self.logs(fate, "*.trigger.*").count(" starting") >= triggerers for fate in FATES)

    def _tasks(self) -> dict[str, str]:
        return dict(self._airflows_rows("SELECT task_id, state FROM task_instance"))

    def _airflows_rows(self, sql: str, *values: str) -> list[tuple[str, str]]:
        with closing(sqlite3.connect(self.home / "airflow.db")) as database:
            return database.execute(sql, values).fetchall()
