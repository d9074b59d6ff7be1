"""Two shards of two replicas: real servers of the oldest version.

With `CHS3_DATABASES=Replicated`, databases have that engine, and all of these tests run in it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.programs import keeper
from tests.integration.lake import Lake, lake_on
from tests.narrow_user import WITH_NARROW_USER_OF_REPLICAS, WITHOUT_COMPILATION
from tests.servers.replicas import TRIPS, replicated


@pytest.fixture(scope="package")
def replicated_cluster() -> Iterator[ClickHouseCluster]:
    """Servers of all these tests; who stops some starts them again."""
    if why := keeper.missing():
        pytest.skip(why)
    with ClickHouseCluster.start(
        4,
        replicas=2,
        program="server",
        replicated_databases=os.environ.get("CHS3_DATABASES") == "Replicated",
        user_settings=WITHOUT_COMPILATION,
        **WITH_NARROW_USER_OF_REPLICAS,
    ) as cluster:
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
