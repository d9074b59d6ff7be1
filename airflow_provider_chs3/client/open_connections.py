"""Connections to servers that stay open for the next statement, and statements that wait for their turn."""

from __future__ import annotations

import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from airflow_provider_chs3.client.connection import Address, ConnectionOptions
from airflow_provider_chs3.core.model.error_codes import TOO_MANY_QUERIES
from airflow_provider_chs3.exceptions import ClickHouseServerError

if TYPE_CHECKING:
    from airflow_provider_chs3.client.driver import Client

T = TypeVar("T")


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
        """Lend a connection for one statement; it is kept, unless the statement fails."""
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


#: Seconds between two tries: a load's own concurrent statements take less than the sum.
_WAITS_SECONDS = (0.05, 0.1, 0.2, 0.4, *(0.8,) * 15)

_READS = re.compile(r"\s*(SELECT|DESCRIBE)\b", re.IGNORECASE)


def in_turn(run: Callable[[], T], sql: str) -> T:
    """Run a statement; if it is refused, retry for some 13 s.

    The initiating node refuses a statement before it starts. If another node refused its part, the rest may have run,
    so only reading statements are retried.
    """
    for seconds in _WAITS_SECONDS:
        try:
            return run()
        except ClickHouseServerError as error:
            is_whole = "Received from" not in error.message or _READS.match(sql)
            if error.code != TOO_MANY_QUERIES or not is_whole:
                raise
        time.sleep(seconds)
    return run()
