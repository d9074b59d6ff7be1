"""A real replicated cluster of 2018: ClickHouse 18.16 and ZooKeeper as Debian packs them, two shards of two replicas.

It is far below the lowest supported version: replicas that lag, stall or lose their Keeper are shown on it. Whole loads
run on servers of today, in `tests/servers`.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from clickhouse_driver import Client

from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.testbed.node_config import to_xml
from airflow_provider_chs3.testbed.processes import HOST, free_ports, is_listening, kill, wait_until
from airflow_provider_chs3.testbed.programs import keeper
from airflow_provider_chs3.testbed.programs.keeper import Keeper

_START_TIMEOUT_SECONDS = 180
_PR_SET_PDEATHSIG = 1


def missing() -> str:
    """Why the cluster cannot run here; empty where it can."""
    return keeper.missing() or ("" if _program("clickhouse-server") else "needs Debian's package clickhouse-server")


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@contextmanager
def debian_cluster() -> Iterator[dict[Node, Client]]:
    """Run the cluster `c` as processes of this user, in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="chs3-debian-", ignore_cleanup_errors=True) as folder, ExitStack() as stack:
        zookeeper_port, *ports = free_ports(13)
        nodes = [Node(shard, replica, HOST, ports.pop()) for shard in (1, 2) for replica in (1, 2)]
        stack.enter_context(Keeper(Path(folder) / "zookeeper", zookeeper_port))
        for node in nodes:
            described = config(node, nodes, zookeeper_port=zookeeper_port, ports=(ports.pop(), ports.pop()))
            stack.enter_context(clickhouse(Path(folder) / f"node{node.shard_num}{node.replica_num}", node, described))
        yield {node: stack.enter_context(Client(node.host, port=node.port)) for node in nodes}


@contextmanager
def clickhouse(folder: Path, node: Node, config: dict[str, Any]) -> Iterator[None]:
    """Run one server; its data goes into a folder that it makes."""
    folder.mkdir()
    users = {
        "profiles": {"default": {"load_balancing": "in_order"}},
        "users": {
            "default": {"password": "", "networks": {"ip": "127.0.0.1"}, "profile": "default", "quota": "default"}
        },
        "quotas": {"default": {}},
    }
    paths = {"path": f"{folder}/data/", "tmp_path": f"{folder}/tmp/", "users_config": folder / "users.xml"}
    logger = {"level": "information", "log": folder / "log", "errorlog": folder / "errors"}
    (folder / "config.xml").write_text(to_xml({**config, **paths, "logger": logger}, root="yandex"))
    (folder / "users.xml").write_text(to_xml(users, root="yandex"))
    command = [str(_program("clickhouse-server")), f"--config-file={folder}/config.xml"]
    with _process(command, folder / "output") as process:
        wait_until(
            lambda: is_listening(node.port),
            process=process,
            name=f"ClickHouse {node}",
            logs=[folder / "output", folder / "errors"],
            timeout_seconds=_START_TIMEOUT_SECONDS,
        )
        yield


def config(node: Node, nodes: list[Node], *, zookeeper_port: int, ports: tuple[int, int]) -> dict[str, Any]:
    """Return the configuration of a server of the cluster `c`; its ports are those for HTTP and for other replicas."""
    http_port, interserver_port = ports
    shards = [
        {
            "internal_replication": "true",
            "replica": [{"host": each.host, "port": each.port} for each in nodes if each.shard_num == shard],
        }
        for shard in (1, 2)
    ]
    return {
        "listen_host": node.host,
        "tcp_port": node.port,
        "http_port": http_port,
        "interserver_http_port": interserver_port,
        "interserver_http_host": node.host,
        "mark_cache_size": 64 * 1024**2,
        "default_profile": "default",
        "default_database": "default",
        "remote_servers": {"c": {"shard": shards}},
        "zookeeper": {"node": {"host": HOST, "port": zookeeper_port}, "session_timeout_ms": 10_000},
        "macros": {"shard": f"{node.shard_num:02}", "replica": f"replica{node.replica_num}"},
        "distributed_ddl": {"path": "/clickhouse/task_queue/ddl"},
    }


@contextmanager
def _process(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )
    try:
        yield process
    finally:
        kill(process)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
