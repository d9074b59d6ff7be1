"""The DAG of many tables loads each of its file, and a mistake in the file is an error of the DAG."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.testbed.trips import Trips, create_table_sql, read_facts
from tests.dag_bag import DagBag

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun

    from airflow_provider_chs3.testbed.nodes import Cluster

DAGS = Path(__file__).parents[2] / "dags"
TRIPS = Trips(rows_per_period=600, files_per_period=3)
REFUNDS = Trips(seed=2, rows_per_period=400, files_per_period=2)


def write_dag(folder: Path, *, loads: str) -> Path:
    shutil.copy(DAGS / "chs3_many_tables.py", folder / "chs3_many_tables.py")
    (folder / "loads.yaml").write_text(loads, encoding="utf-8")
    return folder


def test_it_loads_every_table_of_its_file(
    chs3_cluster: Cluster,
    chs3_s3: Any,
    chs3_bucket: str,
    chs3_database: str,
    chs3_airflow_connections: None,
    run_dag: Callable[..., DagRun],
    tmp_path: Path,
) -> None:
    TRIPS.upload(chs3_s3.client(), "2026-02", bucket=chs3_bucket, prefix="trips/2026-02/")
    prefix = "refunds/2026-03/"
    REFUNDS.upload(chs3_s3.client(), "2026-03", bucket=chs3_bucket, prefix=prefix, file_format="csv.gz")
    for node in chs3_cluster.nodes:
        with node.client() as client:
            for table in ("trips_all", "refunds_all"):
                client.execute(create_table_sql(f"{chs3_database}.{table}"))
    loads = (DAGS / "loads.yaml").read_text(encoding="utf-8")
    loads = loads.replace("bucket: taxi", f"bucket: {chs3_bucket}").replace("delimiter: ;", "delimiter: ','")
    loads = loads.replace("database: taxi", f"database: {chs3_database}")
    bag = DagBag(write_dag(tmp_path, loads=loads))
    assert bag.import_errors == {}

    dag = bag.dags["chs3_many_tables"]
    run = run_dag(dag, logical_date=datetime(2026, 3, 12, 3, tzinfo=UTC))

    assert str(run.state) == "success"
    assert set(dag.task_group.children) == {"trips_all", "refunds"}
    with chs3_cluster.nodes[0].client() as client:
        facts = [
            read_facts(client, f"{chs3_database}.{table}", period)
            for table, period in (("trips_all", "2026-02"), ("refunds_all", "2026-03"))
        ]
    assert facts == [TRIPS.facts("2026-02"), REFUNDS.facts("2026-03")]


def test_a_mistake_in_the_file_is_an_error_of_the_dag(tmp_path: Path) -> None:
    folder = write_dag(tmp_path, loads="loads:\n  - table: trips\n    bucket: taxi\n    keys: x\n")
    (error,) = DagBag(folder).import_errors.values()
    assert f"{folder}/loads.yaml, line 4, loads[0].keys is not known: do you mean key?" in error
