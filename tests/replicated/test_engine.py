"""A load into replicated tables on a server of today, as far as the test bed's engine goes: up to its first row.

The engine keeps replicas in Keeper (here: Debian's ZooKeeper), but has no port for replicas to talk to each other, so
that its replicated tables are read-only. All statements before the insert are carried out, and those that clean up.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_chs3.exceptions import ClickHouseServerError
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.processes import HOST, free_ports
from airflow_provider_chs3.testbed.programs.keeper import Keeper, missing
from airflow_provider_chs3.testbed.trips import Trips
from tests.support.lake import Lake
from tests.support.narrow_user import WITH_NARROW_USER_OF_REPLICAS, narrow_connection
from tests.support.refusal import refused

#: The servers in `tests/servers` have replicas on every change.
pytestmark = pytest.mark.thorough

TRIPS = Trips(rows_per_period=600, files_per_period=3)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseCluster]:
    if why := missing():
        pytest.skip(why)
    (port,) = free_ports(1)
    keeper = {"node": {"host": HOST, "port": port}}
    folder: Path = tmp_path_factory.mktemp("keeper")
    # An INSERT into a read-only table waits for minutes otherwise.
    settings = {"insert_keeper_max_retries": 0}
    with (
        Keeper(folder / "zookeeper", port),
        ClickHouseCluster.start(
            2, server_settings={"zookeeper": keeper}, user_settings=settings, **WITH_NARROW_USER_OF_REPLICAS
        ) as it,
    ):
        yield it


@pytest.fixture
def lake(
    cluster: ClickHouseCluster, chs3_s3: Any, chs3_bucket: str, monkeypatch: pytest.MonkeyPatch, request: Any
) -> Lake:
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", json.dumps(chs3_s3.airflow_connection()))
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(narrow_connection(cluster)))
    lake = Lake(cluster, chs3_s3.client(), chs3_bucket, request.node.name[:40].lower())
    lake.on_every_node(f"CREATE DATABASE {lake.database}")
    lake.upload(TRIPS)
    return lake


def test_a_load_gets_as_far_as_the_insert_and_cleans_up(lake: Lake) -> None:
    lake.create_table(engine=f"ReplicatedMergeTree('/tables/{{shard}}/{lake.database}', '{{replica}}')")
    with pytest.raises(ClickHouseServerError, match="readonly") as stopped:
        lake.load()
    assert stopped.value.query_id.endswith("_insert1")
    assert lake.left_behind() == []


def test_shards_that_replicate_each_other_are_refused(lake: Lake) -> None:
    lake.create_table(engine=f"ReplicatedMergeTree('/tables/{lake.database}', '{{replica}}')")
    refused(lake, "Shards 1, 2 of cluster 'chs3' replicate .* to each other")
