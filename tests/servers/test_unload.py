"""Unloads of a replicated table, two shards of two replicas: each row once, also where replicas lag or are down."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.exceptions import ReplicasBehindError
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.nodes import User
from airflow_provider_chs3.testbed.trips import PeriodFacts, read_facts
from tests.servers.nodes import Nodes
from tests.support.lake import PERIOD, Lake
from tests.support.narrow_user import documented
from tests.support.replicas import TRIPS, replicated
from tests.support.unloading import MANIFEST, Killed, ids, keys, killed_at, manifest, unload

#: The replicas that write, and those that follow them.
WRITERS, FOLLOWERS = (0, 2), (1, 3)


@pytest.fixture
def loaded(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A lake whose table has a period; unloads run as a user that may."""
    lake.load()
    as_any(lake, monkeypatch)
    return lake


def as_any(lake: Lake, monkeypatch: pytest.MonkeyPatch, **settings: int) -> None:
    """Have unloads run as a user that may, with settings of the connection."""
    fields = lake.cluster.airflow_connection()
    fields["extra"] |= {"settings": settings}
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(fields))


def unloaded(lake: Lake, s3: Any) -> PeriodFacts:
    """Return the rows of the files that the manifest names, as a server reads them."""
    names = ",".join(each["key"].removeprefix("exports/") for each in manifest(lake)["files"])
    where = f"'{s3.endpoint_url}/{lake.bucket}/exports/{{{names}}}', '{s3.access_key}', '{s3.secret_key}', 'Parquet'"
    with lake.cluster.nodes[0].client() as client:
        return read_facts(client, f"s3({where})", PERIOD)


def insert(lake: Lake, node: int, trip: int) -> None:
    name = f"{lake.database}.{lake.table}"
    lake.on_node(node, f"INSERT INTO {name} (trip_id, pickup_at) VALUES ({trip}, '2026-10-05')")


def test_each_row_is_unloaded_once_by_a_replica_of_its_shard(loaded: Lake, chs3_s3: Any) -> None:
    insert(loaded, FOLLOWERS[0], 1)  # A load may have put all of its rows into the other shard.
    insert(loaded, FOLLOWERS[1], 2)
    result = unload(loaded)
    assert (result["rows"], [each["node"] for each in manifest(loaded)["files"]]) == (12_002, ["1", "2"])
    assert unloaded(loaded, chs3_s3) == loaded.facts()
    assert unload(loaded)["status"] == "unchanged"


