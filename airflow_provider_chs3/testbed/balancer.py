"""A TCP load balancer in front of a cluster, in threads of this process."""

from __future__ import annotations

import logging
import socket
import threading
from collections import deque
from contextlib import suppress
from typing import Any

from airflow_provider_chs3.testbed.nodes import Cluster
from airflow_provider_chs3.testbed.processes import HOST, Stoppable

_LOG = logging.getLogger(__name__)


class Door(Stoppable):
    """A port whose connections lead to one of several addresses, each to the next.

    Args:
        *addresses: Host and port; those that refuse a connection are passed over, as after a health check.

    Attributes:
        port: The port, on 127.0.0.1.
        is_sticky: Whether each connection leads to the same address.
    """

    def __init__(self, *addresses: tuple[str, int]) -> None:
        self.is_sticky = False
        self._addresses = deque(addresses)
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        self._is_stopped = False
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Hang up on all clients and servers."""
        with self._lock:
            connected, self._open = self._open, []
        hang_up(*connected)

    def stop(self) -> None:
        """Stop listening, and hang up."""
        self._is_stopped = True
        hang_up(self._listener)
        self.cut()

    def _accept(self) -> None:
        while not self._is_stopped:
            try:
                self._lead(self._listener.accept()[0])
            except OSError as error:
                if not self._is_stopped:
                    # As a text: its traceback would keep the connection open.
                    _LOG.warning("A connection led nowhere: %s", str(error))

    def _lead(self, client: socket.socket) -> None:
        server = self._connect()
        if server is None:
            client.close()
            return
        for peer in (client, server):
            # A small packet would wait 40 ms for the answer to the one before.
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            self._open += client, server
        threading.Thread(target=copy, args=(client, server), daemon=True).start()
        threading.Thread(target=self._answer, args=(server, client), daemon=True).start()
        if self._is_stopped:
            self.cut()

    def _connect(self) -> socket.socket | None:
        """Return a connection to the next server that takes one; None if none does."""
        for _ in range(len(self._addresses)):
            if not self.is_sticky:
                self._addresses.rotate(-1)
            with suppress(OSError):
                return socket.create_connection(self._addresses[0])
            if self.is_sticky:
                self._addresses.rotate(-1)
        return None

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        copy(server, client)


class LoadBalancer(Stoppable):
    """A TCP load balancer in front of a cluster: `start` it, and `stop` it or use it in a `with` block.

    Each connection leads to the next node; nodes that are down are passed over.

    Attributes:
        tcp_port: Port of the native protocol.
        http_port: Port of HTTP.
    """

    def __init__(self, cluster: Cluster) -> None:
        """Listen on free ports. Use `start` instead."""
        self._cluster = cluster
        self._native = Door(*((node.host, node.tcp_port) for node in cluster.nodes))
        self._http = Door(*((node.host, node.http_port) for node in cluster.nodes))
        self.tcp_port, self.http_port = self._native.port, self._http.port

    @classmethod
    def start(cls, cluster: Cluster) -> LoadBalancer:
        """Start a balancer.

        Args:
            cluster: The servers behind it.
        """
        return cls(cluster)

    def stick(self, *, is_sticky: bool = True) -> None:
        """Lead each connection to the same node from now on, or to the next one again.

        Args:
            is_sticky: Whether to the same node; True by default.
        """
        self._native.is_sticky = self._http.is_sticky = is_sticky

    def cut(self, *, after_seconds: float = 0) -> None:
        """Break all connections that are open; new ones work.

        Args:
            after_seconds: When, in seconds from now; by default at once.
        """
        if after_seconds:
            timer = threading.Timer(after_seconds, self.cut)
            timer.daemon = True
            timer.start()
            return
        self._native.cut()
        self._http.cut()

    def stop(self) -> None:
        """Stop listening, and break all connections."""
        self._native.stop()
        self._http.stop()

    def airflow_connection(self) -> dict[str, Any]:
        """Return an Airflow connection through this one door, ready to be the JSON of `AIRFLOW_CONN_CHS3_DEFAULT`."""
        connection = self._cluster.airflow_connection()
        extra = {**connection["extra"], "http_port": self.http_port, "one_door": True}
        return {**connection, "host": HOST, "port": self.tcp_port, "extra": extra}


def copy(source: socket.socket, to: socket.socket) -> None:
    """Pass on bytes until one of two sockets ends; then end both."""
    with suppress(OSError):
        while data := source.recv(65536):
            to.sendall(data)
    hang_up(source, to)


def hang_up(*sockets: socket.socket) -> None:
    """End connections: closing alone would wake no thread that waits for bytes, and tell the other side nothing."""
    for peer in sockets:
        with suppress(OSError):
            peer.shutdown(socket.SHUT_RDWR)
        peer.close()
