"""A SELECT over a replicated table fills another one, from one replica of each shard."""

from __future__ import annotations

import secrets

import pytest

from airflow_provider_chs3.exceptions import ReplicasBehindError
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from tests.sources.select_lake import SelectLake
from tests.support.breaking import Breaker, Failed


@pytest.fixture
def select_lake(replicated_cluster: ClickHouseCluster, monkeypatch: pytest.MonkeyPatch) -> SelectLake:
    database = f"test_{secrets.token_hex(6)}"
    engine = replicated_cluster.database_engine
    for node in replicated_cluster.nodes:
        with node.client() as client:
            client.execute(f"CREATE DATABASE {database}{engine and ' ENGINE = '}{engine}")
    return SelectLake.create(replicated_cluster, database, monkeypatch, replicated=True)


def sync(lake: SelectLake) -> None:
    lake.on_every_node(f"SYSTEM SYNC REPLICA {lake.database}.zones")


@pytest.mark.thorough
def test_each_shard_holds_what_its_rows_make(select_lake: SelectLake) -> None:
    lake = select_lake
    # Replicas of the first shard, and one of the second.
    for node in (0, 1, 3):
        lake.put("2026-01-05", first=1_000 * node, node=node)
    assert lake.load("2026-01") == ["published"]
    sync(lake)
    lake.assert_exact(202601)
    lake.on_every_node(f"OPTIMIZE TABLE {lake.database}.base FINAL")
    assert lake.load("2026-01") == ["unchanged"]
    lake.put("2026-01-06", first=9_000, node=2)
    assert lake.load("2026-01") == ["published"]
    sync(lake)
    lake.assert_exact(202601)
    assert lake.left_behind() == []


@pytest.mark.thorough
def test_a_run_after_an_error_at_any_step_ends_in_the_selects_rows(
    select_lake: SelectLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, breaker = select_lake, Breaker(monkeypatch)
    for number in range(200):
        lake.put("2026-01-05", first=1_000 * number, rows=20, node=number % 4)
        breaker.set(break_after=number)
        try:
            lake.load("2026-01")
        except Failed:
            breaker.set()
            lake.load("2026-01")
        else:
            break
        sync(lake)
        lake.assert_exact(202601)
    assert number > 5
    assert lake.left_behind() == []


@pytest.mark.thorough
def test_replicas_that_differ_are_not_read(select_lake: SelectLake) -> None:
    lake = select_lake
    base = f"{lake.database}.base"
    for node in (0, 2):
        lake.put("2026-01-05", first=1_000 * node, node=node)
    with lake.cluster.nodes[0].client() as first, lake.cluster.nodes[1].client() as second:
        second.execute(f"SYSTEM SYNC REPLICA {base}")
        second.execute(f"SYSTEM STOP MERGES {base}")
        second.execute(f"SYSTEM STOP FETCHES {base}")
        first.execute(f"ALTER TABLE {base} UPDATE fare = fare + 1 WHERE 1 SETTINGS mutations_sync = 1")
        with pytest.raises(
            ReplicasBehindError, match=rf"are replicas, and hold other parts of {base} in partition 202601"
        ):
            lake.load("2026-01")
        lake.assert_exact()
        second.execute(f"SYSTEM START FETCHES {base}")
        second.execute(f"SYSTEM START MERGES {base}")
        second.execute(f"ALTER TABLE {base} UPDATE fare = fare + 1 WHERE 1 SETTINGS mutations_sync = 2")
    assert lake.load("2026-01") == ["published"]
    sync(lake)
    lake.assert_exact(202601)
