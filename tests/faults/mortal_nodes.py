"""A cluster whose nodes may die."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.trips import Trips
from tests.support.lake import Lake, lake_on
from tests.support.narrow_user import WITH_NARROW_USER

OLD, NEW = Trips(rows_per_period=3_000, files_per_period=6), Trips(seed=2, rows_per_period=3_500, files_per_period=6)


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[ClickHouseCluster]:
    """A cluster whose nodes may be killed; each test starts again what it killed."""
    with ClickHouseCluster.start(**WITH_NARROW_USER) as cluster:
        yield cluster


@pytest.fixture
def mortal_lake(
    own_cluster: ClickHouseCluster, chs3_s3: Any, chs3_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Lake]:
    """A lake on nodes that may be killed, its period published, and newer objects there."""
    with lake_on(own_cluster, chs3_s3, chs3_bucket, monkeypatch) as lake:
        lake.create_table()
        lake.upload(OLD)
        lake.load()
        lake.upload(NEW)
        yield lake


def name_of(lake: Lake, node: int) -> str:
    return f"{lake.cluster.nodes[node].host}:{lake.cluster.nodes[node].tcp_port}"
