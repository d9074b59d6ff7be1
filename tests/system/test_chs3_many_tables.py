"""The DAG of many tables loads each of its file, and a mistake in the file is an error of the DAG."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_chs3.testbed.trips import Trips, create_table_sql
from tests.integration.conftest import lake
from tests.support.dag_bag import DagBag
from tests.support.lake import Lake

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun

#: Fixtures.
__all__ = ["lake"]

DAGS = Path(__file__).parents[2] / "dags"
TRIPS = Trips(rows_per_period=600, files_per_period=3)
REFUNDS = Trips(seed=2, rows_per_period=400, files_per_period=2)


def write_dag(folder: Path, *, loads: str) -> Path:
    shutil.copy(DAGS / "chs3_many_tables.py", folder / "chs3_many_tables.py")
    (folder / "loads.yaml").write_text(loads, encoding="utf-8")
    return folder


def test_it_loads_every_table_of_its_file(
    lake: Lake, airflow_db: Path, run_dag: Callable[..., DagRun], tmp_path: Path
) -> None:
    lake.upload(TRIPS, "2026-02")
    REFUNDS.upload(lake.s3, "2026-03", bucket=lake.bucket, prefix="refunds/2026-03/", file_format="csv.gz")
    tables = {"trips_all": "2026-02", "refunds_all": "2026-03"}
    for table in tables:
        lake.on_every_node(create_table_sql(f"{lake.database}.{table}"))
    loads = (DAGS / "loads.yaml").read_text(encoding="utf-8")
    loads = loads.replace("bucket: taxi", f"bucket: {lake.bucket}").replace("delimiter: ;", "delimiter: ','")
    loads = loads.replace("database: taxi", f"database: {lake.database}")
    bag = DagBag(write_dag(tmp_path, loads=loads))
    assert bag.import_errors == {}

    dag = bag.dags["chs3_many_tables"]
    run = run_dag(dag, logical_date=datetime(2026, 3, 12, 3, tzinfo=UTC))

    assert str(run.state) == "success"
    assert set(dag.task_group.children) == {"trips_all", "refunds"}
    facts = [replace(lake, table=table).facts(period) for table, period in tables.items()]
    assert facts == [TRIPS.facts("2026-02"), REFUNDS.facts("2026-03")]


def test_a_mistake_in_the_file_is_an_error_of_the_dag(tmp_path: Path) -> None:
    folder = write_dag(tmp_path, loads="loads:\n  - table: trips\n    bucket: taxi\n    keys: x\n")
    (error,) = DagBag(folder).import_errors.values()
    assert f"{folder}/loads.yaml, line 4, loads[0].keys is not known: do you mean key?" in error