@pytest.mark.thorough
def test_a_replica_that_lags_is_waited_for_and_not_unloaded_as_it_is(
    loaded: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = ids(loaded) if unload(loaded) else []
    as_any(loaded, monkeypatch, receive_timeout=3)
    with loaded.cluster.lagging(WRITERS[0], f"{loaded.database}.{loaded.table}"):
        insert(loaded, FOLLOWERS[0], 1)
        with pytest.raises(ReplicasBehindError, match="have not caught up with each other in time"):
            unload(loaded)
        assert ids(loaded) == before
    assert unload(loaded)["rows"] == 12_001
    assert ids(loaded) == sorted([1, *before])


@pytest.mark.thorough
def test_a_replica_that_does_not_write_may_lag(loaded: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    as_any(loaded, monkeypatch, receive_timeout=3)
    with loaded.cluster.lagging(FOLLOWERS[0], f"{loaded.database}.{loaded.table}"):
        insert(loaded, WRITERS[0], 1)
        assert unload(loaded)["rows"] == 12_001


@pytest.mark.thorough
def test_one_replica_of_each_shard_is_enough(nodes: Nodes, lake: Lake, chs3_s3: Any, monkeypatch: Any) -> None:
    lake.load()
    as_any(lake, monkeypatch)
    nodes.kill(*FOLLOWERS)
    assert unload(lake)["rows"] == 12_000
    assert unloaded(lake, chs3_s3) == TRIPS.facts(PERIOD)
    nodes.bring_back()
    assert unload(lake)["status"] == "unchanged"


@pytest.mark.thorough
@pytest.mark.parametrize("has_effect", [False, True])
def test_a_kill_at_any_step_leaves_the_older_or_the_newer_period(loaded: Lake, has_effect: bool) -> None:
    unload(loaded)
    for step in range(100):
        before = ids(loaded)
        insert(loaded, FOLLOWERS[step % 2], step + 1)
        after = sorted([step + 1, *before])
        was_killed = False
        try:
            with killed_at(step, has_effect=has_effect):
                unload(loaded)
        except Killed:
            was_killed = True
        assert ids(loaded) in (before, after)
        unload(loaded)
        assert ids(loaded) == after
        assert sorted(keys(loaded)) == sorted([*(each["key"] for each in manifest(loaded)["files"]), MANIFEST])
        if not was_killed:
            break
    assert 10 < step < 99


@pytest.mark.thorough
def test_a_plain_table_on_replicas_is_refused(loaded: Lake) -> None:
    copy = Lake(loaded.cluster, loaded.s3, loaded.bucket, loaded.database, table="plain")
    copy.create_table()
    for node in range(4):
        insert(copy, node, 1)
    with pytest.raises(AirflowFailException, match=r"have several replicas, but .*plain on .* is a MergeTree, so they"):
        unload(copy)
    assert keys(loaded) == []


@pytest.mark.thorough
def test_a_table_that_only_some_nodes_replicate_is_refused(loaded: Lake) -> None:
    name = f"{loaded.database}.{loaded.table}"
    loaded.on_node(3, f"DROP TABLE {name} SYNC")
    create = loaded.on_node(1, f"SHOW CREATE TABLE {name}")[0][0]
    plain = f"{create.partition('ENGINE')[0]} ENGINE = MergeTree PARTITION BY toYYYYMM(pickup_at) ORDER BY pickup_at"
    loaded.on_node(3, plain)
    try:
        with pytest.raises(AirflowFailException, match="replicated on other nodes: create it with one engine on all"):
            unload(loaded)
    finally:
        loaded.on_node(3, f"DROP TABLE {name} SYNC")
        loaded.on_node(3, create)
        loaded.on_node(3, f"SYSTEM SYNC REPLICA {name}")


@pytest.mark.thorough
def test_shards_that_replicate_each_other_are_refused(loaded: Lake) -> None:
    if loaded.cluster.database_engine:
        pytest.skip("a Replicated database takes no path in Keeper")
    table = Lake(loaded.cluster, loaded.s3, loaded.bucket, loaded.database, table="everywhere")
    table.create_table(engine=f"ReplicatedMergeTree('/tables/{loaded.database}/everywhere', '{{replica}}')")
    insert(table, 0, 1)
    table.on_every_node(f"SYSTEM SYNC REPLICA {table.database}.everywhere")
    with pytest.raises(AirflowFailException, match=r"Shards 1, 2 .* replicate .*everywhere to each other"):
        unload(table)
    assert keys(loaded) == []


@pytest.mark.thorough
def test_the_documented_privileges_suffice(chs3_s3: Any, chs3_bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    user = User("unloader", "secret")
    grants = [*documented("Planning"), *documented("Unloading a period")]
    users = {user: [grant.replace("taxi.trips", "default.*") for grant in grants]}
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", json.dumps(chs3_s3.airflow_connection()))
    with ClickHouseCluster.start(2, replicas=2, program="server", users=users) as cluster:
        fields = cluster.airflow_connection() | {"login": user.login, "password": user.password}
        lake = Lake(cluster, chs3_s3.client(), chs3_bucket, "default")
        lake.create_table(engine=replicated(lake))
        insert(lake, 1, 7)
        monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(fields))
        assert unload(lake)["rows"] == 1
        assert ids(lake) == [7]
