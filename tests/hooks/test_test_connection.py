"""The answer of a connection's button "Test": it works, or which field is wrong."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from airflow_provider_chs3.exceptions import Chs3Error, ClickHouseConnectionError, ConfigurationError
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster

if TYPE_CHECKING:
    from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
    from airflow_provider_chs3.testbed.nodes import Cluster, RunningNode
    from airflow_provider_chs3.testbed.s3 import S3Endpoint
    from tests.sources.servers.mysql import MySqlServer
    from tests.sources.servers.postgres import PostgresServer

MakeHook = Callable[..., "ClickHouseHook"]
TlsFront = Callable[..., int]


@pytest.fixture
def native_tls_port(first_node: RunningNode, tls_in_front_of: TlsFront) -> int:
    return tls_in_front_of(first_node.host, first_node.tcp_port)


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that takes connections and says nothing."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        yield listener.getsockname()[1]


def failure(hook: ClickHouseHook) -> str:
    works, message = hook.test_connection()
    assert not works
    return message


def no_connection(hook: ClickHouseHook) -> str:
    """A failed connection has one reason: a statement gives the same as the test."""
    message = failure(hook)
    with pytest.raises(Chs3Error) as caught:
        hook.query("SELECT 1")
    error = caught.value
    assert message == (
        f"{error.host}: {error.message}." if isinstance(error, ClickHouseConnectionError) else str(error)
    )
    return message


def test_success_tells_version_and_node(hook: ClickHouseHook, first_node: RunningNode) -> None:
    ((version, node),) = hook.query("SELECT version(), hostName()")
    address = f"{first_node.host}:{first_node.tcp_port}"
    assert hook.test_connection() == (True, f"{address} is ClickHouse {version} on node {node!r}.")


def test_a_wrong_password_is_told_and_not_shown(make_hook: MakeHook) -> None:
    message = failure(make_hook(password="hunter2"))
    assert ("user 'loader' or the password is wrong (516)" in message, "hunter2" in message) == (True, False)


def test_a_wrong_user_is_told(make_hook: MakeHook) -> None:
    assert "user 'nobody' or the password is wrong" in failure(make_hook(login="nobody"))


def test_an_unknown_database_is_told(make_hook: MakeHook) -> None:
    assert "there is no database 'nowhere' (81)" in failure(make_hook(schema="nowhere"))


def test_a_cluster_that_the_server_does_not_know_is_told(make_hook: MakeHook, chs3_cluster: Cluster) -> None:
    message = failure(make_hook(extra={"cluster": "no such"}))
    assert "which knows no cluster 'no such': change the extra 'cluster' to one of " in message
    assert chs3_cluster.name in message


def test_an_unknown_host_is_told(make_hook: MakeHook) -> None:
    message = no_connection(make_hook(host="no-such-host.invalid"))
    assert message.startswith("no-such-host.invalid:")
    assert message.endswith(": check the host's name.")


def test_a_port_where_nothing_listens_is_told(make_hook: MakeHook, closed_port: int) -> None:
    assert no_connection(make_hook(host="127.0.0.1", port=closed_port)) == (
        f"127.0.0.1:{closed_port}: Connection refused: nothing listens on this port; "
        "the native port is 9000 by default."
    )


def test_the_http_port_is_recognised(make_hook: MakeHook, first_node: RunningNode) -> None:
    address = f"{first_node.host}:{first_node.http_port}"
    assert no_connection(make_hook(port=first_node.http_port)) == (
        f"{address} speaks HTTP: this is ClickHouse's HTTP port. The native port is 9000 by default."
    )
    # A retry is no use.
    with pytest.raises(ConfigurationError):
        make_hook(port=first_node.http_port).query("SELECT 1")


def test_the_https_port_is_recognised(make_hook: MakeHook, first_node: RunningNode, tls_in_front_of: TlsFront) -> None:
    port = tls_in_front_of(first_node.host, first_node.http_port)
    message = no_connection(make_hook(host="127.0.0.1", port=port, extra={"secure": True, "verify": False}))
    assert message == (
        f"127.0.0.1:{port} speaks HTTP: this is ClickHouse's HTTP port. The native port is 9440 by default."
    )


def test_the_port_of_another_http_server_is_recognised(make_hook: MakeHook, chs3_s3: S3Endpoint) -> None:
    port = urlsplit(chs3_s3.endpoint_url).port
    message = no_connection(make_hook(host="127.0.0.1", port=port))
    assert message.startswith(f"127.0.0.1:{port} speaks HTTP, but is not ClickHouse: check host and port.")


def test_the_port_of_a_database_is_recognised(make_hook: MakeHook, chs3_mysql: MySqlServer) -> None:
    message = no_connection(make_hook(host="127.0.0.1", port=chs3_mysql.port))
    assert message.startswith(f"127.0.0.1:{chs3_mysql.port} is not ClickHouse: check host and port.")


def test_a_server_that_hangs_up_is_said(make_hook: MakeHook, chs3_postgres: PostgresServer) -> None:
    message = no_connection(make_hook(host="127.0.0.1", port=chs3_postgres.port))
    assert "it accepts the connection, but does not answer as ClickHouse does (" in message


def test_of_several_hosts_each_is_explained(make_hook: MakeHook, closed_port: int) -> None:
    hook = make_hook(host="127.0.0.1", port=closed_port, extra={"alt_hosts": "no-such-host.invalid"})
    with pytest.raises(ClickHouseConnectionError) as caught:
        hook.query("SELECT 1")
    assert f"127.0.0.1:{closed_port}: Connection refused" in caught.value.message
    assert "no-such-host.invalid:" in caught.value.message


def test_a_server_that_says_nothing_is_told(make_hook: MakeHook, silent_port: int) -> None:
    message = no_connection(make_hook(host="127.0.0.1", port=silent_port, extra={"connect_timeout_seconds": 0.5}))
    assert message.startswith(f"127.0.0.1:{silent_port}: timed out: it accepts the connection, but sends nothing;")


def test_a_host_that_does_not_answer_is_told(make_hook: MakeHook) -> None:
    # TEST-NET-1 (RFC 5737): packets to it are dropped, or refused as unreachable where there is no route.
    message = no_connection(make_hook(host="192.0.2.1", extra={"connect_timeout_seconds": 0.5}))
    assert message.startswith("192.0.2.1:")


def test_plain_on_a_tls_port_is_told(make_hook: MakeHook, native_tls_port: int) -> None:
    assert (
        no_connection(make_hook(host="127.0.0.1", port=native_tls_port))
        == f"127.0.0.1:{native_tls_port} speaks TLS: switch TLS on (the connection's extra 'secure')."
    )


def test_tls_on_a_plain_port_is_told(make_hook: MakeHook, first_node: RunningNode) -> None:
    address = f"{first_node.host}:{first_node.tcp_port}"
    assert no_connection(make_hook(extra={"secure": True})) == (
        f"{address} does not speak TLS: switch TLS off, or use the port that does."
    )


def test_tls_on_the_http_port_is_told(make_hook: MakeHook, first_node: RunningNode) -> None:
    message = no_connection(make_hook(port=first_node.http_port, extra={"secure": True}))
    assert "does not speak TLS" in message


def test_a_certificate_that_nobody_vouches_for_is_told(make_hook: MakeHook, native_tls_port: int) -> None:
    message = failure(make_hook(host="127.0.0.1", port=native_tls_port, extra={"secure": True}))
    assert "has a certificate that is not trusted" in message


def test_tls_works_with_the_right_ca(make_hook: MakeHook, native_tls_port: int, certificate: Path) -> None:
    hook = make_hook(host="127.0.0.1", port=native_tls_port, extra={"secure": True, "ca_certs": str(certificate)})
    assert hook.test_connection()[0]


def test_tls_works_unverified(make_hook: MakeHook, native_tls_port: int) -> None:
    assert make_hook(host="127.0.0.1", port=native_tls_port, extra={"secure": True, "verify": False}).test_connection()[
        0
    ]


def test_a_client_certificate_is_sent(
    make_hook: MakeHook, first_node: RunningNode, tls_in_front_of: TlsFront, certificate: Path
) -> None:
    port = tls_in_front_of(first_node.host, first_node.tcp_port, client_ca=certificate)
    files = {"ca_certs": str(certificate), "certfile": str(certificate)}
    assert make_hook(host="127.0.0.1", port=port, extra={"secure": True, **files}).test_connection()[0]


def test_a_missing_client_certificate_is_told(
    make_hook: MakeHook, first_node: RunningNode, tls_in_front_of: TlsFront, certificate: Path
) -> None:
    port = tls_in_front_of(first_node.host, first_node.tcp_port, client_ca=certificate)
    message = failure(make_hook(host="127.0.0.1", port=port, extra={"secure": True, "ca_certs": str(certificate)}))
    assert "it may want a client certificate, 'certfile' and 'keyfile'" in message


def test_every_host_is_tried(make_hook: MakeHook, first_node: RunningNode, closed_port: int) -> None:
    works, message = make_hook(extra={"alt_hosts": f"127.0.0.1:{closed_port}"}).test_connection()
    assert (works, f"127.0.0.1:{closed_port}: Connection refused" in message) == (True, True)


def test_a_wrong_extra_is_told(make_hook: MakeHook) -> None:
    assert "did you mean 'compression'?" in failure(make_hook(extra={"compresion": "lz4"}))


@pytest.mark.thorough
def test_a_user_who_may_not_change_settings_is_told(make_hook: MakeHook, tmp_path: Path) -> None:
    user = "<networks><ip>::/0</ip></networks><quota>default</quota>"
    (tmp_path / "users.xml").write_text(
        "<clickhouse><quotas><default/></quotas><profiles><default/><locked><readonly>1</readonly></locked></profiles>"
        f"<users><default><password/><profile>default</profile>{user}</default>"
        f"<viewer><password>pw</password><profile>locked</profile>{user}</viewer></users></clickhouse>"
    )
    users = {"user_directories": {"users_xml": {"path": tmp_path / "users.xml"}}}
    with ClickHouseCluster.start(nodes=1, server_settings=users) as cluster:
        (node,) = cluster.nodes
        message = failure(make_hook(host=node.host, port=node.tcp_port, login="viewer", password="pw"))
    assert "user 'viewer' has readonly = 1, which refuses log_comment (164). Use readonly = 2." in message
