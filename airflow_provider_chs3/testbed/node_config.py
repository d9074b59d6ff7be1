"""The configuration files of a local cluster's nodes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from airflow_provider_chs3.testbed.nodes import CLUSTER, LOADER, READER, SINGLE_NODE_CLUSTER, RunningNode, User
from airflow_provider_chs3.testbed.processes import HOST, free_ports

#: After this, Keeper considers a killed server gone; the servers' default is 30 seconds.
_KEEPER_SESSION_TIMEOUT_MS = 10_000


@dataclass(frozen=True)
class Options:
    """The options of a test, for all nodes; see `ClickHouseCluster.start`."""

    named_collections: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    server_settings: Mapping[str, Any] = field(default_factory=dict)
    user_settings: Mapping[str, Any] = field(default_factory=dict)
    macros: Mapping[str, Any] = field(default_factory=dict)
    users: Mapping[User, Sequence[str]] = field(default_factory=dict)
    profiles: Mapping[User, Mapping[str, Any]] = field(default_factory=dict)
    clusters: Mapping[str, User] = field(default_factory=dict)
    secret: str = field(default="", repr=False)
    loader: User = LOADER
    replicas: int = 1
    keeper_port: int | None = None
    replicated_databases: bool = False


def describe(nodes: int, folder: Path, loader: User = LOADER) -> list[RunningNode]:
    """Return nodes that do not run yet, each with free ports of this machine and a folder."""
    ports = free_ports(2 * nodes)
    names = [f"node{number}" for number in range(1, nodes + 1)]
    pairs = zip(ports[:nodes], ports[nodes:], strict=True)
    named = zip(names, pairs, strict=True)
    return [RunningNode(name, HOST, *pair, credentials=loader, folder=folder / name) for name, pair in named]


def write(nodes: Sequence[RunningNode], *, options: Options) -> None:
    """Write the configuration of every node into its folder."""
    replication = _replication(nodes, options) if options.replicas > 1 or options.keeper_port else {}
    for node in nodes:
        assert node.folder is not None
        # clickhouse-local looks for its configuration here, with the folder as its $HOME.
        config_folder = node.folder / ".clickhouse-local"
        config_folder.mkdir(parents=True, exist_ok=True)
        users_file = node.folder / "users.xml"
        users_file.write_text(to_xml(_users(options)), encoding="utf-8")
        server = _server(node, nodes, options=options, folder=node.folder) | replication.get(node, {})
        (config_folder / "config.xml").write_text(to_xml(server), encoding="utf-8")


def _server(node: RunningNode, nodes: Sequence[RunningNode], *, options: Options, folder: Path) -> dict[str, Any]:
    return {
        "path": folder / "data",
        # The default folders belong to root.
        "tmp_path": folder / "tmp",
        "user_files_path": folder / "user_files",
        "format_schema_path": folder / "format_schemas",
        "listen_host": node.host,
        "tcp_port": node.tcp_port,
        "http_port": node.http_port,
        # By default the machine's name, which all nodes share.
        "display_name": node.name,
        "log-level": "information",
        # Written by whom it is of: a thread for it would wake up all the time.
        "logger": {"log": folder / "clickhouse.log", "size": "100M", "count": 1, "async": "false"},
        "remote_servers": {
            CLUSTER: _cluster(nodes, options),
            SINGLE_NODE_CLUSTER: _cluster(nodes[:1], options),
            **{name: _cluster(nodes, options, user) for name, user in options.clusters.items()},
        },
        "macros": {"shard": f"{nodes.index(node) // options.replicas + 1:02}", "replica": node.name, **options.macros},
        "named_collections": options.named_collections,
        "query_log": {"database": "system", "table": "query_log", "flush_interval_milliseconds": 1000},
        # At the default interval: each write is a part, which it logs in turn, so that it never rests.
        "part_log": {"database": "system", "table": "part_log"},
        # The servers' defaults are for large machines; here, several nodes share one.
        "mark_cache_size": 64 * 1024**2,
        # Servers have 512 by default, chDB 2: two tasks that wait for each other then stop the queues of all replicas.
        "background_schedule_pool_size": 16,
        # Each of sixteen threads would wake a hundred times a second, and this one twenty times.
        "async_insert_threads": 1,
        "memory_worker_period_ms": 1000,
        "asynchronous_metrics_update_period_s": 60,
        "user_directories": {"users_xml": {"path": folder / "users.xml"}},
        **options.server_settings,
    }


def _users(options: Options) -> dict[str, Any]:
    users = {
        # The session that keeps a node up runs as `default` without a password: it may do only that.
        "default": {
            "password": "",
            **_common(),
            "grants": {"query": ["GRANT SYSTEM LISTEN ON *.*", "GRANT SELECT ON system.numbers"]},
        },
        options.loader.login: {**_user(options.loader), "named_collection_control": 1},
        READER.login: {**_user(READER), "grants": {"query": "GRANT SELECT ON *.*"}},
    }
    for credentials, privileges in options.users.items():
        grants = {"query": [f"GRANT {privilege}" for privilege in privileges]}
        users[credentials.login] = {**_user(credentials), "grants": grants}
    profiles: dict[str, Any] = {"default": options.user_settings}
    for credentials, settings in options.profiles.items():
        profiles[credentials.login] = settings
        users[credentials.login] = {
            **_user(credentials),
            "profile": credentials.login,
            "named_collection_control": 1,
        }
    return {"profiles": profiles, "users": users, "quotas": {"default": {}}}


def _user(credentials: User) -> dict[str, Any]:
    digest = hashlib.sha256(credentials.password.encode()).hexdigest()
    return {"password_sha256_hex": digest, **_common()}


def _common() -> dict[str, Any]:
    return {"profile": "default", "quota": "default", "networks": {"ip": "::/0"}}


def _cluster(nodes: Sequence[RunningNode], options: Options, user: User | None = None) -> dict[str, Any]:
    """Return the cluster's definition; with a user, nodes query each other as that user instead of with the secret."""
    secret = {"secret": options.secret} if options.secret and not user else {}
    shards = [nodes[first : first + options.replicas] for first in range(0, len(nodes), options.replicas)]
    return {**secret, "shard": [_shard(replicas, user or options.loader) for replicas in shards]}


