"""Servers of further sources, and what tests put into them."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_chs3.testbed.s3 import S3Server
from airflow_provider_chs3.testbed.sources.local import started_or_skip
from tests.few_nodes import cluster_for
from tests.sources.hdfs import HdfsServer
from tests.sources.kafka import KafkaServer
from tests.sources.lakehouses import DeltaTable, IcebergTable, Lakehouse
from tests.sources.landing_lake import LandingLake
from tests.sources.loading import Staging
from tests.sources.objects import AzureObjects, GcsObjects, HdfsObjects, Objects, S3Objects
from tests.sources.row_lake import RowLake
from tests.sources.rows import MySqlRows, PostgresRows, Rows
from tests.sources.source_lake import SourceLake
from tests.sources.store_lake import StoreLake
from tests.sources.table_lake import TableLake
from tests.sources.topics import Topic

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_chs3.testbed.nodes import Cluster
    from airflow_provider_chs3.testbed.s3 import S3Endpoint


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
def objects(request: pytest.FixtureRequest) -> Objects:
    """An empty place of objects."""
    kind, server = {
        "s3": (S3Objects, "chs3_s3"),
        "azure": (AzureObjects, "chs3_azure"),
        "gcs": (GcsObjects, "chs3_gcs"),
        "hdfs": (HdfsObjects, "hdfs"),
    }[request.param]
    return kind.create(request.getfixturevalue(server))


@pytest.fixture(params=["s3", "azure", pytest.param("gcs", marks=pytest.mark.thorough), "hdfs"])
def store_lake(
    request: pytest.FixtureRequest, chs3_cluster: Cluster, chs3_database: str, monkeypatch: pytest.MonkeyPatch
) -> StoreLake:
    """An empty place of objects, and a table that they are loaded into."""
    kind, server = {
        "s3": (S3Objects, "chs3_s3"),
        "azure": (AzureObjects, "chs3_azure"),
        "gcs": (GcsObjects, "chs3_gcs"),
        "hdfs": (HdfsObjects, "hdfs"),
    }[request.param]
    objects = kind.create(request.getfixturevalue(server))
    return StoreLake.create(objects, chs3_cluster, chs3_database, monkeypatch)


@pytest.fixture(params=["postgres", "mysql"])
def rows(request: pytest.FixtureRequest) -> Rows:
    """An empty table of trips in a database."""
    kind, server = {"postgres": (PostgresRows, "chs3_postgres"), "mysql": (MySqlRows, "chs3_mysql")}[request.param]
    return kind.create(request.getfixturevalue(server))


@pytest.fixture
def row_lake(rows: Rows, chs3_cluster: Cluster, chs3_database: str, monkeypatch: pytest.MonkeyPatch) -> RowLake:
    """An empty table of a database, and a table that it is loaded into."""
    return RowLake.create(rows, chs3_cluster, chs3_database, monkeypatch)


@pytest.fixture(scope="session")
def tokenless_s3() -> Iterator[S3Endpoint]:
    """An S3 server that checks no keys: ClickHouse sends an empty token for Delta, which one that checks refuses."""
    with S3Server.start(anonymous=True) as server:
        yield server


@pytest.fixture(params=["iceberg", "delta"])
def lakehouse(request: pytest.FixtureRequest, tmp_path: Path) -> Lakehouse:
    """A table of trips of Iceberg or Delta, which is there after the first rows."""
    kind, server = {"iceberg": (IcebergTable, "chs3_s3"), "delta": (DeltaTable, "tokenless_s3")}[request.param]
    bucket = S3Objects.create(request.getfixturevalue(server))
    return kind(bucket.server, bucket.bucket, tmp_path)


@pytest.fixture(params=["iceberg", "delta"])
def table_lake(
    request: pytest.FixtureRequest,
    chs3_s3: S3Endpoint,
    chs3_cluster: Cluster,
    chs3_database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> TableLake:
    """A table of a lakehouse, and one that it is loaded into."""
    kind = {"iceberg": IcebergTable, "delta": DeltaTable}[request.param]
    bucket = S3Objects.create(chs3_s3)
    return TableLake.create(kind(bucket.server, bucket.bucket, tmp_path), chs3_cluster, chs3_database, monkeypatch)


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
        rows = {"postgres": PostgresRows, "mysql": MySqlRows}[request.param]
        server = request.getfixturevalue(f"chs3_{request.param}")
        return RowLake.create(rows.create(server), chs3_cluster, chs3_database, monkeypatch)
    kind = {"iceberg": IcebergTable, "delta": DeltaTable}[request.param]
    bucket = S3Objects.create(request.getfixturevalue("chs3_s3"))
    return TableLake.create(kind(bucket.server, bucket.bucket, tmp_path), chs3_cluster, chs3_database, monkeypatch)


@pytest.fixture
def staging(chs3_cluster: Cluster, chs3_database: str) -> Staging:
    """An empty table of trips on every node."""
    return Staging.create(chs3_cluster, chs3_database)


@pytest.fixture
def lake(kafka: KafkaServer, chs3_s3: Any, chs3_bucket: str, monkeypatch: pytest.MonkeyPatch) -> LandingLake:
    """An empty bucket, and an empty topic that is landed in it."""
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", json.dumps(chs3_s3.airflow_connection()))
    connection = {"conn_type": "kafka", "extra": kafka.settings()}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(connection))
    topic = Topic.create(kafka, f"trips-{secrets.token_hex(4)}")
    return LandingLake(topic, chs3_s3.client(), chs3_bucket)
