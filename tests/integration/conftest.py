"""Loads against the real cluster and S3 of the test bed."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.lake import Lake
from tests.narrow_user import narrow_connection

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.nodes import Cluster


@pytest.fixture
def as_narrow_user(chs3_cluster: Cluster, chs3_airflow_connections: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tested runs as a user with just the documented privileges; tests prepare and look as one with all."""
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(narrow_connection(chs3_cluster)))


@pytest.fixture
def lake(
    chs3_cluster: Cluster, chs3_s3: Any, chs3_bucket: str, chs3_database: str, as_narrow_user: None
) -> Iterator[Lake]:
    """An empty lake; nothing of a load may outlive the test."""
    lake = Lake(chs3_cluster, chs3_s3.client(), chs3_bucket, chs3_database)
    yield lake
    assert lake.left_behind() == []


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


@pytest.fixture
def one_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values are the same on one node and on three, and loads into one are quicker."""
    load = Lake.operator

    def operator(lake: Lake, **options: Any) -> Any:
        return load(lake, **{"cluster": lake.cluster.single_node_name, **options})

    monkeypatch.setattr(Lake, "operator", operator)
