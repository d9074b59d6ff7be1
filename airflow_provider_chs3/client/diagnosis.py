"""Explain why a connection does not work, and name the field to change."""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass

from airflow_provider_chs3.client.connection import Address, ConnectionOptions
from airflow_provider_chs3.exceptions import ClickHouseServerError, ConfigurationError, TransientError

_AUTHENTICATION_FAILED = 516
_UNKNOWN_DATABASE = 81
_READONLY = 164
#: Whatever answers at all answers this at once. A node that hangs must not hold up those that ask it for much longer.
_PROBE_SECONDS = 2.0
_HTTP_PROBE = b"GET /ping HTTP/1.0\r\n\r\n"
# The native port's own answer to HTTP, see `TCPHandler::receiveHello` of ClickHouse.
_NATIVE_PORT_ON_HTTP = b"is for clickhouse-client"
_HTTP_PORT_ON_PING = b"\r\n\r\nOk.\n"


def explain_server_error(error: ClickHouseServerError, options: ConnectionOptions) -> str:
    """Return what to do about an error that ClickHouse answers to the first statement."""
    if error.code == _AUTHENTICATION_FAILED:
        return f"{error.host}: user {options.user!r} or the password is wrong (516). Correct the connection."
    if error.code == _UNKNOWN_DATABASE:
        return (
            f"{error.host}: there is no database {options.database!r} (81), or {options.user!r} may not see it. "
            "Create it on every node (CREATE DATABASE), or name another one as the connection's schema."
        )
    if error.code == _READONLY:
        return (
            f"{error.host}: user {options.user!r} has readonly = 1, which refuses log_comment (164). Use readonly = 2."
        )
    return str(error)


def check_one_server(names: set[str], *, node: str = "") -> None:
    """Check that an address leads to one server, as that of a node must, and the connection's where it has no cluster.

    A retry helps if one server took the place of another, as a pod of Kubernetes does.
    """
    if len(names) > 1:
        several = ", ".join(sorted(names))
        names.clear()
        if node:
            raise TransientError(
                f"The address of {node} leads to several servers ({several}), as a load balancer does, but a load "
                "stages and publishes on each node: set the address of that very server in the connection's "
                "node_addresses; or replace them by its extra one_door, with the load balancer as the host."
            )
        raise TransientError(
            f"The connection's host leads to several servers ({several}), as a load balancer "
            "does, but a load without a cluster stages and publishes on one. Name the cluster, as the argument or the "
            "connection's extra 'cluster', or name the host of one server."
        )


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """The address at which ClickHouse was expected."""

    address: Address
    is_secure: bool
    is_http: bool = False
    timeout_seconds: float

    def __str__(self) -> str:
        host, port = self.address
        return f"{host}:{port}"

    @property
    def usual_port(self) -> str:
        """Its usual port, in words."""
        if self.is_http:
            return f"the HTTP port ('http_port') is {8443 if self.is_secure else 8123} by default"
        return f"the native port is {9440 if self.is_secure else 9000} by default"


def explain_no_answer(endpoint: Endpoint, reason: str) -> str:
    """Return why no connection with ClickHouse came about, for a message, if a retry may help.

    Raises:
        ConfigurationError: If something else answers there, or TLS is wrong: a retry would end the same way.
    """
    try:
        plain = _answer(endpoint, tls=False)
    except socket.gaierror as error:
        return f"{error.strerror}: check the host's name"
    except ConnectionRefusedError:
        return f"Connection refused: nothing listens on this port; {endpoint.usual_port}"
    except TimeoutError:
        return "timed out: the host is wrong or down, or a firewall keeps it from answering"
    except OSError as error:
        return error.strerror or reason
    if plain is None and not endpoint.is_secure:
        return f"timed out: it accepts the connection, but sends nothing; {endpoint.usual_port}"
    try:
        with_tls = _answer(endpoint, tls=True)
    except OSError:
        with_tls = None
    if with_tls is not None and not endpoint.is_secure:
        raise ConfigurationError(f"{endpoint} speaks TLS: switch TLS on (the connection's extra 'secure').")
    if with_tls is None and endpoint.is_secure and plain:
        raise ConfigurationError(f"{endpoint} does not speak TLS: switch TLS off, or use the port that does.")
    check_answer(endpoint, (with_tls if endpoint.is_secure else plain) or b"")
    if endpoint.is_secure and with_tls is not None:
        may_want = "it may want a client certificate, 'certfile' and 'keyfile'"
        return f"it speaks TLS, then does not answer as ClickHouse does: {may_want} ({reason})"
    return f"it accepts the connection, but does not answer as ClickHouse does ({reason})"


def hangs_up(endpoint: Endpoint) -> bool:
    """Check whether the port closes every connection without answering, as no server of ClickHouse's HTTP does."""
    try:
        return not endpoint.is_secure and _answer(endpoint, tls=False) == b""
    except OSError:
        return False


def check_answer(endpoint: Endpoint, answer: bytes) -> None:
    """Check that an answer to a request over HTTP is that of the port that was expected."""
    is_native, is_http = _NATIVE_PORT_ON_HTTP in answer, answer.endswith(_HTTP_PORT_ON_PING)
    if not answer or (is_http if endpoint.is_http else is_native):
        return
    usual = f"{endpoint.usual_port[0].upper()}{endpoint.usual_port[1:]}"
    if is_native:
        raise ConfigurationError(f"{endpoint} is ClickHouse's native port, where HTTP is needed. {usual}.")
    if is_http:
        raise ConfigurationError(f"{endpoint} speaks HTTP: this is ClickHouse's HTTP port. {usual}.")
    speaks = "speaks HTTP, but " if answer.startswith(b"HTTP/") else ""
    raise ConfigurationError(f"{endpoint} {speaks}is not ClickHouse: check host and port. {usual}.")


def _answer(endpoint: Endpoint, *, tls: bool) -> bytes | None:
    """Return the answer to a request over HTTP, empty if the connection is ended; None if there is none in time."""
    timeout_seconds = min(endpoint.timeout_seconds, _PROBE_SECONDS)
    with socket.create_connection(endpoint.address, timeout_seconds) as plain:
        connection = plain
        if tls:
            try:
                connection = _unverified_tls().wrap_socket(plain)
            except ssl.SSLError as error:
                # An alert is TLS too: a server that wants a client certificate says so with one.
                if "alert" in str(error).lower():
                    return b""
                raise
        try:
            connection.sendall(_HTTP_PROBE)
            return _read_to_end(connection)
        except TimeoutError:
            return b"" if tls else None
        except OSError:
            return b""


def _read_to_end(connection: socket.socket) -> bytes:
    """Return what comes until the connection ends, or the first of it if it does not."""
    answer = connection.recv(4096)
    with suppress(OSError):
        while answer and len(answer) < 4096 and (more := connection.recv(4096)):
            answer += more
    return answer


def _unverified_tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
