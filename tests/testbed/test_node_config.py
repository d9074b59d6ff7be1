"""The configuration of clusters whose shards have replicas; only containers can run them."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from airflow_provider_chs3.testbed import node_config


def written(folder: Path, *, replicas: int) -> list[ElementTree.Element]:
    nodes = node_config.describe(4, folder)
    node_config.write(nodes, options=node_config.Options(replicas=replicas))
    return [ElementTree.parse(f"{node.folder}/.clickhouse-local/config.xml").getroot() for node in nodes]


def test_the_replicas_of_a_shard_follow_each_other(tmp_path: Path) -> None:
    roots = written(tmp_path, replicas=2)
    shards = roots[0].findall("remote_servers/chs3/shard")
    assert [len(shard.findall("replica")) for shard in shards] == [2, 2]
    assert [root.findtext("macros/shard") for root in roots] == ["01", "01", "02", "02"]


def test_keeper_runs_in_the_first_node_and_all_go_there(tmp_path: Path) -> None:
    roots = written(tmp_path, replicas=2)
    port = roots[0].findtext("keeper_server/tcp_port")
    assert [root.findtext("zookeeper/node/port") for root in roots] == [port] * 4
    assert [root.find("keeper_server") is not None for root in roots] == [True, False, False, False]


def test_without_replicas_there_is_no_keeper(tmp_path: Path) -> None:
    roots = written(tmp_path, replicas=1)
    assert [root.find("zookeeper") for root in roots] == [None] * 4
    assert len(roots[0].findall("remote_servers/chs3/shard")) == 4
