"""The driver's client. Imported inside functions only: Airflow must parse DAGs without the driver."""

from __future__ import annotations

import logging
import time
from collections import Counter
from typing import Any

import clickhouse_driver  # noqa: TID253
import clickhouse_driver.connection  # noqa: TID253
import clickhouse_driver.errors as driver_errors  # noqa: TID253
from clickhouse_driver.protocol import ServerPacketTypes  # noqa: TID253
from clickhouse_driver.reader import read_binary_bytes, read_binary_int32, read_binary_uint8  # noqa: TID253

from airflow_provider_chs3.hooks.connection import Address, ConnectionOptions
from airflow_provider_chs3.hooks.native.inserted_rows import misfits_named
from airflow_provider_chs3.hooks.native.log_comment import client_name
from airflow_provider_chs3.hooks.native.server_errors import address_in_use
from airflow_provider_chs3.hooks.native.settings_writer import write_settings_of_any_server
from airflow_provider_chs3.hooks.native.sparing_ping import SparingPing
from airflow_provider_chs3.hooks.native.variant import teach_driver


class _DriverLog(logging.Filter):
    """One line for a host that does not answer, where the driver logs its stack."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and record.exc_info[1]:
            record.msg, record.args = f"{record.getMessage()}: {record.exc_info[1]}", ()
            record.exc_info = None
        return "socket shutdown" not in str(record.msg)


# At DEBUG the driver logs every statement, with the keys that it may hold.
logging.getLogger("clickhouse_driver").setLevel(logging.INFO)
logging.getLogger("clickhouse_driver.connection").addFilter(_DriverLog())
teach_driver()

clickhouse_driver.connection.write_settings = write_settings_of_any_server


class Client(clickhouse_driver.Client):
    """The driver's client, except for what the driver keeps to itself, mixes up, or cannot read.

    `input_format_null_as_default` reaches the server, where the driver has a setting of its own by that name. The
    server's counters are kept. Extremes, which a profile may ask for, are left out of results; the row of a WITH TOTALS
    that the statement itself asks for comes last, as the driver has it. An error may quote bytes that are no UTF-8. A
    server that froze takes connections and says nothing: it is given up when the time to connect is over.

    Attributes:
        counters: What the servers counted for its last statement, on all nodes together: event → number.
        deadline: When to give up a statement, by `time.monotonic()`, also if the server reports progress; None never.
    """

    available_client_settings = tuple(
        name for name in clickhouse_driver.Client.available_client_settings if name != "input_format_null_as_default"
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.counters: Counter[str] = Counter()
        self.deadline: float | None = None
        self._receive = self.connection.receive_packet
        self.connection.receive_packet = self._receive_and_count
        self.connection.receive_exception = lambda: _read_error(self.connection.fin)
        self._receive_hello = self.connection.receive_hello
        self.connection.receive_hello = self._receive_hello_in_time
        self._ping = SparingPing(self.connection)
        self.connection.ping = self._ping

    def execute(self, *args: Any, **kwargs: Any) -> Any:
        """Execute as the driver does, with new counters for each statement of a client that stays open."""
        self.counters = Counter()
        answer = super().execute(*args, **kwargs)
        self._ping.note_answer()
        return answer

    def send_data(self, sample_block: Any, data: Any, *args: Any, columnar: bool = False, **kwargs: Any) -> Any:
        """Send rows as the driver does, or name the one that cannot be sent.

        Raises:
            RowError: If one does not fit.
        """
        if columnar:
            return super().send_data(sample_block, data, *args, columnar=True, **kwargs)
        with misfits_named(sample_block.columns_with_types, data, self.connection.context):
            return super().send_data(sample_block, data, *args, **kwargs)

    def _receive_hello_in_time(self) -> None:
        with self.connection.timeout_setter(self.connection.connect_timeout):
            self._receive_hello()

    def _receive_in_time(self) -> Any:
        if self.deadline is None:
            return self._receive()
        left_seconds = self.deadline - time.monotonic()
        if left_seconds <= 0:
            raise driver_errors.SocketTimeoutError(f"({self.address})")
        with self.connection.timeout_setter(left_seconds):
            return self._receive()

    def _receive_and_count(self) -> Any:
        """Return the connection's next packet but extremes; the driver drops those that have counters."""
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

    @property
    def address(self) -> str:
        """The node in use, as `host:port`."""
        return address_in_use(self)


def _read_error(buffer: Any) -> driver_errors.ServerException:
    """Read an error as the driver does, with U+FFFD for what is no UTF-8, such as bytes of a file that it quotes."""
    code = read_binary_int32(buffer)
    name, message, stack_trace = (read_binary_bytes(buffer).decode("utf-8", "replace") for _ in range(3))
    has_nested = read_binary_uint8(buffer)
    prefix = "" if name == "DB::Exception" else f"{name}. "
    text = f"{prefix}{message}. Stack trace:\n\n{stack_trace}"
    return driver_errors.ServerException(text, code, nested=_read_error(buffer) if has_nested else None)


def open_client(
    options: ConnectionOptions,
    *,
    address: Address | None = None,
    send_receive_timeout_seconds: float | None = None,
) -> Client:
    """Return a client that connects with its first statement.

    Args:
        options: The connection.
        address: One node's address; None takes the connection's hosts, with failover.
        send_receive_timeout_seconds: Overrides the connection's.

    Raises:
        ConfigurationError: A file or a library that the connection needs is not on this machine.
    """
    options.check_machine()
    (host, port), *further = [address] if address else options.hosts
    client = Client(
        host,
        port=port,
        alt_hosts=",".join(_host_port(address) for address in further) or None,
        database=options.database,
        user=options.user,
        password=options.password,
        client_name=client_name(),
        secure=options.secure,
        verify=options.verify,
        ca_certs=options.ca_certs,
        certfile=options.certfile,
        keyfile=options.keyfile,
        compression=False if options.compression == "none" else options.compression,
        connect_timeout=options.connect_timeout_seconds,
        send_receive_timeout=send_receive_timeout_seconds or options.send_receive_timeout_seconds,
        # A misspelt setting must fail (115), not be dropped in silence.
        settings_is_important=True,
        tcp_keepalive=True,
    )
    # Not through the constructor: that takes out what it believes to be the client's.
    client.settings.update(options.sent_settings)
    return client


def _host_port(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
