"""The local cluster is a real one: three servers, on disk, that die with the test."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
import urllib.request
from pathlib import Path

import pytest

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.nodes import READER
from tests.support.waiting import wait_until


def test_each_shard_is_a_node_of_its_own(chs3_cluster):
    with chs3_cluster.nodes[0].client() as client:
        replicas = client.execute(
            f"SELECT getMacro('replica') FROM clusterAllReplicas('{chs3_cluster.name}', system.one)"
        )
    assert sorted(replicas) == [("node1",), ("node2",), ("node3",)]


def test_the_single_node_cluster_holds_the_first_node(chs3_cluster):
    with chs3_cluster.nodes[1].client() as client:
        name = chs3_cluster.single_node_name
        assert client.execute(f"SELECT getMacro('replica') FROM clusterAllReplicas('{name}', system.one)") == [
            ("node1",)
        ]


def test_s3_cluster_reads_on_every_node(chs3_cluster, chs3_s3, chs3_bucket):
    for index in range(30):
        chs3_s3.client().put_object(Bucket=chs3_bucket, Key=f"in/{index}.csv", Body=b"1\n" * 1000)
    with chs3_cluster.nodes[0].client() as client:
        rows = client.execute(
            f"SELECT getMacro('replica'), count() FROM s3Cluster('{chs3_cluster.name}', chs3_s3, "
            f"filename = '{chs3_bucket}/in/*.csv', format = 'CSV', structure = 'a UInt8') GROUP BY 1 ORDER BY 1"
        )
    assert [name for name, _ in rows] == ["node1", "node2", "node3"]
    assert sum(count for _, count in rows) == 30_000


def test_http_answers_in_the_servers_default_format(chs3_cluster):
    node = chs3_cluster.nodes[0]
    request = urllib.request.Request(f"http://{node.host}:{node.http_port}/", data=b"SELECT 1, 'a b'")
    request.add_header("X-ClickHouse-User", node.credentials.login)
    request.add_header("X-ClickHouse-Key", node.credentials.password)
    assert urllib.request.urlopen(request).read() == b"1\ta b\n"


@pytest.mark.parametrize(
    ("login", "password", "code"),
    [
        pytest.param("loader", "wrong", 516, id="wrong password"),
        pytest.param("nobody", "", 516, id="unknown user"),
    ],
)
def test_a_stranger_is_refused(chs3_cluster, login, password, code):
    assert _error_code(chs3_cluster.nodes[0], "SELECT 1", user=login, password=password) == code


@pytest.mark.parametrize("statement", ["CREATE DATABASE x", "CREATE TABLE default.x (a Int8) ENGINE = Memory"])
def test_the_reader_may_only_read(chs3_cluster, statement):
    login = {"user": READER.login, "password": READER.password}
    assert _error_code(chs3_cluster.nodes[0], statement, **login) == 497


def test_the_session_that_keeps_a_node_up_is_of_no_use_to_clients(chs3_cluster):
    assert _error_code(chs3_cluster.nodes[0], "CREATE DATABASE x", user="default", password="") == 497


def test_query_log_and_part_log_are_on(chs3_cluster, chs3_database):
    with chs3_cluster.nodes[0].client() as client:
        client.execute(f"CREATE TABLE {chs3_database}.t ENGINE = MergeTree ORDER BY () AS SELECT 1 AS a")
        client.execute("SYSTEM FLUSH LOGS")
        parts = client.execute("SELECT count() FROM system.part_log WHERE database = %(name)s", {"name": chs3_database})
        queries = client.execute(
            "SELECT count() FROM system.query_log WHERE type = 'QueryFinish' AND has(databases, %(name)s)",
            {"name": chs3_database},
        )
    assert (parts, queries[0][0] > 0) == ([(1,)], True)


@pytest.mark.thorough
def test_a_killed_node_comes_back_with_its_data():
    with ClickHouseCluster.start(nodes=2) as cluster:
        with cluster.nodes[1].client() as client:
            client.execute("CREATE TABLE t ENGINE = MergeTree ORDER BY a AS SELECT number AS a FROM numbers(1000)")
        ports = cluster.nodes[1].tcp_port, cluster.nodes[1].http_port
        cluster.kill(1)
        cluster.restart(1)
        assert (cluster.nodes[1].tcp_port, cluster.nodes[1].http_port) == ports
        with cluster.nodes[1].client() as client:
            assert client.execute("SELECT count() FROM t") == [(1000,)]


@pytest.mark.thorough
def test_settings_named_collections_and_macros_reach_every_node():
    with ClickHouseCluster.start(
        nodes=2,
        named_collections={"somewhere": {"url": "http://127.0.0.1/", "secret_access_key": "a<b&c"}},
        server_settings={"max_server_memory_usage": 2 * 1024**3, "merge_tree": {"parts_to_throw_insert": 20}},
        user_settings={"max_memory_usage": 10**9},
        macros={"cores": 4},
    ) as cluster:
        for node in cluster.nodes:
            with node.client() as client:
                assert client.execute(
                    "SELECT (SELECT value FROM system.server_settings WHERE name = 'max_server_memory_usage'),"
                    " (SELECT value FROM system.merge_tree_settings WHERE name = 'parts_to_throw_insert'),"
                    " getSetting('max_memory_usage'), getMacro('cores'), (SELECT name FROM system.named_collections)"
                ) == [(str(2 * 1024**3), "20", 10**9, "4", "somewhere")]


def test_nothing_is_left_after_stop():
    with ClickHouseCluster.start(nodes=2) as cluster:
        nodes = list(cluster.nodes)
    assert [_is_running(node.pid) for node in nodes] == [False, False]
    assert [node.folder.exists() for node in nodes] == [False, False]


def test_nodes_die_with_a_killed_parent():
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            textwrap.dedent("""
                import threading
                from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
                cluster = ClickHouseCluster.start(nodes=1)
                print(cluster.nodes[0].pid, cluster.nodes[0].folder.parent, flush=True)
                threading.Event().wait()
            """),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    pid, folder = parent.stdout.readline().split()
    parent.kill()
    parent.communicate()
    wait_until(lambda: not _is_running(int(pid)))
    subprocess.run(["rm", "-r", folder], check=True)


@pytest.mark.thorough
def test_a_node_outlives_the_thread_that_restarted_it():
    import threading

    with ClickHouseCluster.start(nodes=1) as cluster:
        thread = threading.Thread(target=cluster.restart, args=[0])
        thread.start()
        thread.join()
        time.sleep(0.5)
        assert _is_running(cluster.nodes[0].pid)


def test_a_node_that_does_not_start_says_why():
    with pytest.raises(
        RuntimeError, match=r"node1 .*ended with exit code (?s:.*)end of .*engine\.log(?s:.*)no_such_setting"
    ):
        ClickHouseCluster.start(nodes=1, user_settings={"no_such_setting": 1})


def _error_code(node, statement, **login):
    from clickhouse_driver.errors import ServerException

    with node.client(**login) as client, pytest.raises(ServerException) as caught:
        client.execute(statement)
    return caught.value.code


def _is_running(pid):
    try:
        # A zombie has no command line.
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes()) and os.getpid() != pid
    except FileNotFoundError:
        return False


@pytest.mark.thorough
def test_each_node_may_have_a_time_zone_and_another_one_when_it_starts_again():
    with ClickHouseCluster.start(2, time_zones=["Europe/Berlin"]) as cluster:
        cluster.restart(1, time_zone="Asia/Tokyo")
        zones = [node.client().execute("SELECT serverTimezone()") for node in cluster.nodes]
    assert zones == [[("Europe/Berlin",)], [("Asia/Tokyo",)]]
