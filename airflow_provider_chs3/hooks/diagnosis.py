"""Why a connection does not work, in words that name the field to change."""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress

from airflow_provider_chs3.exceptions import ClickHouseConnectionError, ClickHouseServerError, TransientError
from airflow_provider_chs3.hooks.connection import Address, ConnectionOptions

_AUTHENTICATION_FAILED = 516
_UNKNOWN_DATABASE = 81
_READONLY = 164
_HTTP_PROBE = b"GET /ping HTTP/1.0\r\n\r\n"
# The native port's own answer to HTTP, see `TCPHandler::receiveHello` of ClickHouse.
_NATIVE_PORT_ON_HTTP = b"is for clickhouse-client"


def explain_server_error(error: ClickHouseServerError, options: ConnectionOptions) -> str:
    """Return what to do about an error that ClickHouse answers to the first statement.

    Args:
        error: The error.
        options: The connection.
    """
    if error.code == _AUTHENTICATION_FAILED:
        return f"{error.host}: user {options.user!r} or the password is wrong (516)."
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


def check_one_server(names: set[str]) -> None:
    """Check that the connection's address leads to one server, as it must where no cluster is named.

    A retry helps if one server took the place of another, as a pod of Kubernetes does.

    Args:
        names: Names of the servers that answered there; emptied if they are several.

    Raises:
        TransientError: If they are several.
    """
    if len(names) > 1:
        several = ", ".join(sorted(names))
        names.clear()
        raise TransientError(
            f"The connection's host leads to several servers ({several}), as a load balancer "
            "does, but a load without a cluster stages and publishes on one. Name the cluster, as the argument or the "
            "connection's extra 'cluster', or give the host of one server."
        )


def explain_no_answer(error: ClickHouseConnectionError, options: ConnectionOptions, address: Address) -> str:
    """Find out what stands at an address instead of ClickHouse's native protocol.

    Args:
        error: What the driver made of it.
        options: The connection.
        address: Where it was tried.
    """
    host, port = address
    native_port = f"{9440 if options.secure else 9000} by default"
    try:
        with socket.create_connection(address, options.connect_timeout_seconds):
            pass
    except socket.gaierror as reason:
        return f"Host {host!r} is unknown: {reason.strerror}. Check its name."
    except ConnectionRefusedError:
        return f"{host} is there, but nothing listens on port {port}. The native port is {native_port}."
    except TimeoutError:
        waited = f"{options.connect_timeout_seconds:g} s"
        return f"{host}:{port} did not answer within {waited}: a wrong host, or a firewall."
    except OSError as reason:
        return f"{host}:{port} cannot be reached: {reason.strerror}."
    return f"{host}:{port} {_what_listens(error, options, address, native_port)}"


def _what_listens(
    error: ClickHouseConnectionError, options: ConnectionOptions, address: Address, native_port: str
) -> str:
    timeout_seconds = options.connect_timeout_seconds
    with_tls = _answer_to_http(address, timeout_seconds, tls=True)
    if with_tls is not None and not options.secure:
        return "speaks TLS: switch TLS on."
    answer = with_tls if options.secure else _answer_to_http(address, timeout_seconds, tls=False)
    if answer is None:
        return "does not speak TLS: switch TLS off, or give the port that does."
    if answer.startswith(b"HTTP/") and _NATIVE_PORT_ON_HTTP not in answer:
        return f"speaks HTTP: this is the HTTP port. The native port is {native_port}."
    if not options.secure:
        return f"takes the connection, but does not answer as ClickHouse does: {error.message}."
    return f"speaks TLS, then ends it: {error.message}. It may want a client certificate: 'certfile' and 'keyfile'."


def _answer_to_http(address: Address, timeout_seconds: float, *, tls: bool) -> bytes | None:
    """Return the answer to a request over HTTP, possibly empty; None if TLS is expected and not spoken."""
    try:
        with socket.create_connection(address, timeout_seconds) as plain:
            connection = _unverified_tls().wrap_socket(plain) if tls else plain
            with suppress(OSError):
                connection.sendall(_HTTP_PROBE)
                return connection.recv(4096)
            return b""
    except OSError as error:
        # An alert is TLS too: a server that wants a client certificate says so with one.
        return b"" if not tls or "alert" in str(error).lower() else None


def _unverified_tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
