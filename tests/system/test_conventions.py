"""A DAG with the names, templates and files of Airflow's own transfers loads what it says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_chs3.testbed.trips import COLUMNS, Trips
from tests.integration.conftest import lake, trips_lake
from tests.support.dag_bag import DagBag
from tests.support.lake import Lake

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun

#: Fixtures.
__all__ = ["lake", "trips_lake"]

TRIPS = Trips(rows_per_period=600, files_per_period=3)
DAG_FILE = """
from datetime import datetime

from airflow.sdk import DAG

from airflow_provider_chs3.transfers.scheduled_load import scheduled_load

with DAG("by_convention_{database}", schedule=None, start_date=datetime(2026, 1, 1), params={{"stage": "default"}}):
    scheduled_load(
        periods=["2026-01", "2026-02"],
        bucket="{bucket}",
        key="trips/{{YYYY-MM}}/",
        database="{database}",
        table="trips",
        clickhouse_conn_id="chs3_{{{{ params.stage }}}}",
        aws_conn_id="aws_{{{{ params.stage }}}}",
        select="select.json",
        settings="settings.json",
        merge_health={{"settled_after_seconds": 0, "poke_interval": 0.2}},
    )
"""


@pytest.mark.thorough
def test_it_loads_its_periods_by_the_files_beside_it(
    trips_lake: Lake, airflow_db: Path, run_dag: Callable[..., DagRun], tmp_path: Path
) -> None:
    for period in ("2026-01", "2026-02"):
        trips_lake.upload(TRIPS, period)
    dag_file = DAG_FILE.format(bucket=trips_lake.bucket, database=trips_lake.database)
    (tmp_path / "dag.py").write_text(dag_file, encoding="utf-8")
    (tmp_path / "select.json").write_text(json.dumps(dict(zip(COLUMNS, COLUMNS, strict=True)) | {"fare": "fare.sql"}))
    (tmp_path / "fare.sql").write_text("-fare\n")
    (tmp_path / "settings.json").write_text('{"max_insert_threads": 1}')
    bag = DagBag(str(tmp_path))
    assert bag.import_errors == {}

    (dag,) = bag.dags.values()
    run = run_dag(dag)

    assert str(run.state) == "success"
    sums = f"SELECT count(), max(fare) <= 0 FROM cluster('{trips_lake.cluster.name}', {trips_lake.database}, trips)"
    assert trips_lake.on_node(0, sums) == [(1_200, 1)]
    again = run_dag(dag)
    plan = next(ti for ti in again.get_task_instances() if ti.task_id == "scheduled_load.plan")
    assert plan.xcom_pull(task_ids="scheduled_load.plan", dag_id=dag.dag_id, run_id=again.run_id) == []
