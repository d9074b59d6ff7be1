"""The DAG that compares what somebody else loads with its objects, run by real Airflow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_chs3.testbed.trips import Trips
from tests.integration.conftest import lake, trips_lake
from tests.support.dag_bag import DagBag
from tests.support.lake import Lake

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun

#: Fixtures.
__all__ = ["lake", "trips_lake"]

TRIPS = Trips(rows_per_period=60, files_per_period=3)
PERIODS = ("2026-01", "2026-02")


def test_months_that_differ_are_loaded_and_no_others(
    trips_lake: Lake, airflow_db: Path, run_dag: Callable[..., DagRun]
) -> None:
    for period in PERIODS:
        TRIPS.upload(trips_lake.s3, period, bucket=trips_lake.bucket, prefix=f"trips/{period}/")
        trips_lake.insert_objects(period)
    trips_lake.insert_objects("2026-02")
    bag = DagBag(Path(__file__).parents[2] / "dags")
    conf = {"bucket": trips_lake.bucket, "database": trips_lake.database, "table": "trips"}
    run = run_dag(bag.dags["chs3_prove"], run_conf=conf)
    assert {ti.task_id: str(ti.state) for ti in run.get_task_instances()} == dict.fromkeys(
        ("prove", "differing", "repair", "refused", "check_all_compared"), "success"
    )
    assert [trips_lake.facts(period) for period in PERIODS] == [TRIPS.facts(period) for period in PERIODS]
    loads = f"SELECT period FROM {trips_lake.database}.chs3_loads WHERE event = 'load'"
    assert trips_lake.on_node(0, loads) == [("2026-02",)]
