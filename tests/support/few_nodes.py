"""One node, where what a test shows does not depend on several: its loads take half of the time there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.pytest_plugin import S3_NAMED_COLLECTION

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.nodes import Cluster
    from tests.support.lake import Lake


@pytest.fixture(scope="session")
def cluster_of_one(chs3_s3: Any, chs3_cluster_options: dict[str, Any]) -> Iterator[Cluster]:
    """A cluster like the one of all tests, with one node."""
    collections = {S3_NAMED_COLLECTION: chs3_s3.named_collection()}
    with ClickHouseCluster.start(1, named_collections=collections, **chs3_cluster_options) as cluster:
        yield cluster


@pytest.fixture
def lake_of_one(
    cluster_of_one: Cluster, chs3_s3: Any, chs3_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Lake]:
    """An empty lake on one node; nothing of a load may outlive the test."""
    from tests.support.lake import lake_on

    with lake_on(cluster_of_one, chs3_s3, chs3_bucket, monkeypatch) as lake:
        yield lake


def cluster_for(request: pytest.FixtureRequest) -> Cluster:
    """One node, unless the test or its module is marked `three_nodes`; servers of others are as they are."""
    is_of_others = request.config.getoption("--chs3-clickhouse") not in ("engine", "server")
    several = is_of_others or request.node.get_closest_marker("three_nodes")
    return request.getfixturevalue("chs3_cluster" if several else "cluster_of_one")
