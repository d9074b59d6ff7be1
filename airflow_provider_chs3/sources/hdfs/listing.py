"""HDFS as the worker sees it: listing by WebHDFS, through a connection of type `webhdfs`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from airflow_provider_chs3.client.listing import WritableListing, cut
from airflow_provider_chs3.core.model.models import ObjectPage, Unit
from airflow_provider_chs3.sources.hdfs.reading import BEING_WRITTEN
from airflow_provider_chs3.sources.hdfs.webhdfs import WebHdfsAccess, WebHdfsClient


class WebHdfsListing(WritableListing):
    """Lists files of HDFS."""

    def __init__(self, webhdfs_conn_id: str) -> None:
        self.webhdfs_conn_id = webhdfs_conn_id

    def pages(
        self, bucket: str, prefix: str, narrower: Callable[[str], Sequence[str]] | None = None
    ) -> Iterator[ObjectPage]:
        """Yield the pages of the files whose paths begin with a prefix, folder by folder; see `Listing.pages`."""
        wanted = (narrower(prefix) if narrower else ()) or (prefix,)
        with self._client() as client:
            folders = [prefix.rpartition("/")[0]]
            while folders:
                folder = folders.pop()
                for statuses in client.folder(folder):
                    named = [(f"{folder}/{status['pathSuffix']}".lstrip("/"), status) for status in statuses]
                    files = [
                        (key, status)
                        for key, status in named
                        if status["type"] == "FILE" and key.startswith(tuple(wanted))
                    ]
                    yield ObjectPage.of(
                        [_file(f"{bucket}/{key}", status, client.is_cut(key, status)) for key, status in files]
                    )
                    folders += [key for key, status in named if _is_folder(key, status, wanted)]

    def read(self, bucket: str, key: str, start: int, length: int) -> Iterator[bytes]:
        """Yield a part of a file in pieces; see `WritableListing.read`."""
        with self._client() as client:
            for at, size in cut(start, length):
                yield client.read(key, at, size)

    def put(self, bucket: str, key: str, body: bytes) -> None:
        """Write a file, and the folders above it; see `WritableListing.put`."""
        with self._client() as client:
            client.write(key, body)

    def delete(self, bucket: str, prefix: str) -> None:
        """Delete the files and folders whose paths begin with a prefix; see `WritableListing.delete`."""
        folder, _, beginning = prefix.rpartition("/")
        with self._client() as client:
            if not beginning:
                client.remove(folder)
                return
            for name in [status["pathSuffix"] for page in client.folder(folder) for status in page]:
                if name.startswith(beginning):
                    client.remove(f"{folder}/{name}".lstrip("/"))

    def _client(self) -> WebHdfsClient:
        return WebHdfsClient(self.access(), f"HDFS (connection {self.webhdfs_conn_id!r})")

    def check_connection(self) -> None:
        """Check that the connection names a host; see `Listing.check_connection`."""
        self.access()

    def access(self) -> WebHdfsAccess:
        """Return what the connection says."""
        from airflow.providers.common.compat.sdk import BaseHook

        return WebHdfsAccess.of(BaseHook.get_connection(self.webhdfs_conn_id))


def _is_folder(key: str, status: dict[str, Any], wanted: Sequence[str]) -> bool:
    inside = f"{key}/"
    return status["type"] == "DIRECTORY" and any(
        inside.startswith(prefix) or prefix.startswith(inside) for prefix in wanted
    )


def _file(path: str, status: dict[str, Any], is_cut: bool) -> Unit:
    """Return a file: the id of its inode tells apart two of the same size that were written in one millisecond."""
    milliseconds = status["modificationTime"]
    return Unit(
        path=path,
        size_bytes=status["length"],
        version=f"{milliseconds}-{status.get('fileId', 0)}{BEING_WRITTEN if is_cut else ''}",
        last_modified=datetime.fromtimestamp(milliseconds / 1000, UTC),
    )
