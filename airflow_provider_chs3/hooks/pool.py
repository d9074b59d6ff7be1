"""A hook that keeps its connections open, for repeated queries to the same servers."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
from airflow_provider_chs3.hooks.connection import Address

if TYPE_CHECKING:
    from airflow_provider_chs3.hooks.native.driver import Client


class PooledClickHouseHook(ClickHouseHook):
    """A `ClickHouseHook` whose `query` leaves connections open for the next one. Threads may share it.

    A connection is used by one statement at a time, and closed if the statement fails. The driver pings an idle one
    before use, and reconnects if it no longer works. So a node has as many connections as it had statements at the same
    time.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._idle: defaultdict[Address | None, list[Client]] = defaultdict(list)
        self._lock = threading.Lock()
        self._closed = False

    def close(self) -> None:
        """Close all connections: idle ones now, those in use when their statement ends."""
        with self._lock:
            self._closed = True
            idle = [client for clients in self._idle.values() for client in clients]
            self._idle.clear()
        for client in idle:
            client.disconnect()

    @contextmanager
    def _connected(self, address: Address | None, send_receive_timeout_seconds: float | None) -> Iterator[Client]:
        if send_receive_timeout_seconds is not None:
            with super()._connected(address, send_receive_timeout_seconds) as client:
                yield client
            return
        with self._lock:
            idle = self._idle[address]
            client = idle.pop() if idle else self.client(address=address)
        try:
            yield client
        except BaseException:
            client.disconnect()
            raise
        with self._lock:
            if not self._closed:
                self._idle[address].append(client)
                return
        client.disconnect()
