"""Files in HDFS."""

from __future__ import annotations

import re
from dataclasses import dataclass

from airflow_provider_chs3.core.files.object_source import ObjectSource
from airflow_provider_chs3.core.model.error_codes import is_without_name_node
from airflow_provider_chs3.core.model.models import Manifest, SettingValues, Unit
from airflow_provider_chs3.core.model.store_kind import StoreKind, exact_files
from airflow_provider_chs3.core.sql.quoting import Sql, literal
from airflow_provider_chs3.core.steps.operations import Query, Steps
from airflow_provider_chs3.exceptions import (
    ClickHouseConnectionError,
    ClickHouseServerError,
    ConfigurationError,
    NotReadyError,
    TransientError,
)

HDFS = StoreKind(
    title="HDFS",
    function="hdfs",
    privilege="READ ON HDFS",
    glob_argument="url",
    shape=("format", "structure", "compression_method"),
    # No events: there is one for reads through a pool of threads, which servers use or not by settings and sizes.
    exact=exact_files("hdfs"),
    # 26.9 begins it with a slash, 25.8 does not.
    path="concat('/', trim(LEADING '/' FROM _path))",
    no_cache={"schema_inference_use_cache_for_hdfs": 0},
    probe_settings={"schema_inference_use_cache_for_hdfs": 0},
)

#: Ends the version of a file that somebody is writing: only its whole blocks can be read.
BEING_WRITTEN = "-being-written"
#: A name node lists one file within milliseconds.
_ANSWER_SECONDS = 10.0
_NAME_NODE = re.compile(r"hdfs://([^/@:?#\s]+@)?[^/@:?#\s]+(:[0-9]+)?")


@dataclass(frozen=True)
class HdfsSource(ObjectSource):
    """Files in HDFS. A path is absolute, and begins with the slash that ends the empty bucket.

    Raises:
        ConfigurationError: If that is not such a URL.
    """

    kind = HDFS

    name_node_url: str

    def __post_init__(self) -> None:
        if not _NAME_NODE.fullmatch(self.name_node_url):
            raise ConfigurationError(
                f"hdfs_url={self.name_node_url!r} is not the URL of a name node: set it without a path and a "
                "password, such as 'hdfs://user@namenode:8020'."
            )

    @property
    def url(self) -> str:
        """The name node as a URL, for people and for lineage."""
        return self.name_node_url

    @property
    def server_url(self) -> str:
        """The URL at which the servers look for the storage."""
        return self.name_node_url

    @property
    def place(self) -> str:
        """The name node, for messages."""
        return self.name_node_url

    def check_access(self, manifest: Manifest, *, settings: SettingValues) -> Steps[None]:
        """Check that a name node answers the servers: they would try for 20 s, or for minutes if it is silent."""
        glob = self.glob_of(manifest.objects[0].path)
        sql = self.table_function(glob, file_format="One").between(f"SELECT {self.kind.path} FROM ", " LIMIT 1")
        name = f"Look for {self.name_node_url} from ClickHouse"
        try:
            yield from Query(name=name, sql=sql, settings=settings, answer_seconds=_ANSWER_SECONDS)
        except (ClickHouseConnectionError, ClickHouseServerError) as error:
            if not (error.is_timeout if isinstance(error, ClickHouseConnectionError) else is_without_name_node(error)):
                raise
            raise TransientError(
                f"{error.host} gets no answer from {self.name_node_url}: check hdfs_url, and whether the servers reach "
                "it."
            ) from error

    def check_readable(self, unit: Unit, key: str) -> None:
        """Check that a file is not being written: its last whole block may end in the middle of a row."""
        if unit.version.endswith(BEING_WRITTEN):
            raise NotReadyError(
                f"{unit.path} is being written, and only its first {unit.size_bytes:,} bytes can be read: the retry "
                "loads the period once the file is closed. Files that are written under another name, and renamed when "
                "they are whole, never stop a load."
            )

    def path_in_error(self, name: str) -> str:
        """Return a file's path as listed, from its name in an error of ClickHouse."""
        return f"/{name.lstrip('/')}"

    def _located(self, glob: str) -> Sql:
        return Sql(literal(f"{self.name_node_url}/{glob}"))
