"""The driver's client. Imported inside functions only: Airflow must parse DAGs without the driver."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import clickhouse_driver  # noqa: TID253
import clickhouse_driver.errors as driver_errors  # noqa: TID253

from airflow_provider_chs3.client.connection import Address, ConnectionOptions
from airflow_provider_chs3.client.driver_connection import Connection
from airflow_provider_chs3.client.inserted_rows import misfits_named
from airflow_provider_chs3.client.log_comment import client_name
from airflow_provider_chs3.client.rebound import rebound
from airflow_provider_chs3.client.server import Server
from airflow_provider_chs3.client.server_errors import address_in_use

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
        """Send rows as the driver does, or name the one that cannot be sent.

        Raises:
            RowError: If one does not fit.
        """
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
    """Return a client that connects with its first statement.

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
