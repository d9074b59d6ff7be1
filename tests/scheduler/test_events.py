"""Events of S3 under a real scheduler and a real triggerer: their periods are loaded, also those of a burst."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_chs3.testbed.trips import Trips, create_table_sql, read_facts
from tests.support.airflow_services import AirflowServices

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.nodes import Cluster

pytest.importorskip("aiobotocore", reason="Its boto3 is older than that of the other tests: ./dev run tox -e events")

DAG_FILE = Path(__file__).parents[2] / "dags" / "chs3_events.py"
BURST = [f"2026-{number:02d}" for number in range(1, 9)]
TRIPS = Trips(rows_per_period=60, files_per_period=2)
TIMEOUT_SECONDS = 240


@pytest.fixture
def queue(chs3_s3: Any) -> Iterator[str]:
    """The bucket `taxi`, which sends notifications to a queue."""
    s3, sqs = chs3_s3.client(), chs3_s3.client("sqs")
    url = sqs.create_queue(QueueName="taxi")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    s3.create_bucket(Bucket="taxi")
    events = {"QueueArn": arn, "Events": ["s3:ObjectCreated:*", "s3:ObjectRemoved:*"]}
    s3.put_bucket_notification_configuration(Bucket="taxi", NotificationConfiguration={"QueueConfigurations": [events]})
    yield url
    sqs.delete_queue(QueueUrl=url)
    for listed in s3.list_objects_v2(Bucket="taxi").get("Contents", ()):
        s3.delete_object(Bucket="taxi", Key=listed["Key"])
    s3.delete_bucket(Bucket="taxi")


@pytest.fixture
def taxi(chs3_cluster: Cluster) -> Iterator[Cluster]:
    """The tables that the DAG's params name by default."""
    for node in chs3_cluster.nodes:
        with node.client() as client:
            client.execute("CREATE DATABASE taxi")
            client.execute(create_table_sql("taxi.trips"))
            client.execute(f"CREATE TABLE taxi.trips_all ENGINE = Distributed({chs3_cluster.name}, taxi, trips)")
    yield chs3_cluster
    for node in chs3_cluster.nodes:
        with node.client() as client:
            client.execute("DROP DATABASE taxi SYNC")


@pytest.fixture
def services(
    tmp_path: Path, taxi: Cluster, queue: str, airflow_db: Path, chs3_airflow_connections: None
) -> Iterator[AirflowServices]:
    dags = tmp_path / "dags"
    dags.mkdir()
    shutil.copy(DAG_FILE, dags)
    connections = {name: value for name, value in os.environ.items() if name.startswith("AIRFLOW_CONN_")}
    environment = {**connections, "CHS3_EVENTS_QUEUE": queue, "AIRFLOW__SCHEDULER__USE_JOB_SCHEDULE": "True"}
    with AirflowServices(home=tmp_path, dags=dags, database=airflow_db, environment=environment) as started:
        started.start(triggerer=True)
        yield started


def runs(home: Path) -> list[str]:
    with closing(sqlite3.connect(home / "airflow.db")) as database:
        return [state for (state,) in database.execute("SELECT state FROM dag_run ORDER BY id")]


def test_the_periods_of_a_burst_are_loaded_without_another_event(
    services: AirflowServices, taxi: Cluster, chs3_s3: Any, tmp_path: Path
) -> None:
    s3 = chs3_s3.client()

    def loaded() -> set[str]:
        with taxi.nodes[0].client() as client:
            return {period for period in BURST if read_facts(client, "taxi.trips_all", period) == TRIPS.facts(period)}

    TRIPS.upload(s3, BURST[0], bucket="taxi", prefix=f"trips/{BURST[0]}/")
    services.wait_until(lambda: bool(runs(tmp_path)), timeout_seconds=TIMEOUT_SECONDS)
    # The first run goes on; each of these has an event of its own, while it runs and behind it.
    for period in BURST[1:]:
        TRIPS.upload(s3, period, bucket="taxi", prefix=f"trips/{period}/")
        time.sleep(4)
    services.wait_until(lambda: loaded() == set(BURST), timeout_seconds=TIMEOUT_SECONDS)
    services.wait_until(lambda: set(runs(tmp_path)) == {"success"}, timeout_seconds=TIMEOUT_SECONDS)
    assert len(runs(tmp_path)) < len(BURST)
