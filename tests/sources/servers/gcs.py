"""A local server of Google Cloud Storage: fake-gcs-server, compiled by Go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import quote

from airflow_provider_chs3.testbed.processes import HOST, LocalServer, free_ports
from airflow_provider_chs3.testbed.s3 import S3Endpoint
from tests.sources.servers.local import launch, new_folder
from tests.sources.servers.packages import from_go

_MODULE = "github.com/fsouza/fake-gcs-server"
_VERSION = "v1.47.8"


@dataclass(frozen=True, kw_only=True)
class GcsServer(LocalServer, S3Endpoint):
    """A running server: `start` it, and `stop` it or use it in a `with` block.

    ClickHouse and boto3 read it as they read Google's XML API with HMAC keys. It is written through Google's JSON API:
    by the methods here, or by Google's own clients. Unlike Google, it takes every key.
    """

    @classmethod
    def start(cls) -> Self:
        """Start a server and wait until it answers. The first time on a machine, Go compiles it: about a minute."""
        program = from_go(_MODULE, _VERSION)
        port = free_ports(1)[0]
        address = f"{HOST}:{port}"
        with new_folder("gcs") as folder:
            command = [str(program), "-scheme", "http", "-host", HOST, "-port", str(port), "-backend", "memory"]
            command += ["-public-host", address, "-external-url", f"http://{address}", "-log-level", "error"]
            process = launch(command, name="fake-gcs-server", folder=folder, port=port)
        keys = {"access_key": "GOOG1CHS3", "secret_key": "chs3-test-bed"}
        return cls(process=process, folder=folder, endpoint_url=f"http://{address}", **keys)

    def create_bucket(self, name: str) -> None:
        """Create a bucket."""
        self._ask("POST", "/storage/v1/b", params={"project": "chs3"}, json={"name": name})

    def put(self, bucket: str, key: str, body: bytes) -> None:
        """Put an object, in place of one of the same key."""
        where = f"/upload/storage/v1/b/{bucket}/o"
        self._ask("POST", where, params={"uploadType": "media", "name": key}, content=body)

    def delete(self, bucket: str, key: str) -> None:
        """Delete an object."""
        self._ask("DELETE", f"/storage/v1/b/{bucket}/o/{quote(key, safe='')}")

    def _ask(self, method: str, path: str, **options: Any) -> None:
        import httpx

        httpx.request(method, f"{self.endpoint_url}{path}", **options).raise_for_status()
