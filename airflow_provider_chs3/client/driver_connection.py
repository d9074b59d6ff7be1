"""The driver's connection, as this package uses it. Imported inside functions only, as `driver` is."""

from __future__ import annotations

import io
import logging
import select
import time
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import clickhouse_driver.errors as driver_errors  # noqa: TID253
from clickhouse_driver.connection import Connection as DriverConnection  # noqa: TID253
from clickhouse_driver.protocol import ServerPacketTypes  # noqa: TID253
from clickhouse_driver.reader import read_binary_bytes, read_binary_int32, read_binary_uint8  # noqa: TID253
from clickhouse_driver.settings.writer import SettingsFlags, write_settings  # noqa: TID253
from clickhouse_driver.writer import write_binary_str, write_binary_uint8  # noqa: TID253

from airflow_provider_chs3.client.rebound import rebound
from airflow_provider_chs3.client.variant import reads_variants
from airflow_provider_chs3.core.sql.complete_answers import NEWER, OF_FEW_ROWS

#: A connection that was used so recently is taken for alive, unless its end has come.
_ALIVE_SECONDS = 1.0
_OF_NEWER_SERVERS = NEWER.keys() | OF_FEW_ROWS.keys()


class _OneLine(logging.Filter):
    """One line for a host that does not answer, where the driver logs its stack."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and record.exc_info[1]:
            record.msg, record.args = f"{record.getMessage()}: {record.exc_info[1]}", ()
            record.exc_info = None
        return "socket shutdown" not in str(record.msg)


_log = logging.getLogger(__name__)
_log.addFilter(_OneLine())
# At DEBUG the driver logs every statement, with the keys that it may hold.
_log.setLevel(logging.INFO)


def write_settings_of_any_server(settings: Mapping[str, Any], buf: Any, settings_as_strings: bool, flags: int) -> None:
    """Write settings as the driver does, but so that a server ignores those that only newer ones know."""
    if not settings_as_strings:
        write_settings(settings, buf, settings_as_strings, flags)
        return
    buf.write(_as_bytes(tuple((name, str(value)) for name, value in settings.items()), flags))


@lru_cache(maxsize=32)
def _as_bytes(settings: tuple[tuple[str, str], ...], flags: int) -> bytes:
    """Return settings as they are sent: with a statement, all nodes get the same hundred."""
    buffer = io.BytesIO()
    for name, value in settings:
        write_binary_str(name, buffer)
        write_binary_uint8(flags & ~SettingsFlags.IMPORTANT if name in _OF_NEWER_SERVERS else flags, buffer)
        write_binary_str(value, buffer)
    write_binary_str("", buffer)
    return buffer.getvalue()


class Connection(DriverConnection):
    """The driver's connection, except for what the driver keeps to itself, mixes up, or cannot read.

    The server's counters are kept. Extremes, which a profile may ask for, are left out of results. An error may quote
    bytes that are no UTF-8. A server that froze takes connections and says nothing: it is given up when the time to
    connect is over. A server is asked whether it is still there only if the connection was idle for a second, or has
    something to read: between two statements a server sends nothing, so that is the connection's end.

    Attributes:
        counters: What the servers counted for its last statement, on all nodes together: event → number.
        deadline: When to give up a statement, by `time.monotonic()`, also if the server reports progress; None never.
        is_greeted: Whether the server that it last connected to has answered as ClickHouse does.
        answered_at: When a statement was last answered, by `time.monotonic()`.
        has_one_server: Whether it is given up when it breaks, because another one may lead to another server.
    """

    _connect = rebound(DriverConnection.connect, logger=_log)
    disconnect = rebound(DriverConnection.disconnect, logger=_log)
    force_connect = rebound(DriverConnection.force_connect, logger=_log)
    send_query = rebound(DriverConnection.send_query, logger=_log, write_settings=write_settings_of_any_server)
    _ask_whether_alive = rebound(DriverConnection.ping, logger=_log)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.counters: Counter[str] = Counter()
        self.deadline: float | None = None
        self.is_greeted = False
        self.answered_at = -_ALIVE_SECONDS
        self.has_one_server = False

    def connect(self) -> None:
        """Connect to the first host that works.

        Raises:
            NetworkError: If it has led to a server before, and another one may answer now.
        """
        if self.has_one_server and self.answered_at >= 0:
            raise driver_errors.NetworkError("the connection broke, and a new one may lead to another server")
        self.is_greeted = False
        self._connect()

    def ping(self) -> bool | None:
        """Check whether the server is there; None if the connection is not open."""
        is_recent = time.monotonic() - self.answered_at < _ALIVE_SECONDS
        if self.socket and is_recent and not self._has_something_to_read():
            return True
        is_there: bool | None = self._ask_whether_alive()
        return is_there

    def receive_hello(self) -> None:
        """Receive the server's greeting within the time to connect."""
        with self.timeout_setter(self.connect_timeout):
            super().receive_hello()
        self.is_greeted = True

    def receive_packet(self) -> Any:
        """Return the next packet but extremes; the driver drops those that have counters."""
        packet = self._receive_in_time()
        while packet.type == ServerPacketTypes.EXTREMES:
            packet = self._receive_in_time()
        if packet.type == ServerPacketTypes.PROFILE_EVENTS:
            names = [name for name, _ in packet.block.columns_with_types]
            for values in packet.block.get_rows():
                event = dict(zip(names, values, strict=True))
                # 0 stands for all threads of a query; a gauge, such as memory, does not add up.
                if event["type"] == "increment" and event["thread_id"] == 0:
                    self.counters[event["name"]] += event["value"]
        return packet

    def receive_exception(self) -> driver_errors.ServerException:
        """Return a server's error."""
        return _read_error(self.fin)

    def get_block_in_stream(self) -> Any:
        """Return what reads results, also those with a `Variant`."""
        return reads_variants(super().get_block_in_stream())

    def _receive_in_time(self) -> Any:
        if self.deadline is None:
            return super().receive_packet()
        left_seconds = self.deadline - time.monotonic()
        if left_seconds <= 0:
            raise driver_errors.SocketTimeoutError("({}:{})".format(*self.hosts[0]))
        with self.timeout_setter(min(left_seconds, self.send_receive_timeout)):
            return super().receive_packet()

    def _has_something_to_read(self) -> bool:
        waiting = select.poll()
        waiting.register(self.socket, select.POLLIN)
        return bool(waiting.poll(0))


def _read_error(buffer: Any) -> driver_errors.ServerException:
    """Read an error as the driver does, with U+FFFD for bytes that are not UTF-8, such as those of a file."""
    code = read_binary_int32(buffer)
    name, message, stack_trace = (read_binary_bytes(buffer).decode("utf-8", "replace") for _ in range(3))
    has_nested = read_binary_uint8(buffer)
    prefix = "" if name == "DB::Exception" else f"{name}. "
    text = f"{prefix}{message}. Stack trace:\n\n{stack_trace}"
    return driver_errors.ServerException(text, code, nested=_read_error(buffer) if has_nested else None)
