"""A cluster, a hook on it, and TLS in front of it: the local engine has no TLS listener."""

from __future__ import annotations

import datetime
import ipaddress
import json
import shutil
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

if TYPE_CHECKING:
    from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
    from airflow_provider_chs3.testbed.nodes import Cluster, RunningNode


@pytest.fixture
def make_hook(chs3_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ClickHouseHook]:
    """A hook on the cluster's first node; arguments change fields of its connection, `extra` is merged."""

    def make(**changes: Any) -> ClickHouseHook:
        from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook

        fields = chs3_cluster.airflow_connection()
        fields |= changes | {"extra": fields["extra"] | changes.get("extra", {})}
        monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(fields))
        return ClickHouseHook()

    return make


@pytest.fixture
def hook(make_hook: Callable[..., ClickHouseHook]) -> ClickHouseHook:
    return make_hook()


@pytest.fixture
def first_node(chs3_cluster: Cluster) -> RunningNode:
    return chs3_cluster.nodes[0]


@pytest.fixture
def second_node(chs3_cluster: Cluster) -> RunningNode:
    return chs3_cluster.nodes[1]


@pytest.fixture
def closed_port() -> int:
    """A port of 127.0.0.1 where nothing listens."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        return listener.getsockname()[1]


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for 127.0.0.1, and its key, in one file."""
    return _write_certificate(tmp_path_factory.mktemp("tls") / "server.pem")


@pytest.fixture
def tls_in_front_of(certificate: Path) -> Iterator[Callable[..., int]]:
    """Give an address a TLS front; `client_ca` asks for a client certificate. Returns the front's port."""
    with ExitStack() as fronts:
        yield lambda *address, client_ca=None: fronts.enter_context(_tls_port(certificate, address, client_ca))


def _write_certificate(file: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test bed")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(address, critical=False)
        .sign(key, hashes.SHA256())
    )
    private_key = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(private_key + certificate.public_bytes(serialization.Encoding.PEM))
    return file


@contextmanager
def _tls_port(certificate: Path, address: tuple[str, int], client_ca: Path | None) -> Iterator[int]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    if client_ca:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(client_ca)
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        threading.Thread(target=_accept, args=(listener, context, address), daemon=True).start()
        yield listener.getsockname()[1]


def _accept(listener: socket.socket, context: ssl.SSLContext, address: tuple[str, int]) -> None:
    with suppress(OSError):
        while True:
            accepted, _ = listener.accept()
            threading.Thread(target=_serve, args=(accepted, context, address), daemon=True).start()


def _serve(accepted: socket.socket, context: ssl.SSLContext, address: tuple[str, int]) -> None:
    with (
        suppress(OSError),
        closing(accepted),
        context.wrap_socket(accepted, server_side=True) as client,
        socket.create_connection(address) as server,
    ):
        threading.Thread(target=_copy, args=(server, client), daemon=True).start()
        _copy(client, server)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError), source.makefile("rb", buffering=0) as reader, target.makefile("wb", buffering=0) as writer:
        shutil.copyfileobj(reader, writer)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
