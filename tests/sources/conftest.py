"""Servers of further sources, and what tests put into them."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_chs3.testbed.programs.packages import started_or_skip
from airflow_provider_chs3.testbed.trips import Trips
from tests.sources.hdfs import HdfsServer
from tests.sources.kafka import KafkaServer
from tests.sources.lakehouses import DeltaTable, IcebergTable, Lakehouse
from tests.sources.landing_lake import LandingLake
from tests.sources.objects import AzureObjects, GcsObjects, HdfsObjects, Objects, S3Objects
from tests.sources.row_lake import RowLake
from tests.sources.rows import MySqlRows, PostgresRows, Rows
from tests.sources.source_lake import SourceLake
from tests.sources.store_lake import StoreLake
from tests.sources.table_lake import TableLake
from tests.sources.topics import Topic
from tests.support.few_nodes import cluster_for

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.nodes import Cluster


@pytest.fixture
def chs3_cluster(request: pytest.FixtureRequest) -> Cluster:
    """One node, unless a test or its module is marked `three_nodes`."""
    return cluster_for(request)


@pytest.fixture(scope="session")
def hdfs() -> Iterator[HdfsServer]:
    with started_or_skip(HdfsServer.start) as server:
        yield server


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaServer]:
    with started_or_skip(KafkaServer.start) as server:
        yield server


# fake-gcs-server is compiled once on a machine, which takes a minute.
@pytest.fixture(params=["s3", "azure", pytest.param("gcs", marks=pytest.mark.thorough), "hdfs"])
def store_lake(
    request: pytest.FixtureRequest, chs3_cluster: Cluster, chs3_database: str, monkeypatch: pytest.MonkeyPatch
) -> StoreLake:
    """An empty place of objects, and a table that they are loaded into."""
    return StoreLake.create(_objects(request), chs3_cluster, chs3_database, monkeypatch)


def _objects(request: pytest.FixtureRequest) -> Objects:
    kind, server = {
        "s3": (S3Objects, "chs3_s3"),
        "azure": (AzureObjects, "chs3_azure"),
        "gcs": (GcsObjects, "chs3_gcs"),
        "hdfs": (HdfsObjects, "hdfs"),
    }[request.param]
    return kind.create(request.getfixturevalue(server))


@pytest.fixture(params=["postgres", "mysql"])
def rows(request: pytest.FixtureRequest) -> Rows:
    """An empty table of trips in a database."""
    return _rows(request)


def _rows(request: pytest.FixtureRequest) -> Rows:
    kind = {"postgres": PostgresRows, "mysql": MySqlRows}[request.param]
    return kind.create(request.getfixturevalue(f"chs3_{request.param}"))


@pytest.fixture
def row_lake(rows: Rows, chs3_cluster: Cluster, chs3_database: str, monkeypatch: pytest.MonkeyPatch) -> RowLake:
    """An empty table of a database, and a table that it is loaded into."""
    return RowLake.create(rows, chs3_cluster, chs3_database, monkeypatch)


def _lakehouse(request: pytest.FixtureRequest, server: str, folder: Path) -> Lakehouse:
    kind, bucket = (
        {"iceberg": IcebergTable, "delta": DeltaTable}[request.param],
        S3Objects.create(request.getfixturevalue(server)),
    )
    return kind(bucket.server, bucket.bucket, folder)


@pytest.fixture(params=["iceberg", "delta"])
def table_lake(
    request: pytest.FixtureRequest,
    chs3_cluster: Cluster,
    chs3_database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> TableLake:
    """A table of a lakehouse, and one that it is loaded into."""
    return TableLake.create(_lakehouse(request, "chs3_s3", tmp_path), chs3_cluster, chs3_database, monkeypatch)


@pytest.fixture(params=["postgres", "mysql", "iceberg", "delta"])
def source_lake(
    request: pytest.FixtureRequest,
    chs3_cluster: Cluster,
    chs3_database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> SourceLake:
    """A table of a database or a lakehouse, and one that it is loaded into."""
    if request.param in ("postgres", "mysql"):
        return RowLake.create(_rows(request), chs3_cluster, chs3_database, monkeypatch)
    return TableLake.create(_lakehouse(request, "chs3_s3", tmp_path), chs3_cluster, chs3_database, monkeypatch)


@pytest.fixture
def lake(kafka: KafkaServer, chs3_s3: Any, chs3_bucket: str, monkeypatch: pytest.MonkeyPatch) -> LandingLake:
    """An empty bucket, and an empty topic that is landed in it."""
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", json.dumps(chs3_s3.airflow_connection()))
    connection = {"conn_type": "kafka", "extra": kafka.settings()}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(connection))
    topic = Topic.create(kafka, f"trips-{secrets.token_hex(4)}")
    return LandingLake(topic, chs3_s3.client(), chs3_bucket)


@pytest.fixture
def run_example(run_dag: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Run an example DAG twice: it must load, and then find nothing to load."""
    from tests.support.dag_bag import DagBag

    def run(dag_id: str, lake: SourceLake | StoreLake, trips: Trips, periods: list[str], **conf: str) -> None:
        monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(lake.cluster.airflow_connection()))
        bag = DagBag(Path(__file__).parents[2] / "dags")
        assert bag.import_errors == {}
        states = []
        for _ in range(2):
            given = conf | {"database": lake.database, "table": "trips"}
            night = run_dag(bag.dags[dag_id], logical_date=datetime(2026, 3, 12, 3, tzinfo=UTC), run_conf=given)
            states.append({ti.task_id: str(ti.state) for ti in night.get_task_instances()})
        assert [state["trips.period.load"] for state in states] == ["success", "skipped"]
        assert [lake.facts(period) for period in periods] == [trips.facts(period) for period in periods]

    return run
