"""The load balancer of the test bed."""

from __future__ import annotations

import socket
import urllib.request
from contextlib import closing

import pytest
from clickhouse_driver import Client
from clickhouse_driver.errors import NetworkError

from airflow_provider_chs3.testbed.balancer import Door, LoadBalancer
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster


def connected(balancer, cluster):
    user = cluster.nodes[0].credentials
    return Client("127.0.0.1", port=balancer.tcp_port, user=user.login, password=user.password)


def name_of_next(balancer, cluster):
    with connected(balancer, cluster) as client:
        return client.execute("SELECT getMacro('replica')")[0][0]


def test_each_connection_leads_to_the_next_node_or_all_to_one(chs3_cluster, chs3_balancer):
    names = [name_of_next(chs3_balancer, chs3_cluster) for _ in range(6)]
    assert names[:3] == names[3:]
    assert set(names) == {node.name for node in chs3_cluster.nodes}
    chs3_balancer.stick()
    assert len({name_of_next(chs3_balancer, chs3_cluster) for _ in range(4)}) == 1
    chs3_balancer.stick(is_sticky=False)
    assert len({name_of_next(chs3_balancer, chs3_cluster) for _ in range(3)}) == 3


def test_connections_are_cut_at_once_or_later(chs3_cluster, chs3_balancer):
    with connected(chs3_balancer, chs3_cluster) as client:
        client.execute("SELECT 1")
        chs3_balancer.cut()
        assert not client.connection.ping()
        client.execute("SELECT 1")
        chs3_balancer.cut(after_seconds=0.3)
        with pytest.raises((EOFError, OSError, NetworkError)):
            client.execute("SELECT sleep(3)")


def test_http_has_a_port_of_its_own(chs3_balancer):
    with urllib.request.urlopen(f"http://127.0.0.1:{chs3_balancer.http_port}/ping") as answer:
        assert answer.read() == b"Ok.\n"


def test_a_node_that_is_down_is_passed_over():
    with ClickHouseCluster.start(2) as cluster, LoadBalancer.start(cluster) as balancer:
        cluster.kill(0)
        assert [name_of_next(balancer, cluster) for _ in range(3)] == ["node2"] * 3
        cluster.kill(1)
        # The end of a connection or its reset, whichever the client sees first.
        with pytest.raises((EOFError, OSError, NetworkError)):
            name_of_next(balancer, cluster)


class TestDoor:
    @pytest.fixture
    def server(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.settimeout(10)
            yield listener

    def through(self, door, server):
        """Return the next connection's two ends."""
        client = socket.create_connection(("127.0.0.1", door.port), timeout=10)
        return client, server.accept()[0]

    def test_once_stopped_it_leads_no_further_connection(self, server):
        door = Door(server.getsockname())
        client, end = self.through(door, server)
        door.stop()
        with client, end:
            assert client.recv(1) == end.recv(1) == b""
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", door.port), timeout=10)

    def test_after_a_connection_that_fails_it_leads_the_next(self, server, monkeypatch, caplog):
        with Door(server.getsockname()) as door:
            lead = door._connect

            def fail_once():
                monkeypatch.setattr(door, "_connect", lead)
                raise OSError("too many files are open")

            monkeypatch.setattr(door, "_connect", fail_once)
            with closing(socket.create_connection(("127.0.0.1", door.port), timeout=10)) as failing:
                assert failing.recv(1) == b""
            client, end = self.through(door, server)
            with client, end:
                client.sendall(b"a")
                assert end.recv(1) == b"a"
        assert "too many files are open" in caplog.text
