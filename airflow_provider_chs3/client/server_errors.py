"""Turn the driver's errors into this package's. Imported inside functions only, as `driver` is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import clickhouse_driver  # noqa: TID253
import clickhouse_driver.errors as driver_errors  # noqa: TID253

from airflow_provider_chs3.client.diagnosis import Endpoint, explain_no_answer
from airflow_provider_chs3.client.parameters import half_character
from airflow_provider_chs3.client.secrets import scrub
from airflow_provider_chs3.core.sql.quoting import without_stack_trace
from airflow_provider_chs3.exceptions import ClickHouseConnectionError, ClickHouseServerError, ConfigurationError

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
#: A read-only user meets this with the first setting of any statement, whichever it is.
_CANNOT_MODIFY = re.compile(r"Cannot modify '\w+' setting in readonly mode")
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


@contextmanager
def translated_errors(
    client: clickhouse_driver.Client,
    *,
    query_id: str | None = None,
    secrets: Sequence[str] = (),
    is_address_right: bool = False,
) -> Iterator[None]:
    """Turn what the driver raises into this package's errors.

    An address that is not known to be right is looked at by connections of its own.

    Raises:
        ClickHouseServerError: The server answered with an error.
        ClickHouseConnectionError: It did not answer.
        ConfigurationError: Its certificate is not trusted, something else stands at its address, or the driver cannot
            send or read a value.
    """
    secrets = (*secrets, client.connection.password)
    try:
        yield
    except driver_errors.ServerException as error:
        translated = server_error(
            error.code, error.message, address=address_in_use(client), query_id=query_id, secrets=secrets
        )
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
        if untrusted := untrusted_certificate(str(error), address_in_use(client)):
            raise untrusted from None
        is_plain = is_address_right or client.connection.is_greeted
        reason = _first_line(error) if is_plain else _why_not_connected(client, error)
        message = scrub(reason, secrets)
        is_timeout = isinstance(error, driver_errors.SocketTimeoutError | TimeoutError)
        raise ClickHouseConnectionError(message, address_in_use(client), query_id, is_timeout=is_timeout) from None


def _why_not_connected(client: clickhouse_driver.Client, error: BaseException) -> str:
    """Return why no connection came about, of each host that was tried."""
    connection, reason = client.connection, _first_line(error)
    # An error of the network has the driver try the next host, and other errors do not.
    is_of_all = isinstance(error, driver_errors.NetworkError | driver_errors.SocketTimeoutError)
    endpoints = [
        Endpoint(address=address, is_secure=connection.secure_socket, timeout_seconds=connection.connect_timeout)
        for address in ([*connection.hosts] if is_of_all else [connection.hosts[0]])
    ]
    if len(endpoints) == 1:
        return explain_no_answer(endpoints[0], reason)
    return "; ".join(f"{endpoint}: {explain_no_answer(endpoint, reason)}" for endpoint in endpoints)


def server_error(
    code: int, message: str, *, address: str, query_id: str | None, secrets: Sequence[str]
) -> ClickHouseServerError:
    """Return a server's error, without stack trace and secrets."""
    message = without_stack_trace(message)
    message = _CANNOT_MODIFY.sub("The user has readonly = 1, and so may send no settings", message)
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
    """Return the error for a server whose certificate is not trusted, if a message of Python's `ssl` says so."""
    if (match := _UNTRUSTED.search(message)) is None:
        return None
    reason = match[1]
    way_out = "name the file of its authority in the connection's extra 'ca_certs'"
    if "mismatch" in reason:
        way_out = "reach the server under a name that its certificate holds (host, 'alt_hosts', 'node_addresses')"
    if "expired" in reason:
        way_out = "have it renewed"
    return ConfigurationError(f"{address} has a certificate that is not trusted: {reason}. To fix this, {way_out}.")


def _first_line(error: BaseException) -> str:
    if isinstance(error, driver_errors.SocketTimeoutError):
        # The driver gives only its address.
        return f"timed out {error.message}"
    return str(getattr(error, "message", None) or error or type(error).__name__).splitlines()[0]


def address_in_use(client: clickhouse_driver.Client) -> str:
    """Return the address of the node in use, as `host:port`: the driver keeps the one that works in front."""
    host, port = client.connection.hosts[0]
    return f"{host}:{port}"
