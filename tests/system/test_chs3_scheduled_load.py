"""The first DAG that a user reads: Airflow finds no fault in it, and it loads periods on the real cluster."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_chs3.testbed.trips import Trips, create_table_sql, read_facts

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun
    from airflow.sdk import DAG

    from airflow_provider_chs3.testbed.nodes import Cluster

DAGS = Path(__file__).parents[2] / "dags"
PERIODS = ["2026-01", "2026-02", "2026-03"]
TRIPS = Trips(rows_per_period=600, files_per_period=3)


@pytest.fixture(scope="module")
def dag(airflow_db: Path) -> DAG:
    from tests.support.dag_bag import DagBag

    bag = DagBag(DAGS)
    assert bag.import_errors == {}
    return bag.dags["chs3_scheduled_load"]


@pytest.fixture
def lake(
    chs3_cluster: Cluster, chs3_s3: Any, chs3_bucket: str, chs3_database: str, chs3_airflow_connections: None
) -> dict[str, str]:
    """Three periods of trips in a bucket, an empty table on every node; gives the run's parameters."""
    for period in PERIODS:
        TRIPS.upload(chs3_s3.client(), period, bucket=chs3_bucket, prefix=f"trips/{period}/")
    for node in chs3_cluster.nodes:
        with node.client() as client:
            client.execute(create_table_sql(f"{chs3_database}.trips"))
            client.execute(
                f"CREATE TABLE {chs3_database}.trips_all AS {chs3_database}.trips "
                f"ENGINE = Distributed({chs3_cluster.name}, {chs3_database}, trips)"
            )
    return {"bucket": chs3_bucket, "database": chs3_database}


@pytest.fixture
def run(dag: DAG, lake: dict[str, str], run_dag: Callable[..., DagRun]) -> Callable[..., DagRun]:
    def run_periods(*periods: str, **options: Any) -> DagRun:
        return run_dag(dag, run_conf={**lake, "periods": list(periods)}, **options)

    return run_periods


def results(run: DagRun) -> dict[str, dict[str, Any]]:
    """Label of each mapped load → what it returned."""
    loads = [ti for ti in run.get_task_instances() if ti.task_id == "load"]
    return {ti.rendered_map_index: ti.xcom_pull(task_ids="load", map_indexes=ti.map_index) for ti in loads}


def test_periods_hold_exactly_the_rows_of_their_objects_and_the_result_says_where(
    run: Callable[..., DagRun], chs3_cluster: Cluster, chs3_database: str
) -> None:
    done = run(*PERIODS)
    assert done.state == "success"
    rows_by_node = [_rows_by_period(node, f"{chs3_database}.trips") for node in chs3_cluster.nodes]
    for period in PERIODS:
        with chs3_cluster.nodes[0].client() as client:
            assert read_facts(client, f"{chs3_database}.trips_all", period) == TRIPS.facts(period)
        loaded_by_node = list(results(done)[period]["rows_by_node"].values())
        assert loaded_by_node == [rows.get(period, 0) for rows in rows_by_node]


@pytest.mark.thorough
def test_a_run_by_schedule_loads_the_period_of_its_data_interval(run: Callable[..., DagRun]) -> None:
    done = run(logical_date=datetime(2026, 3, 1, tzinfo=UTC))
    assert {period: result["rows"] for period, result in results(done).items()} == {"2026-02": TRIPS.rows_per_period}


def _rows_by_period(node: Any, table: str) -> dict[str, int]:
    with node.client() as client:
        return dict(
            client.execute(f"SELECT formatDateTime(pickup_at, '%Y-%m') AS period, count() FROM {table} GROUP BY 1")
        )
