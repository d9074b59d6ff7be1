"""Connections through an address that leads to any server of a cluster, as a load balancer does.

A statement for a node needs a connection that happens to lead there. Which node a server is, the server says itself
(`is_local` in `system.clusters`), under whatever names the nodes know each other. So connections are opened until one
leads to the node; the others are kept for theirs. A connection never changes its server: a broken one is given up,
where the driver would open another, which may lead elsewhere.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

from airflow_provider_chs3.client.connection import Address, ConnectionOptions
from airflow_provider_chs3.client.open_connections import OpenConnections
from airflow_provider_chs3.client.server import Server
from airflow_provider_chs3.core.sql.complete_answers import READABLE
from airflow_provider_chs3.exceptions import ClickHouseConnectionError, TransientError

if TYPE_CHECKING:
    from airflow_provider_chs3.client.driver import Client

#: Connections that a search opens for each node of the cluster: if each leads to any server by chance, all of them miss
#: one in one of a million searches. In turn, each node is met once in as many as there are nodes.
_TRIES_PER_NODE = 14
#: Connections that may fail before any has led to a server.
_FIRST_TRIES = 3
#: How long the first answer may take: a service that sleeps, as on ClickHouse Cloud, wakes within a minute or two.
_WAKING_SECONDS = 120
#: A connection that fails sooner was refused.
_SHARE_OF_TIMEOUT = 0.9
#: A search ends after so many times the time to connect: a frozen server takes all of it, each time.
_LONGEST_SEARCH_CONNECTS = 3
#: Idle connections that are kept for each server.
_KEPT_CONNECTIONS = 8

_LOG = logging.getLogger(__name__)

_WHO_ARE_YOU = "SELECT toString(serverUUID()), groupArray((cluster, host_name, port, is_local)) FROM system.clusters"


class DoorConnections(OpenConnections):
    """Connections that wait for the next statement, by the server that they lead to. Threads may share them."""

    def __init__(self, options: ConnectionOptions, log_comment: str) -> None:
        super().__init__(options)
        self._log_comment = log_comment
        # One search at a time: it may find what another one is after.
        self._searching = threading.Lock()
        self._server_of_node: dict[Address, tuple[str, str]] = {}
        self._known_alone: set[Address] = set()
        self._node_count = 0
        self._is_awake = False

    def take(self, address: Address | None) -> Client:
        """Return a connection to a node, idle or new."""
        if client := self._idle_to(address):
            return client
        with self._searching:
            return self._idle_to(address) or self._search(address)

    def keep(self, client: Client, address: Address | None) -> None:
        """Keep a connection for the next statement to its server."""
        self._keep(client, client.server, _KEPT_CONNECTIONS)

    def _idle_to(self, address: Address | None) -> Client | None:
        """Return an idle connection that still works, or None."""
        while client := self._idle_client(address):
            if client.is_alive():
                return client
            client.disconnect()
        return None

    def _idle_client(self, address: Address | None) -> Client | None:
        with self._lock:
            for server, idle in self._idle.items():
                if idle and isinstance(server, Server) and (address is None or address in server.nodes):
                    return idle.pop()
        return None

    def _search(self, address: Address | None) -> Client:
        met: Counter[str] = Counter()
        latest: ClickHouseConnectionError | None = None
        began, tries = time.monotonic(), 0
        while tries < max(_FIRST_TRIES, _TRIES_PER_NODE * self._node_count):
            tries += 1
            try:
                client = self._open_awake(address)
            except ClickHouseConnectionError as error:
                latest = error
            else:
                server = client.server
                assert server is not None  # it was asked
                if address is None:
                    return client
                if address in server.nodes:
                    self._check_others(address, server)
                    return client
                met[server.name if server.nodes else f"{server.name} (no is_local in its system.clusters)"] += 1
                self.keep(client, address)
            if time.monotonic() - began > _LONGEST_SEARCH_CONNECTS * self.options.connect_timeout_seconds:
                break
        if latest and not self._is_awake:
            raise latest
        raise self._not_met(address, met, tries, latest)

    def _open_awake(self, address: Address | None) -> Client:
        """Open a connection; before the first answer, as often as the service takes to wake."""
        began = tried = time.monotonic()
        while True:
            try:
                return self._open(address)
            except ClickHouseConnectionError:
                seconds, tried = time.monotonic() - tried, time.monotonic()
                is_silent = seconds > _SHARE_OF_TIMEOUT * self.options.connect_timeout_seconds
                if self._is_awake or not is_silent or tried - began > _WAKING_SECONDS:
                    raise
                host, port = self.options.hosts[0]
                _LOG.info(
                    "%s:%s is silent for %.0f s: waiting for the service to answer, as it may be waking (up to %s s).",
                    host,
                    port,
                    tried - began,
                    _WAKING_SECONDS,
                )

    def _open(self, address: Address | None) -> Client:
        """Open a connection, and ask the server which node it is."""
        from airflow_provider_chs3.client.driver import open_client
        from airflow_provider_chs3.client.server_errors import translated_errors

        client = open_client(self.options)
        # Connections to look at the address would take turns of a load balancer, so that searches met the same servers.
        with translated_errors(client, is_address_right=self._is_awake):
            settings = {**READABLE, "log_comment": self._log_comment}
            client.connection.deadline = time.monotonic() + self.options.connect_timeout_seconds
            ((uuid, rows),) = client.execute(_WHO_ARE_YOU, settings=settings)
            client.connection.deadline = None
            self._is_awake = True
            clusters: dict[str, set[Address]] = {}
            for cluster, host, port, _ in rows:
                clusters.setdefault(cluster, set()).add((host, port))
            server = client.server = Server(
                name=client.connection.server_info.display_name,
                uuid=uuid,
                nodes=frozenset((host, port) for _, host, port, is_local in rows if is_local),
                clusters=tuple(map(frozenset, clusters.values())),
            )
        self._node_count = max(self._node_count, server.nodes_beside(address))
        self._check_is_only_one(address, server)
        return client

    def _check_is_only_one(self, address: Address | None, server: Server) -> None:
        """Check that no other server has said that it is one of the nodes."""
        if address in server.nodes and address is not None:
            self._server_of_node.setdefault(address, (server.name, server.uuid))
        for node, (name, uuid) in self._server_of_node.items():
            if node in server.nodes and (name, uuid) != (server.name, server.uuid):
                del self._server_of_node[node]
                raise TransientError(
                    f"Two servers, {name} and {server.name}, say that they are node {node[0]}:{node[1]} (is_local in "
                    "system.clusters). If one took the other's place, retry; else set each node's own name in the "
                    "definition of the cluster (localhost is every server to itself)."
                )

    def _check_others(self, address: Address, server: Server) -> None:
        """Check, where a cluster has one node, that other servers behind the door say that they are not that node.

        The search for the nodes of a larger cluster meets others anyway.
        """
        if server.nodes_beside(address) > 1 or address in self._known_alone:
            return
        for _ in range(_TRIES_PER_NODE):
            other = self._open(address)
            self.keep(other, None)
            if other.server != server:
                break
        self._known_alone.add(address)

    def _not_met(
        self, address: Address | None, met: Counter[str], tries: int, latest: ClickHouseConnectionError | None
    ) -> ClickHouseConnectionError:
        host, port = address or self.options.hosts[0]
        led = [f"{times} to {name}" for name, times in met.most_common()]
        led += [f"{tries - met.total()} to a server that did not answer ({latest.message})"] if latest else []
        return ClickHouseConnectionError(
            f"none of {tries} connections led to this node: {', '.join(led)}. It is down, or the load balancer is "
            "sticky or leaves it out: have it choose a server for each connection, or replace the connection's "
            "'one_door' by 'node_addresses'",
            f"{host}:{port}",
        )
