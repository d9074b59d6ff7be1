"""Merge health of real replicas. The state of the replica comes from a server of 2018; the rest is made up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from clickhouse_driver import Client
from clickhouse_driver.errors import ServerException

from airflow_provider_chs3.core.arguments.merge_arguments import Thresholds
from airflow_provider_chs3.core.model.models import Node, TableName
from airflow_provider_chs3.core.sql.quoting import in_table
from airflow_provider_chs3.core.target.node_facts import QUEUE
from airflow_provider_chs3.core.watch.health import Health, Verdict, judge
from airflow_provider_chs3.core.watch.merge_observation import Replica, queue_query, replica_of, replicas_query
from airflow_provider_chs3.testbed.processes import HOST, free_ports
from airflow_provider_chs3.testbed.programs.keeper import Keeper
from tests.replicated import debian_cluster
from tests.replicated.conftest import FIRST, FOLLOWER, Replicated
from tests.support.merge_states import FEW
from tests.support.waiting import wait_until

#: The servers in `tests/servers` have replicas on every change.
pytestmark = pytest.mark.thorough
A_MOMENT, TEN_MINUTES = Thresholds(), Thresholds(stuck_after_seconds=0, max_replica_delay_seconds=1)


def replica(ask: Callable[[str], list[tuple[Any, ...]]], table: str) -> Replica:
    name = in_table(TableName("default", table))
    # Servers of 2018 do not know the function.
    of_queue = queue_query(name, {QUEUE}).replace("toValidUTF8(last_exception)", "last_exception")
    ((replicas, queue),) = ask(f"SELECT {replicas_query(name)}, {of_queue}")
    found = replica_of("202610", *([row[2:] for row in rows] for rows in (replicas, queue)))
    assert found is not None
    return found


def verdict(seen: Replica, thresholds: Thresholds) -> Verdict:
    return judge(replace(FEW, parts=0, replica=seen), thresholds)


@pytest.fixture
def lagging(replicated: Replicated) -> Iterator[Callable[[], Replica]]:
    """Asks a replica that may not fetch what the other one has."""
    replicated.ask(FOLLOWER, f"SYSTEM STOP FETCHES {replicated.table}")
    replicated.stage(replicated.table, FIRST, 10)
    look = lambda: replica(lambda sql: replicated.ask(FOLLOWER, sql), replicated.table)  # noqa: E731
    wait_until(lambda: look().queue)
    yield look
    replicated.ask(FOLLOWER, f"SYSTEM START FETCHES {replicated.table}")


class TestFetchesAreStopped:
    def test_a_moment_ago_it_is_settling(self, lagging: Callable[[], Replica]) -> None:
        seen = verdict(lagging(), A_MOMENT)
        assert (seen.health, seen.reason.partition(":")[0]) == (Health.SETTLING, "1 part in the replication queue")

    def test_after_long_it_is_stuck_with_what_it_waits_for(self, lagging: Callable[[], Replica]) -> None:
        wait_until(lambda: lagging().delay_seconds > TEN_MINUTES.max_replica_delay_seconds)
        seen = verdict(lagging(), TEN_MINUTES)
        assert seen.health is Health.STUCK
        assert "the replica lags" in seen.reason
        assert "Fetching of part was cancelled" in seen.reason


def is_created(client: Client) -> bool:
    with suppress(ServerException):
        client.execute(
            "CREATE TABLE trips (id UInt64, at DateTime) ENGINE = ReplicatedMergeTree('/trips', 'one') "
            "PARTITION BY toYYYYMM(at) ORDER BY id SETTINGS zookeeper_session_expiration_check_period = 1"
        )
        return True
    return False


def test_a_replica_whose_keeper_is_gone_is_stuck(tmp_path: Path) -> None:
    if why := debian_cluster.missing():
        pytest.skip(why)
    keeper_port, *ports = free_ports(4)
    node = Node(1, 1, HOST, ports.pop())
    with ExitStack() as keeper, ExitStack() as server:
        keeper.enter_context(Keeper(tmp_path / "zookeeper", keeper_port))
        config = debian_cluster.config(node, [node], zookeeper_port=keeper_port, ports=(ports[0], ports[1]))
        server.enter_context(debian_cluster.clickhouse(tmp_path / "node", node, config))
        client = server.enter_context(Client(node.host, port=node.port))
        # ZooKeeper listens before it answers.
        wait_until(lambda: is_created(client))
        assert verdict(replica(client.execute, "trips"), A_MOMENT).health is Health.HEALTHY
        keeper.close()
        wait_until(lambda: replica(client.execute, "trips").is_readonly)
        seen = verdict(replica(client.execute, "trips"), A_MOMENT)
        assert (seen.health, seen.reason.partition(":")[0]) == (Health.STUCK, "the replica is read-only")
