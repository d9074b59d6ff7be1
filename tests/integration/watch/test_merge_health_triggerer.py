"""Deferred sensors under a real scheduler and triggerer, which is killed with `kill -9` while they wait."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_chs3.testbed.trips import create_table_sql
from tests.support.airflow_services import AirflowServices
from tests.support.lake import PERIOD, Lake
from tests.support.merge_sensors import insert, merges
from tests.support.narrow_user import NARROW, narrow_connection

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.nodes import Cluster

pytestmark = pytest.mark.thorough

DATABASE = "test_triggerer"
TIMEOUT_SECONDS = 240
RETRIES = 5

DAG = f"""
from datetime import datetime, timedelta

from airflow.sdk import DAG

from airflow_provider_chs3.sensors.merge_health import ClickHouseMergeHealthSensor

# Airflow on SQLite loses a try now and then when several tasks start at once, and so may use a retry.
arguments = {{"retries": {RETRIES}, "retry_delay": timedelta(0)}}
with DAG("merges", schedule=None, start_date=datetime(2026, 1, 1), default_args=arguments):
    for table, options in {{
        "settles": {{}},
        "sticks": {{"stuck_after_seconds": 0}},
        "never_ends": {{"timeout": 15}},
    }}.items():
        ClickHouseMergeHealthSensor(
            task_id=table,
            table=table,
            period="{PERIOD}",
            database="{DATABASE}",
            deferrable=True,
            poke_interval=2,
            settled_after_seconds=3600,
            **options,
        )
"""


@dataclass
class Ended:
    """Return what is left of the run."""

    home: Path

    def rows(self, sql: str) -> list[tuple[str, ...]]:
        with closing(sqlite3.connect(self.home / "airflow.db")) as database:
            return list(database.execute(sql))

    def tasks(self) -> dict[str, tuple[str, int]]:
        """State and number of tries of each task."""
        rows = self.rows("SELECT task_id, state, try_number FROM task_instance")
        return {task_id: (state, int(tries)) for task_id, state, tries in rows}

    def is_over(self, task_id: str) -> bool:
        return self.tasks().get(task_id, ("", 0))[0] in ("success", "failed")

    def logs(self, task_id: str, pattern: str = "*") -> str:
        files = sorted(self.home.glob(f"logs/**/task_id={task_id}/{pattern}"))
        return "\n".join(file.read_text() for file in files)


@pytest.fixture(scope="module")
def lakes(chs3_cluster: Cluster) -> Iterator[dict[str, Lake]]:
    """Tables, each with 300 parts of the period on the first node, which nothing merges."""
    lakes = {table: Lake(chs3_cluster, None, "", DATABASE, table) for table in ("settles", "sticks", "never_ends")}
    anywhere = lakes["settles"]
    anywhere.on_every_node(f"CREATE DATABASE {DATABASE}")
    for table, lake in lakes.items():
        lake.on_every_node(create_table_sql(f"{DATABASE}.{table}"))
        merges(lake, 0, "STOP")
        insert(lake, 0, parts=300)
    yield lakes
    anywhere.on_every_node(f"DROP DATABASE {DATABASE} SYNC")


@pytest.fixture(scope="module")
def ended(
    lakes: dict[str, Lake], chs3_cluster: Cluster, airflow_db: Path, tmp_path_factory: pytest.TempPathFactory
) -> Ended:
    """The triggerer dies while all tasks are deferred, and another one comes when one table is done, and one stuck."""
    home, dags = tmp_path_factory.mktemp("airflow"), tmp_path_factory.mktemp("dags")
    (dags / "merges.py").write_text(DAG)
    run = Ended(home)
    environment = {"AIRFLOW_CONN_CHS3_DEFAULT": json.dumps(narrow_connection(chs3_cluster))}
    with AirflowServices(home=home, dags=dags, database=airflow_db, environment=environment) as airflow:
        airflow.command("dags", "trigger", "merges")
        airflow.start(triggerer=True)
        airflow.wait_until(
            lambda: all(" starting" in run.logs(table, "*.trigger.*") or run.is_over(table) for table in lakes),
            timeout_seconds=TIMEOUT_SECONDS,
        )
        airflow.kill("triggerer")
        merges(lakes["settles"], 0, "START")
        lakes["sticks"].on_node(0, f"ALTER TABLE {DATABASE}.sticks MODIFY SETTING parts_to_delay_insert = 100")
        airflow.start_triggerer()
        airflow.wait_until(lambda: all(map(run.is_over, lakes)), timeout_seconds=TIMEOUT_SECONDS)
    return run


def test_the_one_whose_merges_are_done_succeeds(ended: Ended) -> None:
    assert ended.tasks()["settles"][0] == "success"


def test_its_result_is_that_of_a_poke(ended: Ended) -> None:
    ((value,),) = ended.rows("SELECT value FROM xcom WHERE task_id = 'settles' AND key = 'return_value'")
    assert json.loads(value)["health"] == "healthy"


def test_the_one_that_is_stuck_fails_without_a_retry(ended: Ended) -> None:
    state, tries = ended.tasks()["sticks"]
    assert (state, tries <= RETRIES) == ("failed", True)
    assert "this many parts should merge" in ended.logs("sticks")


def test_the_one_that_never_ends_fails_at_its_timeout_without_a_retry(ended: Ended) -> None:
    state, tries = ended.tasks()["never_ends"]
    assert (state, tries <= RETRIES) == ("failed", True)
    assert "Timeout" in ended.logs("never_ends")


def test_the_triggers_log_tells_how_it_goes(ended: Ended) -> None:
    assert f"settles {PERIOD} on " in ended.logs("settles", "*.trigger.*")


def test_no_log_shows_the_password(ended: Ended) -> None:
    logs = "\n".join(file.read_text() for file in ended.home.glob("**/*.log"))
    assert f"settles {PERIOD} on " in logs
    # In JSON, what follows is written in another way.
    assert NARROW.password.partition('"')[0] not in logs
