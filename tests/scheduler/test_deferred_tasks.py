"""Deferred tasks under a real scheduler and triggerer, whose processes die, and whose tasks people end.

Loads and statements of users go through it side by side, as the Airflow takes longer than they do.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_chs3.operators.held import ApprovePeriodsOperator
from tests.scheduler import deferred_loads, deferred_statements
from tests.scheduler.deferred_loads import HELD, TRIPS, Loads
from tests.scheduler.deferred_statements import Statements
from tests.scheduler.deferred_tasks import ENVIRONMENT, FATES, befall
from tests.support.airflow_services import AirflowServices
from tests.support.lake import PERIOD, Lake

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.nodes import Cluster


@pytest.fixture(scope="module")
def lakes(chs3_cluster: Cluster, chs3_s3: Any) -> Iterator[dict[str, Lake]]:
    bucket, database = "test-deferred", deferred_loads.DATABASE
    client = chs3_s3.client()
    client.create_bucket(Bucket=bucket)
    lakes = {table: Lake(chs3_cluster, client, bucket, database, table) for table in FATES}
    anywhere = lakes[FATES[0]]
    anywhere.on_every_node(f"CREATE DATABASE {database}")
    anywhere.upload(TRIPS)
    for lake in lakes.values():
        lake.create_table()
    yield lakes
    anywhere.on_every_node(f"DROP DATABASE {database} SYNC")


def connections(cluster: Cluster, s3: Any) -> dict[str, str]:
    """Of Airflow, as environment variables."""
    return {
        "AIRFLOW_CONN_CHS3_DEFAULT": json.dumps(cluster.airflow_connection()),
        "AIRFLOW_CONN_AWS_DEFAULT": json.dumps(s3.airflow_connection()),
    }


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Airflow's."""
    return tmp_path_factory.mktemp("airflow")


@pytest.fixture(scope="module")
def begun_loads(lakes: dict[str, Lake], home: Path) -> Loads:
    loads = Loads("loads", home, lakes)
    loads.write_dag(deferred_loads.DAG.replace("BUCKET", lakes[FATES[0]].bucket))
    return loads


@pytest.fixture(scope="module")
def begun_statements(chs3_cluster: Cluster, home: Path) -> Iterator[Statements]:
    database = deferred_statements.DATABASE
    statements = Statements("statements", home, chs3_cluster)
    statements.write_dag(deferred_statements.DAG)
    statements.rows(f"CREATE DATABASE {database}")
    for table in FATES:
        statements.rows(f"CREATE TABLE {database}.{table} (n UInt64) ENGINE = MergeTree ORDER BY n")
    yield statements
    statements.rows(f"DROP DATABASE {database} SYNC")


@pytest.fixture(scope="module")
def run(
    begun_loads: Loads, begun_statements: Statements, chs3_cluster: Cluster, chs3_s3: Any, airflow_db: Path, home: Path
) -> None:
    """Each task has met its fate. It takes minutes, as five processes of Airflow start, and two of them again."""
    environment = ENVIRONMENT | connections(chs3_cluster, chs3_s3)
    with AirflowServices(home=home, dags=home / "dags", database=airflow_db, environment=environment) as airflow:
        befall(airflow, [begun_loads, begun_statements])


@pytest.fixture
def loads(begun_loads: Loads, run: None) -> Loads:
    return begun_loads


@pytest.fixture
def statements(begun_statements: Statements, run: None) -> Statements:
    return begun_statements


class TestLoads:
    @pytest.mark.thorough
    @pytest.mark.parametrize("table", ["worker_killed", "cleared"])
    def test_the_period_holds_exactly_its_objects_rows(self, loads: Loads, table: str) -> None:
        assert loads.lakes[table].facts() == TRIPS.facts(PERIOD)

    @pytest.mark.thorough
    def test_the_table_of_a_task_that_was_marked_failed_is_as_it_was(self, loads: Loads) -> None:
        assert loads.lakes["failed"].rows_per_node() == [0, 0, 0]

    @pytest.mark.thorough
    def test_one_is_held_and_approved_and_no_query_and_no_staging_is_left(
        self, loads: Loads, chs3_cluster: Cluster, chs3_s3: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lake = loads.lakes[HELD]
        (held,) = {*lake.left_behind()}
        assert held.startswith("chs3_held_")
        assert lake.rows_per_node() == [0, 0, 0]
        assert "checks failed: few is false" in loads.logs(HELD)
        for name, value in connections(chs3_cluster, chs3_s3).items():
            monkeypatch.setenv(name, value)
        approve = ApprovePeriodsOperator(
            task_id="approve",
            database=lake.database,
            table=lake.table,
            periods=[PERIOD],
            bucket=lake.bucket,
            key="trips/{YYYY-MM}/",
        )
        assert [each["status"] for each in approve.execute({})] == ["published"]
        assert lake.facts() == TRIPS.facts(PERIOD)
        assert lake.left_behind() == []

    @pytest.mark.thorough
    @pytest.mark.parametrize("table", ["worker_killed", "triggerer_killed"])
    def test_the_insert_that_goes_on_is_taken_up_and_not_started_again(self, loads: Loads, table: str) -> None:
        assert len(loads.query_ids(table)) == 1

    @pytest.mark.thorough
    def test_the_insert_of_a_task_that_was_cleared_is_ended_and_another_one_is_started(self, loads: Loads) -> None:
        assert len(loads.query_ids("cleared")) == 2
        assert "dropping its staging" in loads.logs("cleared")


class TestStatements:
    @pytest.mark.thorough
    @pytest.mark.parametrize("table", ["worker_killed", "triggerer_killed"])
    def test_what_goes_on_is_waited_for_and_not_run_again(self, statements: Statements, table: str) -> None:
        assert len(statements.query_ids(table)) == 1
        sql = f"SELECT groupArray(n) FROM (SELECT n FROM {deferred_statements.DATABASE}.{table} ORDER BY n)"
        assert statements.rows(sql) == [(list(range(25)),)]
        assert statements.result(table) == [[25, "t1"]]

    @pytest.mark.thorough
    def test_the_worker_was_killed_before_its_task_was_deferred(self, statements: Statements) -> None:
        assert "of an earlier try, which still runs" in statements.logs("worker_killed")

    @pytest.mark.thorough
    def test_that_of_a_task_that_was_marked_failed_is_killed(self, statements: Statements) -> None:
        assert "Ending query" in statements.logs("failed", "*.trigger.*")
        assert len(statements.query_ids("failed")) == 1

    @pytest.mark.thorough
    def test_a_cleared_task_kills_it_and_runs_it_again(self, statements: Statements) -> None:
        assert len(statements.query_ids("cleared")) == 2
        ((rows,),) = statements.rows(
            f"SELECT count() - uniqExact(n) FROM {deferred_statements.DATABASE}.cleared WHERE n > 20"
        )
        assert rows == 0
        assert statements.result("cleared")[0][0] >= 25
