"""A local HDFS, of one name node and one data node: Hadoop's minicluster, of Maven's jars."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event
from typing import Any, Self
from urllib.parse import quote, urlsplit

import httpx

from airflow_provider_chs3.testbed.processes import HOST, LocalServer, free_ports
from tests.sources.servers.local import launch, new_folder
from tests.sources.servers.packages import from_maven, required

_VERSION = "3.4.2"
_JARS = (
    *(f"org.apache.hadoop:hadoop-client-{part}:{_VERSION}" for part in ("minicluster", "runtime", "api")),
    # Without it, WebHDFS answers 500 on Java 17.
    "javax.xml.bind:jaxb-api:2.3.1",
)
#: For a small server that is up soon.
JAVA_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_OWNER = "chs3"
#: The first write of a new server takes seconds.
_TIMEOUT_SECONDS = 180.0
_WRITE_SECONDS = 1.0
#: HDFS takes no smaller ones (`dfs.namenode.fs-limits.min-block-size`).
_SMALLEST_BLOCK_BYTES = 1024**2


@dataclass(frozen=True, kw_only=True)
class HdfsServer(LocalServer):
    """A running HDFS whose files belong to one user: it checks permissions, but takes a user's word for the name."""

    url: str
    web_url: str

    def airflow_connection(self) -> dict[str, Any]:
        """Return the connection of type `webhdfs`."""
        url = urlsplit(self.web_url)
        return {"conn_type": "webhdfs", "host": url.hostname, "port": url.port, "login": _OWNER}

    @classmethod
    def start(cls) -> Self:
        java = required("java", hint="apt-get install default-jre-headless")
        jars = from_maven(f"hadoop-{_VERSION}", _JARS)
        port, web_port = free_ports(2)
        with new_folder("hdfs") as folder:
            details = folder / "details.json"
            command = [java, *JAVA_OPTIONS, "-cp", f"{jars}/*"]
            command += ["org.apache.hadoop.test.MiniDFSClusterManager", "-format", "-datanodes", "1"]
            command += ["-nnport", str(port), "-httpport", str(web_port), "-writeDetails", str(details)]
            command += ["-D", f"hdfs.minidfs.basedir={folder}/data", "-D", "dfs.permissions.enabled=true"]
            # A listing has several pages, which in a real one have 1,000 files each.
            command += ["-D", "dfs.ls.limit=2"]
            command += ["-D", f"hadoop.http.staticuser.user={_OWNER}"]
            # Its own user is the one who may make folders at the root.
            process = launch(
                command,
                name="HDFS",
                folder=folder,
                port=port,
                is_ready=lambda: details.exists() and details.stat().st_size > 0,
                environment={"HADOOP_USER_NAME": _OWNER},
            )
        url, web_url = f"hdfs://{_OWNER}@{HOST}:{port}", f"http://{HOST}:{web_port}/webhdfs/v1"
        return cls(process=process, folder=folder, url=url, web_url=web_url)

    def put(self, path: str, body: bytes, *, block_bytes: int | None = None) -> None:
        """Write a file, in place of one of the same path."""
        size = {"blocksize": str(block_bytes)} if block_bytes else {}
        asked = self._ask("PUT", path, "CREATE", overwrite="true", noredirect="true", **size)
        httpx.put(asked.json()["Location"], content=body, timeout=_TIMEOUT_SECONDS).raise_for_status()

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""
        url = f"{self.web_url}{quote(path)}"
        status = httpx.get(url, params={"op": "GETFILESTATUS", "user.name": _OWNER}, timeout=_TIMEOUT_SECONDS)
        return status.is_success

    def append(self, path: str, body: bytes) -> None:
        """Write more to a file."""
        asked = self._ask("POST", path, "APPEND", noredirect="true")
        httpx.post(asked.json()["Location"], content=body, timeout=_TIMEOUT_SECONDS).raise_for_status()

    @contextmanager
    def open_for_writing(self, path: str, body: bytes, rest: bytes, *, is_new: bool) -> Iterator[None]:
        """Write to a file that stays open: readers see all of it, and the name node counts whole blocks alone."""
        where = self._ask(
            "PUT" if is_new else "POST",
            path,
            "CREATE" if is_new else "APPEND",
            noredirect="true",
            **({"blocksize": str(_SMALLEST_BLOCK_BYTES)} if is_new else {}),
        ).json()["Location"]
        was_sent, is_over = Event(), Event()

        def content() -> Iterator[bytes]:
            yield body
            was_sent.set()
            is_over.wait(_TIMEOUT_SECONDS)
            yield rest

        with ThreadPoolExecutor() as pool:
            send = httpx.put if is_new else httpx.post
            sent = pool.submit(send, where, content=content(), timeout=_TIMEOUT_SECONDS)
            try:
                assert was_sent.wait(_TIMEOUT_SECONDS)
                # The data node writes it after it was sent.
                time.sleep(_WRITE_SECONDS)
                yield
            finally:
                is_over.set()
            sent.result().raise_for_status()

    def delete(self, path: str) -> None:
        """Delete a file."""
        self._ask("DELETE", path, "DELETE")

    def rename(self, path: str, other: str) -> None:
        """Give a file another path."""
        self._ask("PUT", path, "RENAME", destination=other)

    def set_permission(self, path: str, permission: str) -> None:
        """Set the permission of a file or a folder, in octal digits."""
        self._ask("PUT", path, "SETPERMISSION", permission=permission)

    def _ask(self, method: str, path: str, operation: str, **options: str) -> httpx.Response:
        parameters = {"op": operation, "user.name": _OWNER, **options}
        url = f"{self.web_url}{quote(path)}"
        return httpx.request(method, url, params=parameters, timeout=_TIMEOUT_SECONDS).raise_for_status()
