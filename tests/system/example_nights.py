"""Nights of an example DAG."""

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
#: The night after 11 March, which looks at the two periods before, too.
NIGHT = datetime(2026, 3, 12, 3, tzinfo=UTC)
TRIPS = Trips(rows_per_period=600, files_per_period=3)


def without_retries(dag_id: str) -> DAG:
    """Return an example DAG in which a failure is to be seen at once."""
    from tests.support.dag_bag import DagBag

    bag = DagBag(DAGS)
    assert bag.import_errors == {}
    dag = bag.dags[dag_id]
    for task in dag.tasks:
        task.retries = 0
    return dag


@pytest.fixture(scope="module")
def dag(airflow_db: Path) -> DAG:
    return without_retries("chs3_nightly")


class Nights:
    """Runs of the DAG over a bucket and a table of their own."""

    def __init__(self, dag: DAG, cluster: Cluster, s3: Any, *, bucket: str, database: str, run_dag: Any) -> None:
        self.dag, self.cluster, self.s3 = dag, cluster, s3
        self.bucket, self.database, self._run_dag = bucket, database, run_dag

    def upload(self, *periods: str, trips: Trips = TRIPS) -> None:
        for period in periods:
            trips.upload(self.s3, period, bucket=self.bucket, prefix=f"trips/{period}/")

    def run(self, night: datetime | None = NIGHT, **conf: Any) -> DagRun:
        conf = {"bucket": self.bucket, "database": self.database, **conf}
        return self._run_dag(self.dag, logical_date=night, run_conf=conf)

    def facts(self, period: str) -> Any:
        with self.cluster.nodes[0].client() as client:
            return read_facts(client, f"{self.database}.trips_all", period)


@pytest.fixture
def nights(
    dag: DAG,
    chs3_cluster: Cluster,
    chs3_s3: Any,
    chs3_bucket: str,
    chs3_database: str,
    chs3_airflow_connections: None,
    run_dag: Callable[..., DagRun],
) -> Nights:
    for node in chs3_cluster.nodes:
        with node.client() as client:
            client.execute(create_table_sql(f"{chs3_database}.trips"))
            client.execute(
                f"CREATE TABLE {chs3_database}.trips_all AS {chs3_database}.trips "
                f"ENGINE = Distributed({chs3_cluster.name}, {chs3_database}, trips)"
            )
    return Nights(dag, chs3_cluster, chs3_s3.client(), bucket=chs3_bucket, database=chs3_database, run_dag=run_dag)


def states(run: DagRun) -> dict[str, str]:
    """Task, with the label of its period → state."""
    return {
        " ".join(filter(None, (ti.task_id.removeprefix("trips."), ti.rendered_map_index))): str(ti.state)
        for ti in run.get_task_instances()
    }


def events(run: DagRun) -> list[dict[str, Any]]:
    """Return the contents of a run's asset events."""
    from airflow.models.asset import AssetEvent
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        found = session.scalars(select(AssetEvent.extra).where(AssetEvent.source_run_id == run.run_id)).all()
        told = [each for extra in found for each in extra.get("periods", [extra])]
        # From Airflow 3.3 on there is an event for each period.
        assert len(found) in (len({each["period"] for each in told}), min(1, len(told)))
        return list({each["period"]: each for each in told}.values())
