"""Connections through an address that leads to any server of the cluster."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from airflow_provider_chs3.client import one_door
from airflow_provider_chs3.client.driver import Connection
from airflow_provider_chs3.client.one_door import DoorConnections
from airflow_provider_chs3.client.server import Server
from airflow_provider_chs3.exceptions import ClickHouseConnectionError, ClickHouseServerError, TransientError
from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook, PooledClickHouseHook
from airflow_provider_chs3.testbed.balancer import Door

if TYPE_CHECKING:
    from airflow_provider_chs3.client.connection import Address
    from airflow_provider_chs3.testbed.balancer import LoadBalancer
    from airflow_provider_chs3.testbed.nodes import Cluster


WHERE = "SELECT getMacro('replica')"


@pytest.fixture(params=[ClickHouseHook, PooledClickHouseHook])
def door(
    request: pytest.FixtureRequest, chs3_balancer: LoadBalancer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ClickHouseHook]:
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(chs3_balancer.airflow_connection()))
    made = request.param()
    yield made
    made._connections.close()


@pytest.fixture
def addresses(chs3_cluster: Cluster) -> dict[str, Address]:
    return {node.name: (node.host, node.tcp_port) for node in chs3_cluster.nodes}


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The connections that were opened."""
    connections: list[object] = []
    connect = Connection.connect
    monkeypatch.setattr(Connection, "connect", lambda self: connections.append(self) or connect(self))
    return connections


def test_each_statement_reaches_its_node(
    door: ClickHouseHook, addresses: dict[str, Address], opened: list[object]
) -> None:
    for name, address in [*addresses.items()] * 3:
        assert door.query(WHERE, address=address) == [(name,)]
    with ThreadPoolExecutor(9) as threads:
        names = [*addresses] * 9
        answers = threads.map(lambda name: door.query(f"{WHERE}, sleep(0.2)", address=addresses[name]), names)
        assert [name for ((name, _),) in answers] == names
    assert len(opened) <= 9 * 3
    with door.client(address=addresses["node2"]) as client:
        assert client.execute(WHERE) == [("node2",)]


@pytest.mark.parametrize("limit_seconds", [None, 20])
def test_a_connection_that_was_cut_leads_to_no_other_server(
    door: ClickHouseHook, addresses: dict[str, Address], chs3_balancer: LoadBalancer, limit_seconds: float | None
) -> None:
    for _ in range(2):
        for name, address in addresses.items():
            assert door.query(WHERE, address=address, send_receive_timeout_seconds=limit_seconds) == [(name,)]
        chs3_balancer.cut()
    address = addresses["node3"]
    chs3_balancer.cut(after_seconds=0.5)
    with pytest.raises(ClickHouseConnectionError):
        door.query("SELECT sleep(3)", address=address, send_receive_timeout_seconds=limit_seconds)
    assert door.query(WHERE, address=address) == [("node3",)]


@pytest.mark.thorough(but=1)
def test_a_session_ends_with_its_connection(door: ClickHouseHook, chs3_balancer: LoadBalancer) -> None:
    with door.client() as client:
        client.execute("SELECT 1")
        chs3_balancer.cut()
        with pytest.raises(Exception, match="may lead to another server"):
            client.execute("SELECT 1")


@pytest.mark.thorough(but=1)
def test_a_sticky_balancer_is_an_error_with_the_way_out(
    door: ClickHouseHook, addresses: dict[str, Address], chs3_balancer: LoadBalancer, opened: list[object]
) -> None:
    chs3_balancer.stick()
    ((stuck,),) = door.query(WHERE)
    other = next(address for name, address in addresses.items() if name != stuck)
    with pytest.raises(ClickHouseConnectionError, match=f"none of 42 connections .*: 42 to {stuck}. .* is sticky"):
        door.query(WHERE, address=other)
    assert len(opened) == 43
    chs3_balancer.stick(is_sticky=False)
    assert door.query(WHERE, address=other) != [(stuck,)]


@pytest.mark.thorough(but=1)
def test_nobody_behind_the_door_is_said_at_once(door: ClickHouseHook, chs3_balancer: LoadBalancer) -> None:
    chs3_balancer.stop()
    with pytest.raises(ClickHouseConnectionError, match="nothing listens on this port"):
        door.query(WHERE, address=("node9", 9000))


class Freezing(Door):
    """It leads to one server, and after that to one that accepts connections and says nothing."""

    def __init__(self, cluster: Cluster) -> None:
        self.silent: socket.socket | None = None
        super().__init__((cluster.nodes[0].host, cluster.nodes[0].tcp_port))

    def _connect(self) -> socket.socket | None:
        return socket.create_connection(self.silent.getsockname()) if self.silent else super()._connect()


