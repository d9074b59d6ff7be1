"""Files in HDFS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_chs3.sources.storage import Storage

if TYPE_CHECKING:
    from airflow_provider_chs3.client.listing import Listing
    from airflow_provider_chs3.core.files.object_source import ObjectSource


@dataclass(kw_only=True)
class HdfsFiles(Storage):
    """Files in HDFS. The worker lists them by WebHDFS, and the servers read them from the data nodes.

    Args:
        path: Template of the absolute paths of a period's files, as `key` of `S3ToClickHouseOperator`:
            `/lake/trips/{YYYY-MM}/*.parquet`.
        hdfs_url: URL of the name node as seen from the servers, with the user that they read as:
            `hdfs://user@namenode:8020`.
        webhdfs_conn_id: Connection of type `webhdfs`. Default: `webhdfs_default`.
    """

    template_fields: ClassVar[Sequence[str]] = ("path", "hdfs_url", "webhdfs_conn_id")
    kind_name: ClassVar[str] = "hdfs.reading:HDFS"
    options: ClassVar[Mapping[str, str]] = {"key": "path", "hdfs_url": "hdfs_url", "storage_conn_id": "webhdfs_conn_id"}

    path: str
    hdfs_url: str
    webhdfs_conn_id: str = "webhdfs_default"

    @property
    def template(self) -> str:
        """Template of the paths of a period's files, without the slash at their beginning."""
        return self.path.lstrip("/")

    def listing(self) -> Listing:
        """Return the listing, as seen from the worker."""
        from airflow_provider_chs3.sources.hdfs.listing import WebHdfsListing

        return WebHdfsListing(self.webhdfs_conn_id)

    def source(self, listing: Any) -> ObjectSource:
        """Return what the servers read; see `Storage.source`."""
        from airflow_provider_chs3.core.files.key_template import KeyTemplate
        from airflow_provider_chs3.sources.hdfs.reading import HdfsSource

        return HdfsSource(self.place, KeyTemplate(self.template), self.hdfs_url.rstrip("/"))

    def namespace(self, place: str) -> str:
        """Return OpenLineage's namespace: the name node."""
        scheme, _, rest = self.hdfs_url.rstrip("/").partition("://")
        return f"{scheme}://{rest.rpartition('@')[2]}"
