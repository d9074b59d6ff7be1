"""Nights under a real scheduler: what follows runs for the periods that one has changed, and not for a quiet one."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow import sdk

from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.testbed.trips import Trips, create_table_sql
from tests.support.airflow_services import AirflowServices

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.nodes import Cluster

DAGS = Path(__file__).parents[2] / "dags"
#: Both are within the look-back of every night of this period.
PERIODS = [str(Period.of_month(*datetime.now(UTC).timetuple()[:2]).shifted(-back)) for back in (2, 1)]
TRIPS = Trips(rows_per_period=600, files_per_period=3)
TIMEOUT_SECONDS = 240


@pytest.fixture
def taxi(chs3_cluster: Cluster, chs3_s3: Any) -> Iterator[None]:
    """The defaults of the DAGs' params: two periods of trips in the bucket `taxi`, and tables."""
    s3 = chs3_s3.client()
    s3.create_bucket(Bucket="taxi")
    keys = [key for period in PERIODS for key in TRIPS.upload(s3, period, bucket="taxi", prefix=f"trips/{period}/")]
    for node in chs3_cluster.nodes:
        with node.client() as client:
            client.execute("CREATE DATABASE taxi")
            client.execute(create_table_sql("taxi.trips"))
            client.execute(f"CREATE TABLE taxi.trips_all ENGINE = Distributed({chs3_cluster.name}, taxi, trips)")
    yield
    for node in chs3_cluster.nodes:
        with node.client() as client:
            client.execute("DROP DATABASE taxi SYNC")
    for key in keys:
        s3.delete_object(Bucket="taxi", Key=key)
    s3.delete_bucket(Bucket="taxi")


@pytest.fixture
def services(tmp_path: Path, taxi: None, airflow_db: Path, chs3_airflow_connections: None) -> Iterator[AirflowServices]:
    dags = tmp_path / "dags"
    dags.mkdir()
    for name in ("chs3_nightly.py", "chs3_each_month.py"):
        shutil.copy(DAGS / name, dags)
    connections = {name: value for name, value in os.environ.items() if name.startswith("AIRFLOW_CONN_")}
    environment = {**connections, "AIRFLOW__SCHEDULER__USE_JOB_SCHEDULE": "True"}
    with AirflowServices(home=tmp_path, dags=dags, database=airflow_db, environment=environment) as started:
        yield started


def ask(home: Path, sql: str) -> list[Any]:
    """The first column of what Airflow's database answers."""
    with closing(sqlite3.connect(home / "airflow.db")) as database:
        return [row[0] for row in database.execute(sql)]


NIGHTS = "SELECT state FROM dag_run WHERE dag_id = 'chs3_nightly'"
CHECKS = "SELECT state FROM task_instance WHERE dag_id = 'chs3_each_month' AND task_id = 'rows' AND map_index >= 0"


def have_ended(states: list[str | None], *, count: int) -> bool:
    return len(states) >= count and {"success", "failed"}.issuperset(states)


@pytest.mark.thorough
def test_what_follows_runs_once_for_each_period_that_a_night_has_changed(
    services: AirflowServices, tmp_path: Path
) -> None:
    # The scheduler adds the run of last night. Whichever is first loads the periods; for the other, all is unchanged.
    services.command("dags", "trigger", "chs3_nightly", "--conf", json.dumps({"periods": PERIODS}))
    services.start()
    # Before Airflow 3.3 both periods may share a run, and the second may have to wait for another event.
    has_run_for_each = hasattr(sdk, "PartitionedAtRuntime")
    checks = len(PERIODS) if has_run_for_each else 1
    services.wait_until(
        lambda: have_ended(ask(tmp_path, NIGHTS), count=2) and have_ended(ask(tmp_path, CHECKS), count=checks),
        timeout_seconds=TIMEOUT_SECONDS,
    )
    assert set(ask(tmp_path, NIGHTS) + ask(tmp_path, CHECKS)) == {"success"}
    assert len(ask(tmp_path, "SELECT id FROM asset_event")) == checks
    if has_run_for_each:
        runs = "SELECT partition_key FROM dag_run WHERE dag_id = 'chs3_each_month' ORDER BY 1"
        assert ask(tmp_path, runs) == PERIODS
