"""ClickHouse nodes for tests, however they were started."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clickhouse_driver import Client


@dataclass(frozen=True)
class User:
    """A user's name and password."""

    login: str
    password: str = field(repr=False)


#: Tests break what forgets to quote. People who only look around get a password that they can type.
LOADER = User("loader", "l'o%40@d/\"e\\r:?#&")
PLAIN_LOADER = User("loader", "loader")
READER = User("reader", "re@der/%s")


CLUSTER = "chs3"
SINGLE_NODE_CLUSTER = "chs3_single"
#: The variable with the default program of local nodes: `engine` or `server`.
PROGRAM_VARIABLE = "CHS3_CLICKHOUSE_PROGRAM"


@dataclass(frozen=True)
class RunningNode:
    """One running node.

    Attributes:
        name: `node1`, `node2`, …; in a local cluster also its `replica` macro.
        host: Its address.
        tcp_port: Port of the native protocol.
        http_port: Port of the HTTP protocol.
        credentials: The user of `client()`; the loader by default.
        folder: Its home (`data`, `.clickhouse-local/config.xml`, logs); None if the test bed runs no process for it.
        pid: Its process id, which a restart changes; None if the test bed runs no process for it.
    """

    name: str
    host: str
    tcp_port: int
    http_port: int
    credentials: User = LOADER
    folder: Path | None = None
    pid: int | None = None

    def client(self, **options: Any) -> Client:
        """Return a clickhouse-driver client of this node, which connects with its first query.

        Args:
            **options: Further arguments of `clickhouse_driver.Client`, such as `database`; they take precedence.

        Returns:
            The client. The caller must close it: call `disconnect()`, or use a `with` block.
        """
        from clickhouse_driver import Client

        login = {"user": self.credentials.login, "password": self.credentials.password}
        return Client(self.host, port=self.tcp_port, **{**login, **options})


class Cluster:
    """Nodes that form one cluster, each a shard."""

    #: Name of a second cluster with only the first node.
    single_node_name = SINGLE_NODE_CLUSTER
    #: The engine of new databases, with all clauses; empty for the servers' default.
    database_engine = ""

    def __init__(self, nodes: Sequence[RunningNode], *, name: str = CLUSTER) -> None:
        """Describe running nodes."""
        self.nodes = list(nodes)
        self.name = name

    def airflow_connection(self) -> dict[str, Any]:
        """Return the cluster as an Airflow connection, ready to be the JSON of `AIRFLOW_CONN_CHS3_DEFAULT`."""
        first = self.nodes[0]
        return {
            "conn_type": "chs3",
            "host": first.host,
            "port": first.tcp_port,
            "login": first.credentials.login,
            "password": first.credentials.password,
            "schema": "default",
            "extra": {"cluster": self.name, "http_port": first.http_port},
        }
