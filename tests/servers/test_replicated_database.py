"""Loads into a database of engine Replicated: one shard of two replicas, on real servers of the oldest version."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.programs import keeper
from tests.integration.lake import PERIOD, Lake, lake_on
from tests.narrow_user import WITH_NARROW_USER_OF_REPLICAS, WITHOUT_COMPILATION
from tests.servers.replicas import OTHER, TRIPS, replicated


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClickHouseCluster]:
    """Servers of all these tests."""
    if why := keeper.missing():
        pytest.skip(why)
    with ClickHouseCluster.start(
        2,
        replicas=2,
        program="server",
        replicated_databases=True,
        user_settings=WITHOUT_COMPILATION,
        **WITH_NARROW_USER_OF_REPLICAS,
    ) as running:
        yield running


@pytest.fixture
def lake(cluster: ClickHouseCluster, chs3_s3: Any, chs3_bucket: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    """A lake with a replicated table, and trips for it."""
    with lake_on(cluster, chs3_s3, chs3_bucket, monkeypatch) as lake:
        lake.create_table(engine=replicated(lake))
        lake.upload(TRIPS)
        yield lake


def test_all_tables_of_a_load_are_a_shards_and_hold_one_record_for_it(lake: Lake) -> None:
    assert lake.load()["status"] == "published"
    assert lake.facts() == TRIPS.facts(PERIOD)
    assert lake.load()["status"] == "unchanged"
    lake.upload(OTHER)
    lake.load()
    assert lake.facts() == OTHER.facts(PERIOD)
    engines = f"SELECT DISTINCT engine FROM system.tables WHERE database = '{lake.database}' AND name LIKE 'chs3%'"
    assert lake.on_every_node(engines) == [[("ReplicatedMergeTree",)]] * 2
    events = f"SELECT event, count() FROM {lake.database}.chs3_ledger GROUP BY event ORDER BY event"
    assert lake.on_every_node(events) == [[("intent", 2), ("published", 2)]] * 2