def _shard(nodes: Sequence[RunningNode], user: User) -> dict[str, Any]:
    login = {"user": user.login, "password": user.password}
    replicas = [{"host": node.host, "port": node.tcp_port, **login} for node in nodes]
    return {"internal_replication": "true", "replica": replicas}


def _replication(nodes: Sequence[RunningNode], options: Options) -> dict[RunningNode, dict[str, Any]]:
    """Return the settings that replicated nodes add: a port for other replicas; Keeper in the first if none runs."""
    own_keeper_port, raft_port, *interserver_ports = free_ports(2 + len(nodes))
    first, keeper_port = nodes[0], options.keeper_port
    # So that the same statement creates a table on each node; a database of engine Replicated needs no help.
    path = (
        {}
        if options.replicated_databases
        else {"default_replica_path": "/clickhouse/tables/{database}/{table}/{shard}"}
    )
    keeper = {
        "tcp_port": own_keeper_port,
        "server_id": 1,
        "enable_ipv6": "false",
        "log_storage_path": f"{first.folder}/keeper/log",
        "snapshot_storage_path": f"{first.folder}/keeper/snapshots",
        "raft_configuration": {"server": {"id": 1, "hostname": first.host, "port": raft_port}},
    }
    zookeeper = {
        "node": {"host": first.host, "port": keeper_port or own_keeper_port},
        "session_timeout_ms": _KEEPER_SESSION_TIMEOUT_MS,
    }
    return {
        node: {
            "zookeeper": zookeeper,
            "interserver_http_host": node.host,
            "interserver_http_port": port,
            "distributed_ddl": {"path": "/clickhouse/task_queue/ddl"},
            **path,
            **({"keeper_server": keeper} if node == first and not keeper_port else {}),
        }
        for node, port in zip(nodes, interserver_ports, strict=True)
    }


def to_xml(settings: Mapping[str, Any], *, root: str = "clickhouse") -> str:
    """Return settings as a configuration file."""
    element = ElementTree.Element(root)
    _fill(element, settings)
    ElementTree.indent(element)
    return ElementTree.tostring(element, encoding="unicode")


def _fill(element: ElementTree.Element, value: Any) -> None:
    if not isinstance(value, Mapping):
        element.text = str(value)
        return
    for key, child in value.items():
        for item in child if isinstance(child, list) else [child]:
            _fill(ElementTree.SubElement(element, key), item)
