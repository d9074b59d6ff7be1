"""Loads under a real scheduler that people end: whatever they mark the task as, nothing of it stays."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_chs3.testbed.trips import COLUMNS, Trips
from tests.scheduler.deferred_tasks import ENVIRONMENT
from tests.support.airflow_services import AirflowServices
from tests.support.lake import PERIOD, Lake
from tests.support.slow import SLOW_SETTINGS

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.nodes import Cluster

DATABASE = "test_ended"
TRIPS = Trips(rows_per_period=6_000, files_per_period=6)
TABLES = tuple(f"{kind}_{fate}" for kind in ("held", "deferred", "periods") for fate in ("success", "failed"))
TIMEOUT_SECONDS = 180

DAG = f"""
from datetime import datetime

from airflow.sdk import DAG

from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

KINDS = {{
    "held": {{"period": "{PERIOD}", "deferrable": False}},
    "deferred": {{"period": "{PERIOD}", "deferrable": True}},
    "periods": {{"periods": ["{PERIOD}"]}},
}}

with DAG("ended", schedule=None, start_date=datetime(2026, 1, 1)):
    for table in {TABLES!r}:
        S3ToClickHouseOperator(
            task_id=table,
            bucket="BUCKET",
            key="trips/{{YYYY-MM}}/",
            database="{DATABASE}",
            table=table,
            select={{name: name for name in {list(COLUMNS)!r}}} | {{"trip_id": "trip_id + sleepEachRow(0.2)"}},
            settings={SLOW_SETTINGS!r},
            retries=2,
            **KINDS[table.partition("_")[0]],
        )
"""


@pytest.fixture
def lakes(chs3_cluster: Cluster, chs3_s3: Any, chs3_bucket: str) -> Iterator[dict[str, Lake]]:
    lakes = {table: Lake(chs3_cluster, chs3_s3.client(), chs3_bucket, DATABASE, table) for table in TABLES}
    anywhere = lakes[TABLES[0]]
    anywhere.on_every_node(f"CREATE DATABASE {DATABASE}")
    anywhere.upload(TRIPS)
    for lake in lakes.values():
        lake.create_table()
    yield lakes
    anywhere.on_every_node(f"DROP DATABASE {DATABASE} SYNC")


@pytest.fixture
def airflow(
    lakes: dict[str, Lake], chs3_cluster: Cluster, chs3_s3: Any, airflow_db: Path, tmp_path: Path
) -> Iterator[AirflowServices]:
    environment = ENVIRONMENT | {
        "AIRFLOW_CONN_CHS3_DEFAULT": json.dumps(chs3_cluster.airflow_connection()),
        "AIRFLOW_CONN_AWS_DEFAULT": json.dumps(chs3_s3.airflow_connection()),
    }
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "dag.py").write_text(DAG.replace("BUCKET", lakes[TABLES[0]].bucket))
    with AirflowServices(
        home=tmp_path, dags=tmp_path / "dags", database=airflow_db, environment=environment
    ) as started:
        yield started


@pytest.mark.thorough
def test_a_load_leaves_nothing_whether_its_task_is_marked_success_or_failed(
    airflow: AirflowServices, lakes: dict[str, Lake], tmp_path: Path
) -> None:
    anywhere = lakes[TABLES[0]]

    def logs(table: str) -> str:
        return "\n".join(file.read_text() for file in tmp_path.glob(f"logs/dag_id=ended/**/task_id={table}/*"))

    def all_insert() -> bool:
        sql = "SELECT initial_query_id FROM system.processes WHERE match(initial_query_id, '^chs3_.*_insert')"
        return len({query_id for rows in anywhere.on_every_node(sql) for (query_id,) in rows}) == len(TABLES)

    def all_wait() -> bool:
        return all_insert() and all(" starting" in logs(table) for table in TABLES if table.startswith("deferred"))

    airflow.command("dags", "trigger", "ended", "--run-id", "run")
    airflow.start(triggerer=True, apps="core,execution")
    airflow.wait_until(all_wait, timeout_seconds=TIMEOUT_SECONDS)
    for table in TABLES:
        fate = {"new_state": table.partition("_")[2]}
        airflow.call("PATCH", f"/api/v2/dags/ended/dagRuns/run/taskInstances/{table}", fate)
    airflow.wait_until(lambda: not anywhere.left_behind(), timeout_seconds=TIMEOUT_SECONDS)
    assert [lake.rows_per_node() for lake in lakes.values()] == [[0, 0, 0]] * len(TABLES)
