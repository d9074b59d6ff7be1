"""Loads against the real cluster and S3 of the test bed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.few_nodes import cluster_for
from tests.support.lake import Lake, lake_on

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.nodes import Cluster


@pytest.fixture
def cluster_of_test(request: pytest.FixtureRequest) -> Cluster:
    """One node, unless a test or its module is marked `three_nodes`."""
    return cluster_for(request)


@pytest.fixture
def lake(cluster_of_test: Cluster, chs3_s3: Any, chs3_bucket: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    """An empty lake; nothing of a load may outlive the test."""
    with lake_on(cluster_of_test, chs3_s3, chs3_bucket, monkeypatch) as lake:
        yield lake


@pytest.fixture
def trips_lake(lake: Lake) -> Lake:
    """A lake whose table is there and empty."""
    lake.create_table()
    return lake


@pytest.fixture
def running_insert(trips_lake: Lake) -> Iterator[None]:
    """An insert that runs on the first node until the test ends."""
    node = trips_lake.cluster.nodes[0]
    query_id = f"test_{trips_lake.database}"
    sql = (
        "INSERT INTO FUNCTION null('x UInt8') SELECT sleepEachRow(1) FROM numbers(600) "
        "SETTINGS function_sleep_max_microseconds_per_block = 1000000000, max_block_size = 1"
    )

    def insert() -> None:
        from clickhouse_driver.errors import ServerException

        with node.client() as client, pytest.raises(ServerException, match="394"):
            client.execute(sql, query_id=query_id)

    thread = threading.Thread(target=insert)
    thread.start()
    asked = f"SELECT count() FROM system.processes WHERE query_id = '{query_id}'"
    while trips_lake.on_node(0, asked) != [(1,)]:
        assert thread.is_alive()
    yield
    trips_lake.on_node(0, f"KILL QUERY WHERE query_id = '{query_id}' SYNC")
    thread.join()
