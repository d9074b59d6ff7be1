"""The DAG of a topic, run by real Airflow: every message is in the table once, late ones in their period."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_chs3.testbed.programs.packages import started_or_skip
from tests.sources.kafka import KafkaServer
from tests.sources.topics import Topic

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun

    from airflow_provider_chs3.testbed.nodes import Cluster

pytest.importorskip("confluent_kafka", reason="needs the extra kafka")

DAGS = Path(__file__).parents[2] / "dags"
HOURS = [datetime(2026, 2, 1, hour, tzinfo=UTC) for hour in range(3)]
TABLE = """
    CREATE TABLE {}.events (at DateTime64(3, 'UTC'), trip UInt64, event String, partition Int32, offset Int64)
    ENGINE = MergeTree PARTITION BY toYYYYMM(at) ORDER BY at
"""


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaServer]:
    with started_or_skip(KafkaServer.start) as server:
        yield server


def send(topic: Topic, at: datetime, *trips: int, partition: int = 0) -> None:
    bodies = [json.dumps({"trip": trip, "event": "ended"}).encode() for trip in trips]
    topic.send(at, *bodies, partition=partition)


@pytest.mark.thorough
def test_each_hour_loads_the_periods_that_got_messages(
    kafka: KafkaServer,
    chs3_cluster: Cluster,
    chs3_s3: Any,
    chs3_bucket: str,
    chs3_database: str,
    chs3_airflow_connections: None,
    run_dag: Callable[..., DagRun],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tests.support.dag_bag import DagBag

    connection = {"conn_type": "kafka", "extra": kafka.settings()}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(connection))
    topic = Topic.create(kafka, f"events-{secrets.token_hex(4)}", partitions=2)
    for node in chs3_cluster.nodes:
        with node.client() as client:
            client.execute(TABLE.format(chs3_database))
    dag = DagBag(DAGS).dags["chs3_kafka"]
    for task in dag.tasks:
        task.retries = 0
    conf = {"topic": topic.name, "bucket": chs3_bucket, "database": chs3_database}

    def run(hour: int) -> dict[int, str]:
        assert run_dag(dag, logical_date=HOURS[hour], run_conf=conf).state == "success"
        found: dict[int, str] = {}
        for node in chs3_cluster.nodes:
            with node.client() as client:
                rows = client.execute(f"SELECT trip, toString(toYYYYMM(at)) FROM {chs3_database}.events")
            assert not found.keys() & dict(rows).keys()
            assert len(dict(rows)) == len(rows)
            found |= dict(rows)
        return found

    send(topic, HOURS[0], 1, 2)
    send(topic, HOURS[0], 3, partition=1)
    # The run whose logical date is an hour has the hour before as its interval.
    assert run(1) == {1: "202602", 2: "202602", 3: "202602"}
    send(topic, HOURS[0] - timedelta(days=1), 4)
    send(topic, HOURS[1], 5)
    assert run(2) == {1: "202602", 2: "202602", 3: "202602", 4: "202601", 5: "202602"}
