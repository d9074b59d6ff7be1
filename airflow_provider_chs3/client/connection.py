"""The fields of an Airflow connection of type `chs3`, checked and typed."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from airflow_provider_chs3 import __version__
from airflow_provider_chs3.client.extras import Extras, check_names, parse_port
from airflow_provider_chs3.core.model.models import NodeSpec
from airflow_provider_chs3.core.target.node_capacity import parse_memory
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.get_provider_info import CONNECTION_FIELDS

Address = tuple[str, int]
SettingValue = str | int | float

KNOWN_EXTRAS = tuple(CONNECTION_FIELDS)
COMPRESSIONS = ("lz4", "zstd", "none")

_SETTING_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")

#: The type of connections of Airflow's own provider, `apache-airflow-providers-clickhousedb`, which speaks HTTP.
OFFICIAL_CONN_TYPE = "clickhouse"
#: Its extras of the same meaning: theirs → ours.
_SAME = {
    "secure": "secure",
    "verify": "verify",
    "connect_timeout": "connect_timeout_seconds",
    "send_receive_timeout": "send_receive_timeout_seconds",
    "session_settings": "settings",
}
_OFFICIAL_EXTRAS = (*_SAME, "compress", "client_name", "client_kwargs", "native_port")


@dataclass(frozen=True, kw_only=True)
class ConnectionOptions:
    """A connection of type `chs3`.

    Args:
        hosts: Addresses of the native protocol; the second and later ones are for failover.
        http_port: Port of the HTTP interface on the same hosts. Default: 8123; of an Airflow connection with TLS 8443.
        database: Database of unqualified table names. Default: `default`.
        user: ClickHouse user. Default: `default`.
        password: Their password; never shown. Default: none.
        secure: Whether to speak TLS. Default: False.
        verify: Whether the server's certificate is checked. Default: True.
        ca_certs: File with the CA certificates to trust. Default: the usual ones.
        certfile: File with the client's certificate. Default: none.
        keyfile: File with the client's private key. Default: none, if `certfile` also holds it.
        server_hostname: The name that TLS asks for (SNI), and that the certificate must hold, where the host is another
            one, as behind a private link or a tunnel. Default: the host.
        compression: `lz4`, `zstd` or `none`, for data between this client and ClickHouse. Default: `lz4`.
        connect_timeout_seconds: How long to wait for a connection, and for the server's greeting over it. Default: 10.
        send_receive_timeout_seconds: How long to wait for the next packet. Not a limit on a query's run time: a
            server that works sends its progress. Default: 300.
        cluster: The cluster that operators use if they name none. Default: none.
        node_addresses: From `host_name` or `host_name:port` as in `system.clusters` to what workers can reach. Default:
            none.
        one_door: Whether the hosts lead to any server of the cluster, as a load balancer does, and workers reach the
            nodes through them alone. Default: False.
        node_specs: From host name, or `default`, to cores and memory. Default: none.
        settings: Settings sent with every query. Default: none.
    """

    hosts: tuple[Address, ...]
    http_port: int = 8123
    database: str = "default"
    user: str = "default"
    password: str = field(default="", repr=False)
    secure: bool = False
    verify: bool = True
    ca_certs: str | None = None
    certfile: str | None = None
    keyfile: str | None = None
    server_hostname: str | None = None
    compression: str = "lz4"
    connect_timeout_seconds: float = 10.0
    send_receive_timeout_seconds: float = 300.0
    cluster: str | None = None
    node_addresses: Mapping[str, Address] = field(default_factory=dict)
    one_door: bool = False
    node_specs: Mapping[str, NodeSpec] = field(default_factory=dict)
    settings: Mapping[str, SettingValue] = field(default_factory=dict)

    @property
    def namespace(self) -> str:
        """OpenLineage's namespace of the servers."""
        host, port = self.hosts[0]
        return f"clickhouse://{f'[{host}]' if ':' in host else host}:{port}"

    @classmethod
    def from_airflow(cls, connection: Any) -> ConnectionOptions:
        """Read and check an Airflow connection.

        Args:
            connection: A connection of Airflow's, of type `chs3`; or `clickhouse`, the type of Airflow's own provider.

        Raises:
            ConfigurationError: If a field is wrong: it names the field, its value and the values that it may have.
        """
        where = f"Connection {connection.conn_id!r}"
        if connection.conn_type not in (None, "", "chs3", OFFICIAL_CONN_TYPE):
            raise ConfigurationError(f"{where} is of type {connection.conn_type}, not chs3: name another one.")
        port, values = _described(connection, where=where)
        check_names(values, KNOWN_EXTRAS, where=f"{where}, extra,")
        extras = Extras(values, where=f"{where}: extra")
        secure = extras.flag("secure", default=False)
        native_port = 9440 if secure else 9000
        cluster, node_addresses = extras.text("cluster"), _node_addresses(extras, default_port=native_port, where=where)
        return cls(
            hosts=_hosts(connection.host, port, extras, default_port=native_port, where=where),
            http_port=extras.port("http_port", default=8443 if secure else 8123),
            database=connection.schema or "default",
            user=connection.login or "default",
            password=connection.password or "",
            secure=secure,
            verify=extras.flag("verify", default=True),
            ca_certs=extras.text("ca_certs"),
            **_client_certificate(extras, where=where),
            server_hostname=extras.text("server_hostname"),
            compression=extras.choice("compression", COMPRESSIONS, default="lz4"),
            connect_timeout_seconds=extras.seconds("connect_timeout_seconds", default=10.0),
            send_receive_timeout_seconds=extras.seconds("send_receive_timeout_seconds", default=300.0),
            cluster=cluster,
            node_addresses=node_addresses,
            one_door=_one_door(extras, cluster, node_addresses, where=where),
            node_specs=parse_node_specs(extras.mapping("node_specs"), where=f"{where}: extra 'node_specs'"),
            settings=check_settings(extras.mapping("settings"), where=f"{where}: extra 'settings'"),
        )

    @property
    def sent_settings(self) -> dict[str, SettingValue]:
        """The settings of every statement: the connection's, and the compression of the server's answers.

        A server does not follow the client's compression: by default 26.9 answers in ZSTD, an optional library here.
        """
        if self.compression == "none":
            return dict(self.settings)
        return {**self.settings, "network_compression_method": self.compression.upper()}

    def check_machine(self) -> None:
        """Check that the files and libraries that the connection needs are on this machine.

        Raises:
            ConfigurationError: If one is not.
        """
        for name in ("ca_certs", "certfile", "keyfile"):
            path = getattr(self, name)
            if path and not os.path.isfile(path):
                raise ConfigurationError(f"The connection's extra {name!r}: there is no file {path!r} on this machine.")
        if self.compression == "zstd" and not find_spec("zstd"):
            raise ConfigurationError(
                "The connection's extra 'compression' is zstd, whose library is not installed on this machine: "
                "install the extra zstd of airflow-provider-chs3, or use lz4."
            )

    def worker_address(self, host_name: str, port: int) -> Address:
        """Return the address at which a worker reaches a node.

        Args:
            host_name: `host_name` of `system.clusters`.
            port: `port` of `system.clusters`.

        Returns:
            The address in `node_addresses` for the name with this port, or for the name alone; else name and port as
            given.
        """
        addresses = self.node_addresses
        return addresses.get(f"{host_name}:{port}") or addresses.get(host_name) or (host_name, port)


