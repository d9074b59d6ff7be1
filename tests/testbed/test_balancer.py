"""The load balancer of the test bed."""

from __future__ import annotations

import urllib.request

import pytest
from clickhouse_driver import Client
from clickhouse_driver.errors import NetworkError

from airflow_provider_chs3.testbed.balancer import LoadBalancer
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
