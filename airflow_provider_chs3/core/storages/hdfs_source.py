"""Files in HDFS."""

from __future__ import annotations

import re
from dataclasses import dataclass

from airflow_provider_chs3.core.source.object_source import ObjectSource
from airflow_provider_chs3.core.source.store_kinds import HDFS
from airflow_provider_chs3.core.sql.quoting import Sql, literal
from airflow_provider_chs3.exceptions import ConfigurationError

_NAME_NODE = re.compile(r"hdfs://([^/@:?#\s]+@)?[^/@:?#\s]+(:[0-9]+)?")


@dataclass(frozen=True)
class HdfsSource(ObjectSource):
    """Files in HDFS. A path is absolute, and begins with the slash that ends the empty bucket.

    Args:
        bucket: Empty.
        template: Template of the paths of a month's files, without the slash at their beginning.
        name_node_url: URL of the name node, as reachable from the servers, and the user that they read as:
            `hdfs://user@host:8020`.

    Raises:
        ConfigurationError: If that is not such a URL.
    """

    kind = HDFS

    name_node_url: str

    def __post_init__(self) -> None:
        if not _NAME_NODE.fullmatch(self.name_node_url):
            raise ConfigurationError(
                f"hdfs_url={self.name_node_url!r} is not the URL of a name node: give it without a path and a "
                "password, such as 'hdfs://user@namenode:8020'."
            )

    @property
    def url(self) -> str:
        """The name node as a URL, for people and for lineage."""
        return self.name_node_url

    @property
    def named_collection(self) -> str | None:
        """None: a URL has no secrets."""
        return None

    @property
    def server_url(self) -> str:
        """The URL at which the servers look for the storage."""
        return self.name_node_url

    @property
    def place(self) -> str:
        """The name node, for messages."""
        return self.name_node_url

    def path_in_error(self, name: str) -> str:
        """Return a file's path as it is listed, from what an error of ClickHouse calls it."""
        return f"/{name.lstrip('/')}"

    def _located(self, glob: str) -> Sql:
        return Sql(literal(f"{self.name_node_url}/{glob}"))