def test_a_server_that_freezes_is_no_service_that_wakes(
    chs3_cluster: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with Freezing(chs3_cluster) as freezing, socket.create_server(("127.0.0.1", 0)) as silent:
        connection = chs3_cluster.airflow_connection()
        extra = {**connection["extra"], "one_door": True, "connect_timeout_seconds": 0.3}
        named = json.dumps({**connection, "port": freezing.port, "extra": extra})
        monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", named)
        door = ClickHouseHook()
        assert door.query("SELECT 1") == [(1,)]
        freezing.silent = silent
        freezing.cut()
        with (
            caplog.at_level("INFO", logger=one_door.__name__),
            pytest.raises(ClickHouseConnectionError, match=r"led to this node: .* to a server that did not answer"),
        ):
            door.query("SELECT 1", address=("node9", 9000))
    assert "waking" not in caplog.text


class Sleeping(Door):
    """It takes connections at once, and passes them on once its service is awake."""

    def __init__(self, cluster: Cluster, *, sleeps_seconds: float) -> None:
        self._sleeps_seconds = sleeps_seconds
        super().__init__((cluster.nodes[0].host, cluster.nodes[0].tcp_port))

    def _accept(self) -> None:
        time.sleep(self._sleeps_seconds)
        super()._accept()


@pytest.fixture
def asleep(
    request: pytest.FixtureRequest, chs3_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ClickHouseHook]:
    """Leads to a service that wakes after some seconds."""
    with Sleeping(chs3_cluster, sleeps_seconds=request.param) as sleeping:
        connection = chs3_cluster.airflow_connection()
        extra = {**connection["extra"], "one_door": True, "connect_timeout_seconds": 0.5}
        monkeypatch.setenv(
            "AIRFLOW_CONN_CHS3_DEFAULT", json.dumps({**connection, "port": sleeping.port, "extra": extra})
        )
        yield ClickHouseHook()


@pytest.mark.parametrize("asleep", [1.6], indirect=True)
def test_a_service_that_wakes_is_waited_for(asleep: ClickHouseHook, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger=one_door.__name__):
        assert asleep.query("SELECT 1") == [(1,)]
    assert "waiting for the service to answer, as it may be waking (up to 120 s)" in caplog.text


@pytest.mark.parametrize("asleep", [10], indirect=True)
def test_one_that_does_not_wake_in_time_is_an_error(asleep: ClickHouseHook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_door, "_WAKING_SECONDS", 0.7)
    with pytest.raises(ClickHouseConnectionError, match="it accepts the connection, but sends nothing"):
        asleep.query("SELECT 1")


@pytest.mark.thorough(but=1)
def test_a_node_that_two_servers_say_to_be_is_refused(door: ClickHouseHook) -> None:
    connections = DoorConnections(door.options, "{}")
    address = ("ch", 9000)
    servers = [Server(name=name, uuid="", nodes=frozenset([address]), clusters=()) for name in ("one", "two")]
    connections._check_is_only_one(address, servers[0])
    connections._check_is_only_one(None, servers[0])
    with pytest.raises(TransientError, match="Two servers, one and two, say that they are node ch:9000"):
        connections._check_is_only_one(None, servers[1])
    connections._check_is_only_one(address, servers[1])


@pytest.mark.thorough(but=1)
def test_the_only_node_of_a_cluster_is_one_server(
    door: ClickHouseHook, chs3_cluster: Cluster, addresses: dict[str, Address], opened: list[object]
) -> None:
    """Where all servers call themselves localhost, each would take the table for its own."""
    connections = door._connections
    assert isinstance(connections, DoorConnections)
    alone = Server(name="one", uuid="", nodes=frozenset([("ch", 9000)]), clusters=(frozenset([("ch", 9000)]),))
    connections._check_others(("ch", 9000), alone)
    assert len(opened) == 1


def test_cancel_ends_the_statement_on_its_server(door: ClickHouseHook, chs3_cluster: Cluster) -> None:
    query_id = f"endless_{time.time_ns()}"
    endless = "SELECT count() FROM system.numbers WHERE NOT ignore(number)"
    is_running = (
        f"SELECT sum(1) FROM clusterAllReplicas({chs3_cluster.name}, system.processes) WHERE query_id = '{query_id}'"
    )
    with ThreadPoolExecutor(1) as threads:
        ended = threads.submit(door.execute, endless, query_id=query_id)
        while door.query(is_running) != [(1,)]:
            assert not ended.done()
        door.cancel()
        with pytest.raises(ClickHouseServerError, match="QUERY_WAS_CANCELLED"):
            ended.result(timeout=60)
