"""Spare the round trip with which the driver asks, before each statement, whether a server is still there."""

from __future__ import annotations

import select
import socket
import time
from typing import Any

#: A connection that was used so recently is taken for alive, unless its end has come.
_ALIVE_SECONDS = 1.0


class SparingPing:
    """A ping that asks the server only if the connection was idle for a second, or has something to read.

    Between two statements a server sends nothing, so that something to read is the connection's end: the server died,
    or closed it.

    Args:
        connection: The driver's connection, whose own ping asks.
    """

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._ask = connection.ping
        self._answered_at = -_ALIVE_SECONDS

    def note_answer(self) -> None:
        """Note that the server has just answered a statement."""
        self._answered_at = time.monotonic()

    def __call__(self) -> bool | None:
        """Say whether the server is there; None if the connection is not open."""
        connected = self._connection.socket
        is_recent = time.monotonic() - self._answered_at < _ALIVE_SECONDS
        if connected and is_recent and not _has_something(connected):
            return True
        is_there: bool | None = self._ask()
        return is_there


def _has_something(connected: socket.socket) -> bool:
    waiting = select.poll()
    waiting.register(connected, select.POLLIN)
    return bool(waiting.poll(0))
