"""Deferred loads under a real scheduler and triggerer, whose processes die, and whose tasks people end."""

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
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_chs3.testbed.trips import COLUMNS, Trips
from tests.integration.lake import MONTH, Lake
from tests.integration.slow import SLOW_SETTINGS
from tests.scheduler.airflow_services import AirflowServices

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.nodes import Cluster

DATABASE = "test_deferred"
TRIPS = Trips(rows_per_month=6_000, files_per_month=6)
TIMEOUT_SECONDS = 180

#: What befalls the load of each table.
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

from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

SECONDS = {{"failed": 0.2, "cleared": "{{{{ 0.2 if ti.try_number == 1 else 0 }}}}"}}


def tell_pid(context):
    Path(__file__).with_name(context["ti"].task_id).write_text(str(os.getpid()))


with DAG("loads", schedule=None, start_date=datetime(2026, 1, 1)):
    for table in {FATES!r}:
        S3ToClickHouseOperator(
            task_id=table,
            bucket="BUCKET",
            key="trips/{{YYYY-MM}}/",
            database="{DATABASE}",
            table=table,
            month="{MONTH}",
            # Some 50 s; what people end would take minutes, and no time when it runs again.
            select={{name: name for name in {list(COLUMNS)!r}}}
            | {{"trip_id": f"trip_id + sleepEachRow({{SECONDS.get(table, 0.025)}})"}},
            on_execute_callback=tell_pid,
            settings={SLOW_SETTINGS!r},
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
        lakes: Table → where it is.
    """

    home: Path
    lakes: dict[str, Lake]

    def tasks(self) -> dict[str, str]:
        """State of each task."""
        with closing(sqlite3.connect(self.home / "airflow.db")) as database:
            return dict(database.execute("SELECT task_id, state FROM task_instance"))

    def logs(self, table: str, pattern: str = "*") -> str:
        """All that the tries of a task have logged, in workers and triggerers."""
        files = sorted(self.home.glob(f"logs/**/task_id={table}/{pattern}"))
        return "\n".join(file.read_text() for file in files)

    def inserts(self, table: str) -> list[str]:
        """Query ids of the inserts that were started."""
        return sorted(set(re.findall(r"query id (chs3_\w+)", self.logs(table))))

    def is_inserting(self, table: str) -> bool:
        """Whether one of them runs."""
        ids = ", ".join(map(repr, self.inserts(table)))
        sql = f"SELECT count() FROM system.processes WHERE query_id IN ({ids})"
        return bool(ids) and any(rows[0][0] for rows in self.lakes[table].on_every_node(sql))


@pytest.fixture(scope="module")
def lakes(chs3_cluster: Cluster, chs3_s3: Any) -> Iterator[dict[str, Lake]]:
    bucket = "test-deferred"
    client = chs3_s3.client()
    client.create_bucket(Bucket=bucket)
    lakes = {table: Lake(chs3_cluster, client, bucket, DATABASE, table) for table in FATES}
    anywhere = lakes[FATES[0]]
    anywhere.on_every_node(f"CREATE DATABASE {DATABASE}")
    anywhere.upload(TRIPS)
    for lake in lakes.values():
        lake.create_table()
    yield lakes
    anywhere.on_every_node(f"DROP DATABASE {DATABASE} SYNC")


@pytest.fixture(scope="module")
def run(
    lakes: dict[str, Lake],
    chs3_cluster: Cluster,
    chs3_s3: Any,
    airflow_db: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Run:
    """A worker dies while it inserts, triggerer and scheduler while all tasks are deferred; people end two tasks."""
    home, dags = tmp_path_factory.mktemp("airflow"), tmp_path_factory.mktemp("dags")
    (dags / "loads.py").write_text(DAG.replace("BUCKET", lakes[FATES[0]].bucket))
    run = Run(home, lakes)
    environment = {
        "AIRFLOW_CONN_CHS3_DEFAULT": json.dumps(chs3_cluster.airflow_connection()),
        "AIRFLOW_CONN_AWS_DEFAULT": json.dumps(chs3_s3.airflow_connection()),
        **ENVIRONMENT,
    }
    with AirflowServices(home=home, dags=dags, database=airflow_db, environment=environment) as airflow:

        def wait_until(done: Callable[[], bool]) -> None:
            airflow.wait_until(done, timeout_seconds=TIMEOUT_SECONDS)

        def triggers_run(triggerers: int) -> bool:
            return all(run.logs(table, "*.trigger.*").count(" starting") >= triggerers for table in FATES)

        airflow.command("dags", "trigger", "loads", "--run-id", "run")
        airflow.start(triggerer=True, apps="core,execution")
        wait_until(lambda: run.is_inserting("worker_killed"))
        os.kill(int((dags / "worker_killed").read_text()), signal.SIGKILL)
        wait_until(lambda: triggers_run(1))
        airflow.kill("triggerer")
        airflow.kill("scheduler")
        airflow.start_scheduler()
        airflow.start_triggerer()
        wait_until(lambda: triggers_run(2))
        airflow.call("PATCH", "/api/v2/dags/loads/dagRuns/run/taskInstances/failed", {"new_state": "failed"})
        cleared = {"dry_run": False, "dag_run_id": "run", "task_ids": ["cleared"], "only_failed": False}
        airflow.call("POST", "/api/v2/dags/loads/clearTaskInstances", cleared)
        wait_until(lambda: all("dropping its staging" in run.logs(table) for table in ("failed", "cleared")))
        wait_until(lambda: run.tasks() == {table: "failed" if table == "failed" else "success" for table in FATES})
    return run


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("table", [fate for fate in FATES if fate != "failed"])
def test_the_month_holds_exactly_its_objects_rows(run: Run, table: str) -> None:
    assert run.lakes[table].facts() == TRIPS.facts(MONTH)


def test_the_table_of_a_task_that_was_marked_failed_is_as_it_was(run: Run) -> None:
    assert run.lakes["failed"].rows_per_node() == [0, 0, 0]


def test_no_query_runs_and_no_staging_is_left(run: Run) -> None:
    assert run.lakes["failed"].left_behind() == []


@pytest.mark.parametrize("table", ["worker_killed", "triggerer_killed"])
def test_the_insert_that_goes_on_is_taken_up_and_not_started_again(run: Run, table: str) -> None:
    assert len(run.inserts(table)) == 1


def test_the_insert_of_a_task_that_was_cleared_is_ended_and_another_one_is_started(run: Run) -> None:
    assert len(run.inserts("cleared")) == 2
    assert "dropping its staging" in run.logs("cleared")
