"""The test bed's servers as Docker containers, through testcontainers, if a Docker daemon answers.

They share the host's network, so that a test and a ClickHouse node reach S3 at the same URL.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from airflow_provider_chs3.testbed import node_config
from airflow_provider_chs3.testbed.nodes import Cluster
from airflow_provider_chs3.testbed.processes import HOST, free_ports, is_listening
from airflow_provider_chs3.testbed.programs.packages import ProgramMissingError
from airflow_provider_chs3.testbed.s3 import S3Endpoint

# The oldest supported release, as the engine of the local cluster is the newest.
CLICKHOUSE_IMAGE = os.environ.get("CHS3_CLICKHOUSE_IMAGE", "clickhouse/clickhouse-server:25.8")
S3_IMAGE = os.environ.get("CHS3_S3_IMAGE", "minio/minio:latest")

_START_TIMEOUT_SECONDS = 180.0
_POLL_SECONDS = 0.2


@contextmanager
def clickhouse_containers(named_collections: Mapping[str, Mapping[str, str]]) -> Iterator[Cluster]:
    """Run a cluster of three nodes with the same configuration as a local one."""
    with tempfile.TemporaryDirectory(prefix="chs3-docker-", ignore_cleanup_errors=True) as folder, ExitStack() as stack:
        described = node_config.describe(3, Path(folder))
        node_config.write(described, options=node_config.Options(named_collections=named_collections))
        for node in described:
            # The server writes into the folder as us, so that we can remove it.
            container = _container(CLICKHOUSE_IMAGE, user=f"{os.getuid()}:{os.getgid()}")
            container.with_env("CLICKHOUSE_CONFIG", f"{node.folder}/.clickhouse-local/config.xml")
            container.with_volume_mapping(str(node.folder), str(node.folder), "rw")
            stack.enter_context(container)
        for node in described:
            _wait(node.http_port, CLICKHOUSE_IMAGE)
        yield Cluster(described)


@contextmanager
def s3_container() -> Iterator[S3Endpoint]:
    """Run an S3 server that checks signatures."""
    port, console_port = free_ports(2)
    endpoint = S3Endpoint(f"http://{HOST}:{port}", access_key="chs3", secret_key="chs3-test-bed")
    container = _container(S3_IMAGE)
    container.with_env("MINIO_ROOT_USER", endpoint.access_key)
    container.with_env("MINIO_ROOT_PASSWORD", endpoint.secret_key)
    container.with_command(f"server /data --address {HOST}:{port} --console-address {HOST}:{console_port}")
    with container:
        _wait(port, S3_IMAGE)
        yield endpoint


def _container(image: str, **options: Any) -> Any:
    from docker.errors import DockerException
    from testcontainers.core.container import DockerContainer

    try:
        return DockerContainer(image, network_mode="host", **options)
    except DockerException as error:
        raise ProgramMissingError(f"No Docker daemon answers, which {image} needs: {error}") from error


def _wait(port: int, image: str) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_SECONDS
    while not is_listening(port):
        if time.monotonic() > deadline:
            raise RuntimeError(
                f"{image} does not listen on port {port} after {_START_TIMEOUT_SECONDS:.0f} s; see its log"
            )
        time.sleep(_POLL_SECONDS)
