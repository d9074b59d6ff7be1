"""The whole way over TLS, with stunnel in front of every node: the local engine has no TLS of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
from airflow_provider_chs3.testbed.nodes import Cluster
from airflow_provider_chs3.testbed.processes import HOST, free_ports, is_listening
from airflow_provider_chs3.testbed.trips import Trips
from tests.support.lake import PERIOD, Lake
from tests.support.narrow_user import narrow_connection
from tests.support.refusal import refused
from tests.support.waiting import wait_until

TRIPS = Trips(rows_per_period=900, files_per_period=3)
STUNNEL = shutil.which("stunnel4") or shutil.which("stunnel")

pytestmark = pytest.mark.skipif(
    STUNNEL is None or shutil.which("openssl") is None,
    reason="stunnel or openssl is not installed (Debian: apt-get install stunnel4 openssl)",
)


def certificate(file: Path, *names: str) -> Path:
    """A self-signed certificate for these names, and its key, in one file."""
    key = file.with_suffix(".key")
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    made += ["-days", "1", "-subj", "/CN=test bed", "-addext", f"subjectAltName={','.join(names)}"]
    subprocess.run([*made, "-keyout", str(key), "-out", str(file)], check=True, capture_output=True)
    file.write_text(file.read_text() + key.read_text())
    return file


def tls_in_front_of(cluster: Cluster, pem: Path) -> AbstractContextManager[list[int]]:
    """One stunnel with a port for each node."""
    return tls_in_front_of_ports([node.tcp_port for node in cluster.nodes], pem)


@contextmanager
def tls_in_front_of_ports(behind: list[int], pem: Path) -> Iterator[list[int]]:
    """One stunnel with a port for each of these."""
    ports = free_ports(len(behind))
    services = [
        f"[{number}]\naccept = {HOST}:{port}\nconnect = {HOST}:{number}\ncert = {pem}\n"
        for number, port in zip(behind, ports, strict=True)
    ]
    configuration = pem.with_suffix(".conf")
    configuration.write_text("foreground = yes\npid =\n" + "".join(services))
    with pem.with_suffix(".log").open("wb") as log:
        process = subprocess.Popen([str(STUNNEL), str(configuration)], stdout=log, stderr=log)
    try:
        wait_until(lambda: process.poll() is not None or all(map(is_listening, ports)))
        assert process.poll() is None, pem.with_suffix(".log").read_text()
        yield ports
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certificate(tmp_path_factory.mktemp("tls") / "nodes.pem", f"IP:{HOST}", "DNS:localhost")


@pytest.fixture(scope="module")
def ports(chs3_cluster: Cluster, pem: Path) -> Iterator[list[int]]:
    with tls_in_front_of(chs3_cluster, pem) as ports:
        yield ports


@pytest.fixture
def connect(
    chs3_cluster: Cluster, chs3_airflow_connections: None, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., ClickHouseHook]:
    def connect(ports: list[int], **extra: Any) -> ClickHouseHook:
        addresses = {
            f"{node.host}:{node.tcp_port}": f"{HOST}:{port}"
            for node, port in zip(chs3_cluster.nodes, ports, strict=True)
        }
        fields = narrow_connection(chs3_cluster)
        extra = fields["extra"] | {"secure": True, "node_addresses": addresses} | extra
        fields |= {"host": HOST, "port": ports[0], "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(fields))
        return ClickHouseHook()

    return connect


@pytest.mark.thorough
def test_a_certificate_is_checked_unless_told_otherwise(connect: Callable[..., Any], ports: list[int]) -> None:
    with pytest.raises(ConfigurationError, match=r"not trusted: self-signed certificate.* 'ca_certs'"):
        connect(ports).query("SELECT 1")


@pytest.mark.thorough
def test_a_certificate_whose_authority_is_given_is_taken(
    connect: Callable[..., Any], ports: list[int], pem: Path
) -> None:
    assert connect(ports, ca_certs=str(pem)).query("SELECT 1") == [(1,)]


@pytest.mark.thorough
def test_a_certificate_of_another_host_is_refused(
    connect: Callable[..., Any], chs3_cluster: Cluster, tmp_path: Path
) -> None:
    other = certificate(tmp_path / "other.pem", "DNS:another.example")
    with (
        tls_in_front_of(chs3_cluster, other) as ports,
        pytest.raises(
            ConfigurationError, match=r"not trusted: IP address mismatch.* a name that its certificate holds"
        ),
    ):
        connect(ports, ca_certs=str(other)).query("SELECT 1")


@pytest.mark.thorough
@pytest.mark.three_nodes
def test_the_name_of_the_certificate_may_be_given(
    trips_lake: Lake, connect: Callable[..., Any], tmp_path: Path
) -> None:
    trips_lake.upload(TRIPS)
    other = certificate(tmp_path / "other.pem", "DNS:another.example")
    named = {"ca_certs": str(other), "server_hostname": "another.example"}
    with (
        tls_in_front_of(trips_lake.cluster, other) as ports,
        tls_in_front_of_ports([trips_lake.cluster.nodes[0].http_port], other) as (http_port,),
    ):
        connect(ports, http_port=http_port, **named)
        trips_lake.load(deferrable=True)
        with pytest.raises(ConfigurationError, match="not trusted: Hostname mismatch"):
            connect(ports, **(named | {"server_hostname": "third.example"})).query("SELECT 1")
    assert trips_lake.facts() == TRIPS.facts(PERIOD)


@pytest.mark.thorough
def test_without_verify_any_certificate_is_taken(connect: Callable[..., Any], ports: list[int]) -> None:
    assert connect(ports, verify=False).query("SELECT 1") == [(1,)]


@pytest.mark.three_nodes
def test_a_load_speaks_tls_with_every_node(
    trips_lake: Lake, connect: Callable[..., Any], ports: list[int], pem: Path
) -> None:
    trips_lake.upload(TRIPS)
    connect(ports, ca_certs=str(pem))
    trips_lake.load()
    assert trips_lake.facts() == TRIPS.facts(PERIOD)


@pytest.mark.thorough
@pytest.mark.three_nodes
def test_the_insert_of_a_deferrable_load_speaks_tls_over_http(
    trips_lake: Lake, connect: Callable[..., Any], ports: list[int], pem: Path, tmp_path: Path
) -> None:
    trips_lake.upload(TRIPS)
    http = certificate(tmp_path / "http.pem", f"IP:{HOST}")
    both = tmp_path / "both.pem"
    both.write_text(pem.read_text() + http.read_text())
    with tls_in_front_of_ports([trips_lake.cluster.nodes[0].http_port], http) as (port,):
        connect(ports, ca_certs=str(pem), http_port=port)
        with pytest.raises(AirflowFailException, match=r"not trusted: self-signed certificate.* 'ca_certs'"):
            trips_lake.load(deferrable=True)
        connect(ports, ca_certs=str(both), http_port=port)
        trips_lake.load(deferrable=True)
    assert trips_lake.facts() == TRIPS.facts(PERIOD)


def test_a_load_stops_at_a_node_whose_certificate_is_not_trusted(
    trips_lake: Lake, connect: Callable[..., Any], ports: list[int], pem: Path, tmp_path: Path
) -> None:
    trips_lake.upload(TRIPS)
    other = certificate(tmp_path / "other.pem", f"IP:{HOST}")
    with tls_in_front_of(trips_lake.cluster, other) as others:
        connect([*ports[:-1], others[-1]], ca_certs=str(pem))
        refused(trips_lake, f"{HOST}:{others[-1]} has a certificate that is not trusted")
