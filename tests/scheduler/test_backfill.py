"""The backfill DAG under a real scheduler: `airflow backfill create` over the turn of a year."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import airflow
import pytest

from airflow_provider_chs3.testbed.trips import Trips, create_table_sql, read_facts
from tests.support.airflow_services import AirflowServices

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.nodes import Cluster

DAGS = Path(__file__).parents[2] / "dags"
PERIODS = ["2024-11", "2024-12", "2025-01", "2025-02"]
TRIPS = Trips(rows_per_period=600, files_per_period=3)
TIMEOUT_SECONDS = 240


@pytest.fixture
def services(tmp_path: Path, airflow_db: Path, chs3_airflow_connections: None) -> Iterator[AirflowServices]:
    connections = {name: value for name, value in os.environ.items() if name.startswith("AIRFLOW_CONN_")}
    with AirflowServices(home=tmp_path, dags=DAGS, database=airflow_db, environment=connections) as started:
        yield started


def run_states(home: Path) -> list[str]:
    sql = "SELECT state FROM dag_run WHERE dag_id = 'chs3_backfill' AND run_type = 'backfill'"
    with closing(sqlite3.connect(home / "airflow.db")) as database:
        return [state for (state,) in database.execute(sql)]


@pytest.mark.thorough
@pytest.mark.skipif(airflow.__version__.startswith("3.1."), reason="backfills of Airflow 3.1 fail with --dag-run-conf")
def test_a_backfill_over_the_turn_of_a_year_loads_every_period(
    services: AirflowServices, tmp_path: Path, chs3_cluster: Cluster, chs3_s3: Any, chs3_bucket: str, chs3_database: str
) -> None:
    for period in PERIODS:
        TRIPS.upload(chs3_s3.client(), period, bucket=chs3_bucket, prefix=f"trips/{period}/")
    for node in chs3_cluster.nodes:
        with node.client() as client:
            client.execute(create_table_sql(f"{chs3_database}.trips"))
    conf = {"bucket": chs3_bucket, "database": chs3_database, "table": "trips"}
    services.command(
        *("backfill", "create", "--dag-id", "chs3_backfill", "--max-active-runs", "2"),
        *("--from-date", f"{PERIODS[0]}-01", "--to-date", f"{PERIODS[-1]}-01", "--dag-run-conf", json.dumps(conf)),
    )
    services.start()
    services.wait_until(
        lambda: {"success", "failed"} >= set(run_states(tmp_path)) != set(), timeout_seconds=TIMEOUT_SECONDS
    )
    assert run_states(tmp_path) == ["success"] * len(PERIODS)
    with chs3_cluster.nodes[0].client() as client:
        table = f"cluster('{chs3_cluster.name}', {chs3_database}, trips)"
        assert [read_facts(client, table, period) for period in PERIODS] == [TRIPS.facts(period) for period in PERIODS]


ZONED = """
from datetime import datetime

from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable
from airflow.timetables.trigger import CronPartitionTimetable

for name, zone in {"berlin": "Europe/Berlin", "new_york": "America/New_York"}.items():
    with DAG(f"intervals_{name}", schedule=CronDataIntervalTimetable("0 0 1 * *", timezone=zone), catchup=False,
             start_date=datetime(2020, 1, 1)):
        pass
    with DAG(f"partitions_{name}", schedule=CronPartitionTimetable("0 0 1 * *", timezone=zone), catchup=False,
             start_date=datetime(2020, 1, 1)):
        pass
"""


@pytest.mark.thorough
@pytest.mark.skipif(airflow.__version__.startswith("3.1."), reason="Airflow 3.1 has no partitions")
def test_dates_of_a_backfill_are_instants_but_of_partitions_those_of_the_time_zone(
    tmp_path: Path, airflow_db: Path
) -> None:
    # As docs/how-to/backfill.md says.
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "zoned.py").write_text(ZONED)

    def planned(airflow: AirflowServices, dag_id: str, first: str, last: str) -> int:
        arguments = ("--dag-id", dag_id, "--from-date", first, "--to-date", last, "--dry-run")
        table = airflow.command("backfill", "create", *arguments)
        return len([line for line in table.splitlines() if line.startswith("|") and "00:00" in line])

    with AirflowServices(home=tmp_path, dags=tmp_path / "dags", database=airflow_db, environment={}) as airflow:
        assert planned(airflow, "intervals_berlin", "2026-01-01", "2026-03-01") == 2  # without January
        assert planned(airflow, "intervals_berlin", "2026-01-01T00:00+01:00", "2026-03-01T00:00+01:00") == 3
        assert planned(airflow, "intervals_new_york", "2026-01-01", "2026-03-01") == 2  # without March
        assert planned(airflow, "intervals_new_york", "2026-01-01T00:00-05:00", "2026-03-01T00:00-05:00") == 3
        assert planned(airflow, "partitions_berlin", "2026-01-01", "2026-03-01") == 3
        assert planned(airflow, "partitions_new_york", "2026-01-01", "2026-03-01") == 3
