"""Connections of type `clickhouse`, as Airflow's own ClickHouse provider has them, read as ones of type `chs3`.

Its fields are those of `apache-airflow-providers-clickhousedb`, which speaks HTTP: its port is no native one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.hooks.extras import Extras

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Connection

#: The type of such connections.
OFFICIAL_CONN_TYPE = "clickhouse"

#: Extras of the same meaning: theirs → ours.
_SAME = {
    "secure": "secure",
    "verify": "verify",
    "connect_timeout": "connect_timeout_seconds",
    "send_receive_timeout": "send_receive_timeout_seconds",
    "session_settings": "settings",
}
_OFFICIAL_EXTRAS = (*_SAME, "compress", "client_name", "client_kwargs")


@dataclass(frozen=True, kw_only=True)
class Described:
    """What a connection says, in the words of type `chs3`.

    Args:
        port: The native port; None for the usual one.
        extra: The extras.
    """

    port: int | None
    extra: Mapping[str, Any]


def described(connection: Connection, *, where: str) -> Described:
    """Read a connection of either type.

    Args:
        connection: The connection; every type but `clickhouse` is taken for `chs3`.
        where: What messages call it.

    Raises:
        ConfigurationError: If it has `client_kwargs`, which only `clickhouse-connect` understands.
    """
    given = connection.extra_dejson
    if connection.conn_type != OFFICIAL_CONN_TYPE:
        return Described(port=connection.port, extra=given)
    extras = Extras(given, where=f"{where}: extra")
    if extras.mapping("client_kwargs"):
        raise ConfigurationError(
            f"{where}: extra 'client_kwargs' is for clickhouse-connect, and this package speaks the native protocol: "
            "create a connection of type chs3."
        )
    own = {name: value for name, value in given.items() if name not in _OFFICIAL_EXTRAS and name != "native_port"}
    translated = {ours: given[theirs] for theirs, ours in _SAME.items() if theirs in given}
    translated["compression"] = "lz4" if extras.flag("compress", default=True) else "none"
    translated["http_port"] = connection.port
    return Described(port=extras.port("native_port", default=0) or None, extra=translated | own)
