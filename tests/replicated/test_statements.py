"""What the statements of a load do to replicated tables: staging, publishing, dropping, and all of it repeated."""

from __future__ import annotations

import time
from typing import Any

import pytest
from clickhouse_driver.errors import ServerException

from airflow_provider_chs3.core.replication import follow
from airflow_provider_chs3.core.staging import create_staging, end_attempt
from tests.replicated.conftest import FIRST, FOLLOWER, OTHER_SHARD, Replicated


@pytest.fixture
def staging(replicated: Replicated) -> str:
    """Staging as core makes it, with 30 rows in the first shard, of both replicas, and 5 in the other."""
    name = created(replicated)
    replicated.stage(name, FIRST, 10)
    replicated.stage(name, FOLLOWER, 20, first=100)
    replicated.stage(name, OTHER_SHARD, 5)
    replicated.wait(name)
    return name


def created(replicated: Replicated) -> str:
    attempt = replicated.attempt
    replicated.run(create_staging(replicated.around, attempt))
    return attempt.name


def in_keeper(replicated: Replicated, name: str) -> list[Any]:
    sql = f"SELECT name FROM system.zookeeper WHERE path = '/clickhouse/tables/01' AND name LIKE '%{name}%'"
    return replicated.ask(FIRST, sql)


class TestStaging:
    def test_of_a_shard_holds_what_each_of_its_replicas_wrote(self, replicated, staging):
        assert replicated.rows(staging) == [30, 30, 5, 5]

    def test_keeps_equal_blocks_of_two_replicas(self, replicated):
        name = created(replicated)
        replicated.stage(name, FIRST, 10)
        replicated.stage(name, FOLLOWER, 10)
        replicated.wait(name)
        assert replicated.rows(name) == [20, 20, 0, 0]

    def test_is_at_a_path_of_its_own_in_keeper(self, replicated, staging):
        assert in_keeper(replicated, staging) == [(f"{replicated.table}.{staging}",)]

    def test_of_a_later_attempt_holds_nothing_of_an_earlier_one(self, replicated, staging):
        assert replicated.rows(created(replicated)) == [0, 0, 0, 0]

    def test_dropped_on_all_nodes_at_once_leaves_nothing_in_keeper(self, replicated, staging):
        replicated.on_all(f"DROP TABLE IF EXISTS {staging}")
        assert in_keeper(replicated, staging) == []

    def test_dropped_twice_is_dropped(self, replicated, staging):
        replicated.on_all(f"DROP TABLE IF EXISTS {staging}")
        replicated.on_all(f"DROP TABLE IF EXISTS {staging}")

    def test_dropped_on_one_replica_is_found_gone_there(self, replicated, staging):
        replicated.ask(FIRST, f"DROP TABLE {staging}")
        with pytest.raises(ServerException) as caught:
            replicated.replace_partition(FIRST, staging)
        assert caught.value.code == 60