def _described(connection: Any, *, where: str) -> tuple[int | None, Mapping[str, Any]]:
    """Return the native port, None for the usual one, and the extras, of a connection of either type."""
    given = connection.extra_dejson
    if connection.conn_type != OFFICIAL_CONN_TYPE:
        return connection.port, given
    extras = Extras(given, where=f"{where}: extra")
    if extras.mapping("client_kwargs"):
        raise ConfigurationError(
            f"{where}: extra 'client_kwargs' is for clickhouse-connect, and this package speaks the native protocol: "
            "create a connection of type chs3."
        )
    native = {name: value for name, value in given.items() if name not in _OFFICIAL_EXTRAS}
    translated = {ours: given[theirs] for theirs, ours in _SAME.items() if theirs in given}
    translated["compression"] = "lz4" if extras.flag("compress", default=True) else "none"
    # Theirs is no native port.
    translated["http_port"] = connection.port
    return extras.port("native_port", default=0) or None, translated | native


def parse_address(text: str, *, default_port: int, where: str) -> Address:
    """Split `host`, `host:port` or `[IPv6]:port`.

    Args:
        text: The address.
        default_port: The port if the text has none.
        where: What the message calls the place.

    Returns:
        Host and port.

    Raises:
        ConfigurationError: If it is not such an address.
    """
    # A URL that is pasted here may hold a password.
    wanted = f"{where} must be host, host:port or [IPv6]:port, not {text.rpartition('@')[2]!r}."
    try:
        # Several colons and no bracket: a bare IPv6 address.
        parts = urlsplit(f"//[{text}]" if text.count(":") > 1 and "[" not in text else f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ConfigurationError(wanted) from None
    if not host or parts.netloc != parts.geturl()[2:] or "@" in text or re.search(r"[\s,]", text):
        raise ConfigurationError(wanted)
    return host, port or default_port


def check_settings(settings: Mapping[str, Any], *, where: str) -> Mapping[str, SettingValue]:
    """Check names and values of query settings; true and false become 1 and 0.

    Args:
        settings: From setting to value.
        where: What the message calls the place.

    Raises:
        ConfigurationError: If a name is not that of a setting, or a value is neither text nor number.
    """
    checked: dict[str, SettingValue] = {}
    for name, value in settings.items():
        if not isinstance(name, str) or not _SETTING_NAME.fullmatch(name):
            raise ConfigurationError(f"{where}: {name!r} is not the name of a setting.")
        if not isinstance(value, str | int | float):
            raise ConfigurationError(
                f"{where}: {name!r} must be text, a number or true/false, not {type(value).__name__}."
            )
        checked[name] = int(value) if isinstance(value, bool) else value
    return MappingProxyType(checked)


def _hosts(
    host: str | None, given_port: int | None, extras: Extras, *, default_port: int, where: str
) -> tuple[Address, ...]:
    if not host:
        raise ConfigurationError(f"{where}: the host is missing.")
    try:
        port = parse_port(given_port) if given_port else default_port
    except ValueError:
        raise ConfigurationError(f"{where}: port must be from 1 to 65535, not {given_port!r}.") from None
    first = parse_address(host, default_port=port, where=f"{where}: host")
    further = (
        parse_address(text, default_port=port, where=f"{where}: extra 'alt_hosts'")
        for text in extras.texts("alt_hosts")
    )
    return (first, *further)


def _client_certificate(extras: Extras, *, where: str) -> dict[str, str | None]:
    certfile, keyfile = extras.text("certfile"), extras.text("keyfile")
    if keyfile and not certfile:
        raise ConfigurationError(f"{where}: extra 'keyfile' needs 'certfile', the certificate that belongs to the key.")
    return {"certfile": certfile, "keyfile": keyfile}


def _node_addresses(extras: Extras, *, default_port: int, where: str) -> Mapping[str, Address]:
    addresses = {}
    for node, text in extras.mapping("node_addresses").items():
        place = f"{where}: extra 'node_addresses': {node!r}"
        addresses[node] = parse_address(str(text), default_port=default_port, where=place)
    return MappingProxyType(addresses)


def _one_door(extras: Extras, cluster: str | None, node_addresses: Mapping[str, Address], *, where: str) -> bool:
    if not extras.flag("one_door", default=False):
        return False
    if not cluster:
        raise ConfigurationError(f"{where}: extra 'one_door' needs 'cluster', whose nodes are behind the door.")
    if node_addresses:
        raise ConfigurationError(
            f"{where}: set either extra 'one_door', as workers reach nodes through the connection's host, or "
            "'node_addresses', as they reach each node at its own address."
        )
    return True


def parse_node_specs(given: Mapping[str, Any], *, where: str) -> Mapping[str, NodeSpec]:
    """Read node specs: host, or `default`, to `{"cores": 8, "memory": "32GiB"}`.

    Args:
        given: As written.
        where: What to call them in an error.

    Raises:
        ConfigurationError: If one is not of that form.
    """
    return MappingProxyType({node: _node_spec(spec, where=f"{where}: {node!r}") for node, spec in given.items()})


def _node_spec(given: Any, *, where: str) -> NodeSpec:
    if not isinstance(given, Mapping) or set(given) != {"cores", "memory"}:
        raise ConfigurationError(f'{where} must be like {{"cores": 8, "memory": "32GiB"}}, not {given!r}.')
    cores = given["cores"]
    if isinstance(cores, bool) or not isinstance(cores, int) or cores < 1:
        raise ConfigurationError(f"{where}: cores must be a whole number above 0, not {cores!r}.")
    try:
        return NodeSpec(cores=cores, memory_bytes=parse_memory(given["memory"]))
    except ValueError:
        raise ConfigurationError(
            f"{where}: memory must be bytes or text such as '32GiB', not {given['memory']!r}."
        ) from None


@cache
def client_name() -> str:
    """Return this package's version and Airflow's: `airflow-provider-chs3/0.1.0 airflow/3.1.0`."""
    return f"airflow-provider-chs3/{__version__} airflow/{version('apache-airflow')}"
