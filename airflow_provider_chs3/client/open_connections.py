"""Connections to servers that stay open for the next statement."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow_provider_chs3.client.connection import Address, ConnectionOptions

if TYPE_CHECKING:
    from airflow_provider_chs3.client.driver import Client


class OpenConnections:
    """Connections that wait for the next statement, by the address that they were opened for. Threads may share them.

    A connection is used by one statement at a time, and closed if the statement fails. The driver pings an idle one
    before use, and reconnects if it no longer works. So a node has as many connections as it had statements at the same
    time.
    """

    def __init__(self, options: ConnectionOptions) -> None:
        self.options = options
        self._idle: defaultdict[Hashable, list[Client]] = defaultdict(list)
        self._lock = threading.Lock()
        self._closed = False

    @contextmanager
    def borrowed(self, address: Address | None) -> Iterator[Client]:
        """Lend a connection for one statement.

        Yields:
            The connection, which is kept, unless the statement fails.
        """
        client = self.take(address)
        try:
            yield client
        except BaseException:
            client.disconnect()
            raise
        self.keep(client, address)

    def take(self, address: Address | None) -> Client:
        """Return a connection that is idle, or a new one."""
        from airflow_provider_chs3.client.driver import open_client

        with self._lock:
            idle = self._idle[address]
            return idle.pop() if idle else open_client(self.options, address=address)

    def keep(self, client: Client, address: Address | None) -> None:
        """Keep a connection for the next statement."""
        self._keep(client, address)

    def close(self) -> None:
        """Close all connections: idle ones now, those in use when their statement ends."""
        with self._lock:
            self._closed = True
            idle = [client for clients in self._idle.values() for client in clients]
            self._idle.clear()
        for client in idle:
            client.disconnect()

    def _keep(self, client: Client, key: Hashable, at_most: float = float("inf")) -> None:
        with self._lock:
            if not self._closed and len(self._idle[key]) < at_most:
                self._idle[key].append(client)
                return
        client.disconnect()
