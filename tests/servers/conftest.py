"""Two shards of two replicas: real servers of the oldest version.

With `CHS3_DATABASES=Replicated`, databases have that engine, and all of these tests run in it. With
`CHS3_AS_ON_CLOUD=1`, the user's rights and profile are also like those on ClickHouse Cloud.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.programs import keeper
from tests.servers.nodes import Nodes
from tests.support.lake import Lake, lake_on
from tests.support.narrow_user import (
    AS_ON_CLOUD,
    WITH_NARROW_USER_OF_REPLICAS,
    WITH_NARROW_USER_OF_SHARDS,
    WITHOUT_COMPILATION,
    narrow_connection,
)
from tests.support.replicas import TRIPS, replicated


def _setup() -> dict[str, Any]:
    if os.environ.get("CHS3_AS_ON_CLOUD"):
        return AS_ON_CLOUD
    if os.environ.get("CHS3_DATABASES") == "Replicated":
        of_user = WITH_NARROW_USER_OF_SHARDS
        return {"replicated_databases": True, "user_settings": WITHOUT_COMPILATION, **of_user}
    return {"user_settings": WITHOUT_COMPILATION, **WITH_NARROW_USER_OF_REPLICAS}


@pytest.fixture(scope="package")
def replicated_cluster() -> Iterator[ClickHouseCluster]:
    """Servers of all these tests; who stops some starts them again."""
    if why := keeper.missing():
        pytest.skip(why)
    with ClickHouseCluster.start(4, replicas=2, program="server", **_setup()) as cluster:
        yield cluster


@pytest.fixture
def empty_lake(
    replicated_cluster: ClickHouseCluster, chs3_s3: Any, chs3_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Lake]:
    """A lake for a replicated table; nothing of a load may outlive the test, and replicas are alike."""
    with lake_on(replicated_cluster, chs3_s3, chs3_bucket, monkeypatch) as lake:
        yield lake
        first, second, third, fourth = lake.rows_per_node()
        assert (first, third) == (second, fourth)


@pytest.fixture
def lake(empty_lake: Lake) -> Lake:
    """A lake with a replicated table, and trips for it."""
    empty_lake.create_table(engine=replicated(empty_lake))
    empty_lake.upload(TRIPS)
    return empty_lake


@pytest.fixture
def nodes(replicated_cluster: ClickHouseCluster, empty_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nodes]:
    """The servers; those that a test stops are started again."""
    connection = narrow_connection(replicated_cluster)
    if not connection["extra"].get("one_door"):
        connection["extra"]["alt_hosts"] = f"127.0.0.1:{replicated_cluster.nodes[1].tcp_port}"
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(connection))
    nodes = Nodes(replicated_cluster, empty_lake)
    yield nodes
    nodes.bring_back()
    empty_lake.on_every_node(f"SYSTEM SYNC REPLICA {empty_lake.database}.{empty_lake.table}")
