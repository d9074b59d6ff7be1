"""Servers for benchmarks: an S3 server that is not the bottleneck, and nodes that are held to a part of a core."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.processes import HOST, free_ports, is_listening, kill, wait_until
from airflow_provider_chs3.testbed.s3 import S3Endpoint, S3Server

_VERSITYGW = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
#: Go calls its program by the name of its folder.
_PROXY = "toxiproxy-server"
_TOXIPROXY = "github.com/Shopify/toxiproxy/v2/cmd/server@v2.12.0"
_BIN = Path(__file__).parents[2] / ".dev" / "bin"
_CGROUPS = Path("/sys/fs/cgroup/cpu")
_PERIOD_US = 100_000


@dataclass(frozen=True)
class BenchS3:
    """An S3 server for a benchmark."""

    endpoint: S3Endpoint
    described: str
    folder: Path | None = None


@contextmanager
def s3_server(name: str | None) -> Iterator[BenchS3]:
    """An S3 server.

    VersityGW costs an INSERT less than a tenth over local files; moto, in Python, nearly half as much again, and takes
    CPU time from the servers under test.
    """
    program = None if name == "moto" else _program("versitygw", _VERSITYGW)
    if program is None and name == "versitygw":
        raise RuntimeError("VersityGW is not installed, and cannot be built without Go.")
    if program:
        with _run_versitygw(program) as server:
            yield server
    else:
        with S3Server.start() as moto:
            yield BenchS3(moto, "moto, whose CPU time counts in all figures")


@contextmanager
def _run_versitygw(program: str) -> Iterator[BenchS3]:
    with tempfile.TemporaryDirectory(prefix="chs3-bench-s3-") as folder:
        home, port = Path(folder), free_ports(1)[0]
        (home / "data").mkdir()
        with (home / "s3.log").open("wb") as log:
            process = subprocess.Popen(
                [program, "--port", f"{HOST}:{port}", "--quiet", "posix", str(home / "data")],
                env={**os.environ, "ROOT_ACCESS_KEY": "root", "ROOT_SECRET_KEY": "root-secret"},
                stdout=log,
                stderr=log,
            )
        try:
            wait_until(
                lambda: is_listening(port),
                process=process,
                name="VersityGW",
                logs=[home / "s3.log"],
                timeout_seconds=30,
            )
            yield BenchS3(S3Endpoint(f"http://{HOST}:{port}", "root", "root-secret"), "VersityGW", home / "data")
        finally:
            kill(process)


@dataclass(frozen=True, kw_only=True)
class Distance:
    """How far away an S3 server is."""

    first_byte_ms: int
    connection_mb_per_second: int

    def __str__(self) -> str:
        return f"{self.first_byte_ms} ms away, {self.connection_mb_per_second} MB/s a connection"


def is_toxiproxy_there() -> bool:
    """Whether it is installed."""
    return _found(_PROXY) is not None


def can_be_far() -> bool:
    """Whether an S3 server can be put at a distance here: with Toxiproxy, which Go builds."""
    return _program(_PROXY, _TOXIPROXY, built="server") is not None


@contextmanager
def far_away(s3: S3Endpoint, distance: Distance) -> Iterator[S3Endpoint]:
    """The same S3 server at a distance; on loopback it answers at once, and no connection waits for its bytes."""
    program = _program(_PROXY, _TOXIPROXY, built="server")
    assert program, "ask can_be_far before"
    api_port, port = free_ports(2)
    process = subprocess.Popen(
        [program, "-host", HOST, "-port", str(api_port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_until(lambda: is_listening(api_port), process=process, name="Toxiproxy", logs=[], timeout_seconds=30)
        upstream = urlsplit(s3.endpoint_url).netloc
        _post(api_port, "/proxies", {"name": "s3", "listen": f"{HOST}:{port}", "upstream": upstream, "enabled": True})
        for kind, attributes in (
            ("latency", {"latency": distance.first_byte_ms}),
            ("bandwidth", {"rate": 1000 * distance.connection_mb_per_second}),
        ):
            _post(api_port, "/proxies/s3/toxics", {"type": kind, "stream": "downstream", "attributes": attributes})
        yield replace(s3, endpoint_url=f"http://{HOST}:{port}")
    finally:
        kill(process)


def _post(port: int, path: str, body: dict[str, object]) -> None:
    connection = http.client.HTTPConnection(HOST, port, timeout=10)
    try:
        connection.request("POST", path, json.dumps(body))
        answer = connection.getresponse()
        if answer.status >= 300:
            raise RuntimeError(f"Toxiproxy answered {answer.status} to {path}: {answer.read()!r}")
    finally:
        connection.close()


def _found(name: str) -> str | None:
    return shutil.which(name, path=f"{_BIN}{os.pathsep}{os.environ.get('PATH', '')}")


def _program(name: str, module: str, *, built: str = "") -> str | None:
    """Where a program is; built once where Go is installed."""
    found = _found(name)
    if found or not shutil.which("go"):
        return found
    print(f"Building {module}, once; it takes a minute or two")
    subprocess.run(["go", "install", module], env={**os.environ, "GOBIN": str(_BIN)}, check=True)
    if built:
        (_BIN / built).rename(_BIN / name)
    return str(_BIN / name)


def can_limit_cores() -> bool:
    """Whether processes can be held to a part of a core here: with cgroups of version 1, as root."""
    return (_CGROUPS / "cgroup.procs").exists() and os.access(_CGROUPS, os.W_OK)


@contextmanager
def limited_to(cores: float, cluster: ClickHouseCluster) -> Iterator[None]:
    """Hold each node of a cluster to so many cores, such as 0.5, so that it behaves as a machine of its own."""
    groups = [_CGROUPS / f"chs3-bench-{node.pid}" for node in cluster.nodes]
    for node, group in zip(cluster.nodes, groups, strict=True):
        group.mkdir()
        (group / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(int(cores * _PERIOD_US)))
        (group / "cgroup.procs").write_text(str(node.pid))
    try:
        yield
    finally:
        for node, group in zip(cluster.nodes, groups, strict=True):
            (_CGROUPS / "cgroup.procs").write_text(str(node.pid))
            group.rmdir()


@contextmanager
def held_to(cores: float, *clusters: ClickHouseCluster) -> Iterator[str]:
    """Hold each node of the clusters to so many cores where that is possible; give what they are held to, in words."""
    if not can_limit_cores():
        yield "that share all cores, as to hold them takes root and cgroups of version 1"
        return
    with ExitStack() as stack:
        for cluster in clusters:
            stack.enter_context(limited_to(cores, cluster))
        yield f"of {cores:g} core{'s' if cores > 1 else ''} each"