class TestPublishing:
    def test_on_one_replica_is_followed_by_the_other(self, replicated, staging):
        replicated.replace_partition(FIRST, staging)
        replicated.run(follow(replicated.around, replicated.around.target))
        assert replicated.rows() == [30, 30, 0, 0]

    def test_from_plain_staging_is_followed_too(self, replicated):
        name = f"plain_{replicated.table}"
        replicated.on_all(
            f"CREATE TABLE {name} AS {replicated.table} ENGINE = MergeTree PARTITION BY toYYYYMM(at) ORDER BY id"
        )
        replicated.stage(name, FIRST, 7)
        replicated.replace_partition(FIRST, name)
        replicated.wait()
        assert replicated.rows() == [7, 7, 0, 0]

    @pytest.mark.parametrize("again", [FIRST, FOLLOWER])
    def test_twice_ends_in_the_same_rows(self, replicated, staging, again):
        replicated.replace_partition(FIRST, staging)
        replicated.replace_partition(again, staging)
        replicated.wait()
        assert replicated.rows() == [30, 30, 0, 0]

    def test_takes_away_what_was_there(self, replicated, staging):
        replicated.stage(replicated.table, FOLLOWER, 1000)
        replicated.wait()
        replicated.replace_partition(FIRST, staging)
        replicated.wait()
        assert replicated.rows() == [30, 30, 0, 0]

    def test_an_empty_month_takes_the_old_rows_from_all_replicas(self, replicated, staging):
        replicated.replace_partition(FIRST, staging)
        replicated.replace_partition(FIRST, created(replicated))
        replicated.wait()
        assert replicated.rows() == [0, 0, 0, 0]

    def test_rows_of_a_late_replica_do_not_come_back(self, replicated, staging):
        replicated.ask(FOLLOWER, "SYSTEM STOP REPLICATION QUEUES")
        replicated.stage(replicated.table, FIRST, 1000)
        replicated.replace_partition(FIRST, staging)
        late = replicated.rows()
        replicated.ask(FOLLOWER, "SYSTEM START REPLICATION QUEUES")
        replicated.wait()
        assert (late, replicated.rows()) == ([30, 0, 0, 0], [30, 30, 0, 0])

    def test_without_its_staging_changes_nothing(self, replicated, staging):
        replicated.replace_partition(FIRST, staging)
        replicated.on_all(f"DROP TABLE IF EXISTS {staging}")
        with pytest.raises(ServerException, match="doesn't exist"):
            replicated.replace_partition(FOLLOWER, staging)
        replicated.wait()
        assert replicated.rows() == [30, 30, 0, 0]

    def test_is_not_undone_when_staging_goes_before_the_other_replica_has_followed(self, replicated, staging):
        replicated.ask(FOLLOWER, "SYSTEM STOP REPLICATION QUEUES")
        replicated.replace_partition(FIRST, staging)
        replicated.on_all(f"DROP TABLE IF EXISTS {staging}")
        replicated.ask(FOLLOWER, "SYSTEM START REPLICATION QUEUES")
        replicated.wait()
        assert replicated.rows() == [30, 30, 0, 0]

    def test_on_cluster_is_not_known_to_this_server(self, replicated, staging):
        with pytest.raises(ServerException) as caught:
            replicated.ask(
                FIRST, f"ALTER TABLE {replicated.table} ON CLUSTER c REPLACE PARTITION ID '202610' FROM {staging}"
            )
        assert caught.value.code == 48


class TestBlockNumbers:
    def test_are_the_same_on_all_replicas(self, replicated, staging):
        replicated.replace_partition(FIRST, staging)
        replicated.wait()
        assert replicated.blocks(FIRST) == replicated.blocks(FOLLOWER)

    def test_rise_with_each_publishing(self, replicated, staging):
        replicated.replace_partition(FIRST, staging)
        _, highest = replicated.blocks(FIRST)
        replicated.replace_partition(FIRST, staging)
        assert replicated.blocks(FIRST)[0] > highest

    def test_survive_merges(self, replicated, staging):
        replicated.replace_partition(FIRST, staging)
        before = replicated.blocks(FIRST)
        replicated.on_all(f"OPTIMIZE TABLE {replicated.table} PARTITION 202610 FINAL")
        replicated.wait()
        parts = replicated.ask(
            FOLLOWER, f"SELECT count() FROM system.parts WHERE active AND table = '{replicated.table}'"
        )
        assert (parts, replicated.blocks(FIRST), replicated.blocks(FOLLOWER)) == ([(1,)], before, before)

    def test_of_what_was_published_begin_at_1(self, replicated, staging):
        replicated.replace_partition(FIRST, staging)
        assert replicated.blocks(FIRST) == (1, 2)

    def test_of_what_others_insert_first_begin_at_0(self, replicated):
        replicated.stage(replicated.table, FIRST, 10)
        assert replicated.blocks(FIRST) == (0, 0)


class TestEnd:
    def test_of_an_attempt_drops_its_staging_on_every_replica(self, replicated):
        attempt = replicated.attempt
        replicated.run(create_staging(replicated.around, attempt))
        replicated.run(end_attempt(replicated.around, attempt))
        assert in_keeper(replicated, attempt.name) == []


class TestQueue:
    def test_tells_of_a_partition_that_a_replica_has_not_replaced_yet(self, replicated, staging):
        replicated.ask(FOLLOWER, "SYSTEM STOP REPLICATION QUEUES")
        replicated.replace_partition(FIRST, staging)
        sql = f"SELECT type, new_part_name FROM system.replication_queue WHERE table = '{replicated.table}'"
        # Replicas hear of each other's entries through Keeper, a moment later.
        deadline = time.monotonic() + 30
        while not (queue := replicated.ask(FOLLOWER, sql)) and time.monotonic() < deadline:
            time.sleep(0.05)
        replicated.ask(FOLLOWER, "SYSTEM START REPLICATION QUEUES")
        assert queue == [("REPLACE_RANGE", "")]
