"""The driver's client. Imported inside functions only: Airflow must parse DAGs without the driver."""

from __future__ import annotations

import io
import logging
import select
import time
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from types import FunctionType, MethodType
from typing import Any

import clickhouse_driver  # noqa: TID253
import clickhouse_driver.errors as driver_errors  # noqa: TID253
from clickhouse_driver.columns import service  # noqa: TID253
from clickhouse_driver.columns.base import Column  # noqa: TID253
from clickhouse_driver.columns.util import get_inner_columns, get_inner_spec  # noqa: TID253
from clickhouse_driver.connection import Connection as DriverConnection  # noqa: TID253
from clickhouse_driver.protocol import ServerPacketTypes  # noqa: TID253
from clickhouse_driver.reader import (  # noqa: TID253
    read_binary_bytes,
    read_binary_int32,
    read_binary_uint8,
    read_binary_uint64,
)
from clickhouse_driver.settings.writer import SettingsFlags, write_settings  # noqa: TID253
from clickhouse_driver.streams.native import BlockInputStream  # noqa: TID253
from clickhouse_driver.writer import write_binary_str, write_binary_uint8  # noqa: TID253

from airflow_provider_chs3.client.connection import Address, ConnectionOptions, client_name
from airflow_provider_chs3.client.inserted_rows import misfits_named
from airflow_provider_chs3.client.server import Server
from airflow_provider_chs3.client.server_errors import address_in_use
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


def rebound(function: Any, **names: Any) -> Any:
    """Return a function that finds other things under some names of its module; for all others it stays as it is."""
    known = {**function.__globals__, **names}
    return FunctionType(function.__code__, known, function.__name__, function.__defaults__, function.__closure__)


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
        """Connect to the first host that works."""
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
        stream = super().get_block_in_stream()
        stream.read = MethodType(_read_block, stream)
        return stream

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


_NULL = 255


class _VariantColumn(Column):
    """A column whose values are each of one of several types, or NULL.

    The format is ClickHouse's `SerializationVariant`: the mode, the types' own prefixes, one byte a row for the
    type by its place in the name, then each type's values.
    """

    def __init__(self, spec: str, **column_options: Any) -> None:
        super().__init__(**column_options)
        self._nested = [
            _column_of(inner, {"context": self.context}) for inner in get_inner_columns(get_inner_spec("Variant", spec))
        ]

    def read_state_prefix(self, buf: Any) -> None:
        """Read what stands before the first block's values."""
        super().read_state_prefix(buf)
        mode = read_binary_uint64(buf)
        if mode:
            raise NotImplementedError(f"Variant in mode {mode}: only 0, one byte a row, is known here.")
        for column in self._nested:
            column.read_state_prefix(buf)

    def read_data(self, n_items: int, buf: Any) -> tuple[Any, ...]:
        """Read one block's values."""
        types = buf.read(n_items)
        counts = [types.count(place) for place in range(len(self._nested))]
        values = [
            iter(column.read_data(count, buf) if count else ())
            for column, count in zip(self._nested, counts, strict=True)
        ]
        return tuple(None if place == _NULL else next(values[place]) for place in types)


class _ColumnTypes(dict[str, Any]):
    """The driver's types by name, and every `Variant(…)`."""

    def __missing__(self, spec: str) -> Any:
        if not spec.startswith("Variant("):
            raise KeyError(spec)
        return lambda **column_options: _VariantColumn(spec, **column_options)


# The two functions call each other by name, also for the types inside arrays and tuples.
_column_of = rebound(service.get_column_by_spec, column_by_type=_ColumnTypes(service.column_by_type))
_column_of.__globals__["get_column_by_spec"] = _column_of
_read_column = rebound(service.read_column, get_column_by_spec=_column_of)
# At DEBUG the driver logs the names of columns, which may be literals of the statement.
_read_block = rebound(BlockInputStream.read, read_column=_read_column, logger=_log)


_init = rebound(clickhouse_driver.Client.__init__, Connection=Connection)


class Client(clickhouse_driver.Client):
    """The driver's client with a `Connection` of this package.

    `input_format_null_as_default` reaches the server, where the driver has a setting of its own by that name. The row
    of a WITH TOTALS that the statement itself asks for comes last in its result, as the driver has it.

    Attributes:
        connection: The connection, with `counters` of the last statement, and the `deadline` of the next.
        server: The server that it leads to, if it was asked.
    """

    available_client_settings = tuple(
        name for name in clickhouse_driver.Client.available_client_settings if name != "input_format_null_as_default"
    )
    connection: Connection
    server: Server | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _init(self, *args, **kwargs)

    def execute(self, *args: Any, **kwargs: Any) -> Any:
        """Execute as the driver does, with new counters for each statement of a client that stays open."""
        self.connection.counters = Counter()
        answer = super().execute(*args, **kwargs)
        self.connection.answered_at = time.monotonic()
        return answer

    def send_data(self, sample_block: Any, data: Any, *args: Any, columnar: bool = False, **kwargs: Any) -> Any:
        """Send rows as the driver does, or name the one that cannot be sent."""
        if columnar:
            return super().send_data(sample_block, data, *args, columnar=True, **kwargs)
        with misfits_named(sample_block.columns_with_types, data, self.connection.context):
            return super().send_data(sample_block, data, *args, **kwargs)

    def is_alive(self) -> bool:
        """Check whether the server is still there."""
        try:
            is_there = bool(self.connection.ping())
        except driver_errors.Error:
            return False
        self.connection.answered_at = time.monotonic()
        return is_there

    @property
    def address(self) -> str:
        """The node in use, as `host:port`."""
        return address_in_use(self)


def open_client(
    options: ConnectionOptions,
    *,
    address: Address | None = None,
    send_receive_timeout_seconds: float | None = None,
) -> Client:
    """Return a client that connects with its first statement."""
    options.check_machine()
    (host, port), *further = [address] if address else options.hosts
    client = Client(
        host,
        port=port,
        alt_hosts=",".join(map(_host_port, further)) or None,
        database=options.database,
        user=options.user,
        password=options.password,
        client_name=client_name(),
        secure=options.secure,
        verify=options.verify,
        ca_certs=options.ca_certs,
        certfile=options.certfile,
        keyfile=options.keyfile,
        server_hostname=options.server_hostname,
        compression=False if options.compression == "none" else options.compression,
        connect_timeout=options.connect_timeout_seconds,
        send_receive_timeout=send_receive_timeout_seconds or options.send_receive_timeout_seconds,
        # A misspelt setting must fail (115), not be dropped in silence.
        settings_is_important=True,
        tcp_keepalive=True,
    )
    client.connection.has_one_server = options.one_door
    # Not through the constructor: that takes out what it believes to be the client's.
    client.settings.update(options.sent_settings)
    return client


def _host_port(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
