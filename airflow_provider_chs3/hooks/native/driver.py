"""All that touches clickhouse-driver. Imported inside functions only: Airflow must parse DAGs without the driver."""

from __future__ import annotations

import logging
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import clickhouse_driver  # noqa: TID253
import clickhouse_driver.connection  # noqa: TID253
import clickhouse_driver.errors as driver_errors  # noqa: TID253
from clickhouse_driver.protocol import ServerPacketTypes  # noqa: TID253
from clickhouse_driver.reader import read_binary_bytes, read_binary_int32, read_binary_uint8  # noqa: TID253

from airflow_provider_chs3.exceptions import ClickHouseConnectionError, ClickHouseServerError, ConfigurationError
from airflow_provider_chs3.hooks.connection import Address, ConnectionOptions
from airflow_provider_chs3.hooks.native.inserted_rows import misfits_named
from airflow_provider_chs3.hooks.native.log_comment import client_name
from airflow_provider_chs3.hooks.native.parameters import half_character
from airflow_provider_chs3.hooks.native.secrets import scrub
from airflow_provider_chs3.hooks.native.sent_settings import write_settings_of_any_server
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

_NETWORK_ERRORS = (
    driver_errors.NetworkError,
    driver_errors.SocketTimeoutError,
    driver_errors.UnexpectedPacketFromServerError,
    driver_errors.UnknownPacketFromServerError,
    EOFError,
    OSError,
)
_UNTRUSTED = re.compile(r"certificate verify failed: (.+?)\.? \(_ssl")
_RECEIVED_FROM = re.compile(r"Received from (\S+:\d+)\.")
#: Of ClickHouse; and of HDFS, in the middle of a message.
_STACK_TRACE = re.compile(r"\.?\s*Stack trace:.*|(?:\n\s*at [^\n]+\))+", re.DOTALL)
_EXCEPTION_CLASS = re.compile(r"(?:DB::\w+\. )?\bDB::\w+: ")
# The driver's list ends at 398; these are the newer ones that loads meet (system.errors of 26.9).
ERROR_NAMES = {code: name for name, code in vars(driver_errors.ErrorCodes).items() if name.isupper()} | {
    452: "SETTING_CONSTRAINT_VIOLATION",
    497: "ACCESS_DENIED",
    499: "S3_ERROR",
    516: "AUTHENTICATION_FAILED",
    519: "NO_REMOTE_SHARD_AVAILABLE",
    636: "CANNOT_EXTRACT_TABLE_STRUCTURE",
    669: "NAMED_COLLECTION_DOESNT_EXIST",
    1009: "S3_OBJECT_CHANGED_DURING_READ",
}


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
        """The connection's next packet but extremes; the driver drops those that have counters."""
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
        """The node in use, as `host:port`: the driver keeps the one that works in front."""
        host, port = self.connection.hosts[0]
        return f"{host}:{port}"


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
    """A client that connects with its first statement.

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


@contextmanager
def translated_errors(client: Client, *, query_id: str | None = None, secrets: Sequence[str] = ()) -> Iterator[None]:
    """Turn what the driver raises into this package's errors.

    Args:
        client: The client in use.
        query_id: The id of the statement.
        secrets: What no message may show; the connection's password is added.

    Raises:
        ClickHouseServerError: The server answered with an error.
        ClickHouseConnectionError: It did not answer.
        ConfigurationError: Its certificate is not trusted, or the driver cannot send or read a value.
    """
    secrets = (*secrets, client.connection.password)
    try:
        yield
    except driver_errors.ServerException as error:
        translated = server_error(error.code, error.message, address=client.address, query_id=query_id, secrets=secrets)
        # It stays the context of the new error, where tools that collect errors find it.
        error.message = translated.message
        error.args, error.nested = (translated.message,), None
        raise translated from None
    except driver_errors.UnknownTypeError as error:
        raise ConfigurationError(
            f"{error.message}: the driver cannot read or send values of this type. Convert them in the statement, as "
            "toString(…) does."
        ) from None
    except UnicodeEncodeError as error:
        raise half_character(error) from None
    except _NETWORK_ERRORS as error:
        if untrusted := untrusted_certificate(str(error), client.address):
            raise untrusted from None
        message = scrub(_first_line(error), secrets)
        is_timeout = isinstance(error, driver_errors.SocketTimeoutError | TimeoutError)
        raise ClickHouseConnectionError(message, client.address, query_id, is_timeout=is_timeout) from None


def server_error(
    code: int, message: str, *, address: str, query_id: str | None, secrets: Sequence[str]
) -> ClickHouseServerError:
    """Return a server's error, without stack trace and secrets.

    Args:
        code: The error's code.
        message: The server's message.
        address: The node that was asked, as `host:port`.
        query_id: The id of the statement.
        secrets: Texts that the message may contain and must not show.
    """
    message = _STACK_TRACE.sub("", message).strip()
    remote = _RECEIVED_FROM.findall(message)
    return ClickHouseServerError(
        code=code,
        name=ERROR_NAMES.get(code, ""),
        message=scrub(_EXCEPTION_CLASS.sub("", message), secrets),
        # The last one is the node where it began; the others passed it on.
        host=remote[-1] if remote else address,
        query_id=query_id,
    )


def untrusted_certificate(message: str, address: str) -> ConfigurationError | None:
    """The error of a server whose certificate is not trusted, if that is what a message of Python's `ssl` says.

    Args:
        message: The message.
        address: The server, as `host:port`.
    """
    found = _UNTRUSTED.search(message)
    return ConfigurationError(_about_certificate(address, found[1])) if found else None


def _about_certificate(address: str, reason: str) -> str:
    way_out = "give the file of its authority in the connection's extra 'ca_certs'"
    if "mismatch" in reason:
        way_out = "reach the server under a name that its certificate holds (host, 'alt_hosts', 'node_addresses')"
    if "expired" in reason:
        way_out = "have it renewed"
    return f"{address} has a certificate that is not trusted: {reason}. The way out: {way_out}."


def _first_line(error: BaseException) -> str:
    if isinstance(error, driver_errors.SocketTimeoutError):
        # All that the driver says of it is the address.
        return f"timed out {error.message}"
    return str(getattr(error, "message", None) or error or type(error).__name__).splitlines()[0]


def _host_port(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
