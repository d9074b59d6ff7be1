"""Deferred statements under a real scheduler and triggerer, whose processes die, and whose tasks people end."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.scheduler.airflow_services import AirflowServices

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.nodes import Cluster

DATABASE = "test_statements"
TIMEOUT_SECONDS = 180

#: What befalls the statement that fills each table.
FATES = ("worker_killed", "triggerer_killed", "failed", "cleared")

ENVIRONMENT = {
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
    "AIRFLOW__CORE__MAX_ACTIVE_TASKS_PER_DAG": "4",
}

DAG = f"""
import os
from datetime import datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG

from airflow_provider_chs3.operators.clickhouse import ClickHouseOperator

SECONDS = {{"failed": 20, "cleared": "{{{{ 20 if ti.try_number == 1 else 0 }}}}"}}


def tell_pid(context):
    Path(__file__).with_name(context["ti"].task_id).write_text(str(os.getpid()))


with DAG("statements", schedule=None, start_date=datetime(2026, 1, 1)):
    for table in {FATES!r}:
        ClickHouseOperator(
            task_id=table,
            # Some 50 s; what people end would take minutes, and no time when it runs again.
            sql=[
                f"INSERT INTO {{table}} SELECT number + sleepEachRow({{SECONDS.get(table, 2)}}) FROM numbers(25) "
                "SETTINGS max_block_size = 1, function_sleep_max_microseconds_per_block = 100000000",
                f"SELECT count(), {{{{tenant:String}}}} FROM {{table}}",
            ],
            parameters={{"tenant": "t1"}},
            database="{DATABASE}",
            on_execute_callback=tell_pid,
            deferrable=True,
            progress_interval_seconds=2,
            retries=2,
            retry_delay=timedelta(seconds=1),
        )
"""


@dataclass
class Run:
    """One run of the DAG.

    Attributes:
        home: Airflow's.
        cluster: Where the tables are, on its first node.
    """

    home: Path
    cluster: Cluster

    def tasks(self) -> dict[str, str]:
        """State of each task."""
        with closing(sqlite3.connect(self.home / "airflow.db")) as database:
            return dict(database.execute("SELECT task_id, state FROM task_instance"))

    def result(self, task_id: str) -> object:
        """What the task has returned."""
        with closing(sqlite3.connect(self.home / "airflow.db")) as database:
            sql = "SELECT value FROM xcom WHERE key = 'return_value' AND task_id = ?"
            ((value,),) = database.execute(sql, (task_id,))
        return json.loads(value)

    def logs(self, table: str, pattern: str = "*") -> str:
        """All that the tries of a task have logged, in workers and triggerers."""
        files = sorted(self.home.glob(f"logs/**/task_id={table}/{pattern}"))
        return "\n".join(file.read_text() for file in files)

    def statements(self, table: str) -> set[str]:
        """Query ids of the inserts that were started."""
        return set(re.findall(r"Query id: (chs3_statement_\w+_0_\w+)", self.logs(table)))

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        """The rows of a statement on the first node."""
        with self.cluster.nodes[0].client() as client:
            return client.execute(sql)

    def is_running(self, table: str) -> bool:
        """Whether one of them runs."""
        ids = ", ".join(map(repr, self.statements(table)))
        return bool(ids) and bool(self.rows(f"SELECT 1 FROM system.processes WHERE query_id IN ({ids})"))


@pytest.fixture(scope="module")
def run(chs3_cluster: Cluster, airflow_db: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """A worker dies while its statement runs, triggerer and scheduler while tasks are deferred; people end two."""
    home, dags = tmp_path_factory.mktemp("airflow"), tmp_path_factory.mktemp("dags")
    (dags / "statements.py").write_text(DAG)
    run = Run(home, chs3_cluster)
    run.rows(f"CREATE DATABASE {DATABASE}")
    for table in FATES:
        run.rows(f"CREATE TABLE {DATABASE}.{table} (n UInt64) ENGINE = MergeTree ORDER BY n")
    environment = {"AIRFLOW_CONN_CHS3_DEFAULT": json.dumps(chs3_cluster.airflow_connection()), **ENVIRONMENT}
    with AirflowServices(home=home, dags=dags, database=airflow_db, environment=environment) as airflow:

        def wait_until(done: Callable[[], bool]) -> None:
            airflow.wait_until(done, timeout_seconds=TIMEOUT_SECONDS)

        def triggers_run(triggerers: int) -> bool:
            return all(run.logs(table, "*.trigger.*").count(" starting") >= triggerers for table in FATES)

        airflow.command("dags", "trigger", "statements", "--run-id", "run")
        airflow.start(triggerer=True, apps="core,execution")
        wait_until(lambda: run.is_running("worker_killed"))
        os.kill(int((dags / "worker_killed").read_text()), signal.SIGKILL)
        wait_until(lambda: triggers_run(1))
        airflow.kill("triggerer")
        airflow.kill("scheduler")
        airflow.start_scheduler()
        airflow.start_triggerer()
        wait_until(lambda: triggers_run(2))
        airflow.call("PATCH", "/api/v2/dags/statements/dagRuns/run/taskInstances/failed", {"new_state": "failed"})
        cleared = {"dry_run": False, "dag_run_id": "run", "task_ids": ["cleared"], "only_failed": False}
        airflow.call("POST", "/api/v2/dags/statements/clearTaskInstances", cleared)
        wait_until(lambda: run.tasks() == {table: "failed" if table == "failed" else "success" for table in FATES})
        wait_until(lambda: not any(map(run.is_running, FATES)))
        yield run
    run.rows(f"DROP DATABASE {DATABASE} SYNC")


@pytest.mark.parametrize("table", ["worker_killed", "triggerer_killed"])
def test_the_statement_that_goes_on_is_waited_for_and_not_run_again(run: Run, table: str) -> None:
    assert len(run.statements(table)) == 1
    assert run.rows(f"SELECT groupArray(n) FROM (SELECT n FROM {DATABASE}.{table} ORDER BY n)") == [(list(range(25)),)]
    assert run.result(table) == [[25, "t1"]]


def test_the_worker_was_killed_before_its_task_was_deferred(run: Run) -> None:
    assert "of an earlier try still runs, and is waited for" in run.logs("worker_killed")


def test_the_statement_of_a_task_that_was_marked_failed_is_killed(run: Run) -> None:
    assert "Ending query" in run.logs("failed", "*.trigger.*")
    assert len(run.statements("failed")) == 1


def test_a_cleared_task_kills_its_statement_and_runs_it_again(run: Run) -> None:
    assert len(run.statements("cleared")) == 2
    ((rows,),) = run.rows(f"SELECT count() - uniqExact(n) FROM {DATABASE}.cleared WHERE n > 20")
    assert rows == 0
    assert run.result("cleared")[0][0] >= 25
