"""Deferred loads under a real scheduler and triggerer, whose processes die, and whose tasks people end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_chs3.testbed.trips import COLUMNS, Trips
from tests.integration.lake import MONTH, Lake
from tests.integration.slow import SLOW_SETTINGS
from tests.scheduler.deferred_tasks import ARGUMENTS, FATES, TELLS_PID, DeferredTasks

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.nodes import Cluster

DATABASE = "test_deferred"
TRIPS = Trips(rows_per_month=6_000, files_per_month=6)

DAG = f"""{TELLS_PID}

from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

SECONDS = {{"failed": 0.2, "cleared": "{{{{ 0.2 if ti.try_number == 1 else 0 }}}}"}}

with DAG("loads", schedule=None, start_date=datetime(2026, 1, 1)):
    for table in {FATES!r}:
        S3ToClickHouseOperator(
            task_id=table,
            bucket="BUCKET",
            key="trips/{{YYYY-MM}}/",
            database="{DATABASE}",
            table=table,
            month="{MONTH}",
            # Some 50 s; what people end would take minutes, and no time when it runs again.
            select={{name: name for name in {list(COLUMNS)!r}}}
            | {{"trip_id": f"trip_id + sleepEachRow({{SECONDS.get(table, 0.025)}})"}},
            settings={SLOW_SETTINGS!r},
            {", ".join(f"{name}={value}" for name, value in ARGUMENTS.items())},
        )
"""


@dataclass
class Loads(DeferredTasks):
    """One run of that DAG.

    Attributes:
        lakes: Table → where it is.
    """

    lakes: dict[str, Lake]

    def query_ids(self, fate: str) -> set[str]:
        return self.found_in_logs(fate, r"query id (chs3_\w+)")

    def is_running(self, fate: str) -> bool:
        ids = ", ".join(map(repr, self.query_ids(fate)))
        sql = f"SELECT count() FROM system.processes WHERE query_id IN ({ids})"
        return bool(ids) and any(rows[0][0] for rows in self.lakes[fate].on_every_node(sql))


@pytest.fixture(scope="module")
def lakes(chs3_cluster: Cluster, chs3_s3: Any) -> Iterator[dict[str, Lake]]:
    bucket = "test-deferred"
    client = chs3_s3.client()
    client.create_bucket(Bucket=bucket)
    lakes = {table: Lake(chs3_cluster, client, bucket, DATABASE, table) for table in FATES}
    anywhere = lakes[FATES[0]]
    anywhere.on_every_node(f"CREATE DATABASE {DATABASE}")
    anywhere.upload(TRIPS)
    for lake in lakes.values():
        lake.create_table()
    yield lakes
    anywhere.on_every_node(f"DROP DATABASE {DATABASE} SYNC")


@pytest.fixture(scope="module")
def run(
    lakes: dict[str, Lake],
    chs3_cluster: Cluster,
    chs3_s3: Any,
    airflow_db: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Loads:
    """The run, after each task has met its fate."""
    home, dags = tmp_path_factory.mktemp("airflow"), tmp_path_factory.mktemp("dags")
    (dags / "loads.py").write_text(DAG.replace("BUCKET", lakes[FATES[0]].bucket))
    run = Loads("loads", home, dags, lakes)
    environment = {
        "AIRFLOW_CONN_CHS3_DEFAULT": json.dumps(chs3_cluster.airflow_connection()),
        "AIRFLOW_CONN_AWS_DEFAULT": json.dumps(chs3_s3.airflow_connection()),
    }
    run.befall(
        airflow_db,
        environment,
        ended=lambda: all("dropping its staging" in run.logs(fate) for fate in ("failed", "cleared")),
    )
    return run


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("table", [fate for fate in FATES if fate != "failed"])
def test_the_month_holds_exactly_its_objects_rows(run: Loads, table: str) -> None:
    assert run.lakes[table].facts() == TRIPS.facts(MONTH)


def test_the_table_of_a_task_that_was_marked_failed_is_as_it_was(run: Loads) -> None:
    assert run.lakes["failed"].rows_per_node() == [0, 0, 0]


def test_no_query_runs_and_no_staging_is_left(run: Loads) -> None:
    assert run.lakes["failed"].left_behind() == []


@pytest.mark.parametrize("table", ["worker_killed", "triggerer_killed"])
def test_the_insert_that_goes_on_is_taken_up_and_not_started_again(run: Loads, table: str) -> None:
    assert len(run.query_ids(table)) == 1


def test_the_insert_of_a_task_that_was_cleared_is_ended_and_another_one_is_started(run: Loads) -> None:
    assert len(run.query_ids("cleared")) == 2
    assert "dropping its staging" in run.logs("cleared")
