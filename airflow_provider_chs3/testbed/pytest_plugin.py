"""The test bed as pytest fixtures, for this package's tests and for the tests of users' DAGs.

    pip install '.[testbed]'       # in a clone

    pytest_plugins = ["airflow_provider_chs3.testbed.pytest_plugin"]       # in conftest.py

    def test_my_dag(chs3_airflow_connections, chs3_bucket, chs3_database): ...

Importing it is cheap; servers start with the first test that needs them.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_chs3.testbed.programs.packages import started_or_skip

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.balancer import LoadBalancer
    from airflow_provider_chs3.testbed.nodes import Cluster
    from airflow_provider_chs3.testbed.s3 import S3Endpoint

S3_NAMED_COLLECTION = "chs3_s3"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that choose the servers."""
    group = parser.getgroup("chs3", "ClickHouse and S3 servers for tests (airflow-provider-chs3)")
    group.addoption(
        "--chs3-clickhouse",
        choices=["engine", "server", "docker", "env"],
        default="engine",
        help="engine: the newest ClickHouse, embedded; server: real servers of the oldest supported version; docker: "
        "containers; env: CHS3_CLICKHOUSE_URI (%(default)s)",
    )
    group.addoption(
        "--chs3-s3",
        choices=["moto", "docker", "env"],
        default="moto",
        help="moto: a local process; docker: a container; env: CHS3_S3_ENDPOINT and its keys (%(default)s)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the chosen program the default of clusters that tests start themselves."""
    from airflow_provider_chs3.testbed.nodes import PROGRAM_VARIABLE

    program = config.getoption("--chs3-clickhouse")
    if program in ("engine", "server"):
        os.environ[PROGRAM_VARIABLE] = program


@pytest.fixture(scope="session")
def chs3_s3(request: pytest.FixtureRequest) -> Iterator[S3Endpoint]:
    """An S3 server that rejects wrong secrets: `.client()`, `.endpoint_url`, `.access_key`, `.secret_key`."""
    from airflow_provider_chs3.testbed.s3 import S3Server

    match request.config.getoption("--chs3-s3"):
        case "docker":
            from airflow_provider_chs3.testbed.containers import s3_container

            with started_or_skip(s3_container) as endpoint:
                yield endpoint
        case "env":
            from airflow_provider_chs3.testbed.external import s3_from

            yield s3_from(os.environ)
        case _:
            with S3Server.start() as server:
                yield server


@pytest.fixture(scope="session")
def chs3_cluster_options() -> dict[str, Any]:
    """Further arguments of `ClickHouseCluster.start` for `chs3_cluster`: none, unless `conftest.py` overrides it."""
    return {}


@pytest.fixture(scope="session")
def chs3_cluster(
    request: pytest.FixtureRequest, chs3_s3: S3Endpoint, chs3_cluster_options: dict[str, Any]
) -> Iterator[Cluster]:
    """Three ClickHouse nodes that form the cluster `chs3`, with the named collection `chs3_s3` for the S3 server.

    Servers from the environment (`--chs3-clickhouse=env`) keep their own configuration. A test that kills nodes must
    start its own cluster with `ClickHouseCluster.start()`.
    """
    named_collections = {S3_NAMED_COLLECTION: chs3_s3.named_collection()}
    match request.config.getoption("--chs3-clickhouse"):
        case "docker":
            from airflow_provider_chs3.testbed.containers import clickhouse_containers

            with started_or_skip(lambda: clickhouse_containers(named_collections)) as docker_cluster:
                yield docker_cluster
        case "env":
            from airflow_provider_chs3.testbed.external import cluster_from

            yield cluster_from(os.environ)
        case _:
            from airflow_provider_chs3.testbed.cluster import ClickHouseCluster

            with ClickHouseCluster.start(named_collections=named_collections, **chs3_cluster_options) as cluster:
                yield cluster


@pytest.fixture
def chs3_balancer(chs3_cluster: Cluster) -> Iterator[LoadBalancer]:
    """A load balancer in front of the cluster's nodes: `.airflow_connection()`, `.stick()`, `.cut()`."""
    from airflow_provider_chs3.testbed.balancer import LoadBalancer

    with LoadBalancer.start(chs3_cluster) as balancer:
        yield balancer


@pytest.fixture
def chs3_bucket(chs3_s3: S3Endpoint) -> Iterator[str]:
    """The name of a fresh bucket, removed after the test with all its objects."""
    client = chs3_s3.client()
    name = f"chs3-{uuid.uuid4().hex[:12]}"
    client.create_bucket(Bucket=name)
    yield name
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=name):
        if keys := [{"Key": entry["Key"]} for entry in page.get("Contents", [])]:
            client.delete_objects(Bucket=name, Delete={"Objects": keys})
    client.delete_bucket(Bucket=name)


@pytest.fixture
def chs3_database(chs3_cluster: Cluster) -> Iterator[str]:
    """The name of a fresh database on every node, dropped after the test."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    for node in chs3_cluster.nodes:
        with node.client() as client:
            client.execute(f"CREATE DATABASE {name}")
    yield name
    for node in chs3_cluster.nodes:
        with node.client() as client:
            client.execute(f"DROP DATABASE {name} SYNC")


@pytest.fixture
def chs3_airflow_connections(
    chs3_cluster: Cluster, chs3_s3: S3Endpoint, chs3_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`chs3_default` and `aws_default` lead to the cluster, with the test's database, and to the S3 server."""
    connection = chs3_cluster.airflow_connection() | {"schema": chs3_database}
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(connection))
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", json.dumps(chs3_s3.airflow_connection()))
