"""The kinds of storage that objects are read from, and what ClickHouse does differently for each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from airflow_provider_chs3.core.source.formats import Format
from airflow_provider_chs3.core.values.models import Setting, SettingValues


@dataclass(frozen=True, kw_only=True)
class StoreKind:
    """A kind of source, with all that ClickHouse does differently for it.

    Args:
        title: The storage's name, for people.
        function: The table function; with `Cluster` behind it, that of all nodes.
        privilege: What the user of the servers needs for it.
        glob_argument: Name of the glob where a named collection has the rest.
        shape: The order of format, structure and compression.
        bytes_event: The servers' counter of bytes received. For text it must be exact: it proves that files were read
            to their ends. None if there is none: text is then read twice.
        time_event: The servers' counter of microseconds that threads waited for the storage; None if there is none.
        path: SQL of an object's path as it is listed. Default: `_path`.
        unreadable: What ClickHouse does not read in a key as it is.
        exact: Settings without which an insert could lose rows.
        quick_failure: Settings of small reads: they fail within seconds if the storage does not answer; by default
            servers retry for minutes.
        no_cache: Settings that keep statements from caches that go by the time of the last write: if clocks differ,
            these would return an earlier version of an object.
        probe_settings: Settings of the doctor, which looks for storage that does not answer.
        format: The format of all objects; None if it follows from keys, or the user gives it.
    """

    title: str
    function: str
    privilege: str
    glob_argument: str
    shape: tuple[str, ...]
    bytes_event: str | None
    time_event: str | None
    exact: tuple[Setting, ...]
    path: str = "_path"
    unreadable: tuple[str, ...] = ()
    quick_failure: SettingValues = field(default_factory=dict)
    no_cache: SettingValues = field(default_factory=dict)
    probe_settings: SettingValues = field(default_factory=dict)
    format: Format | None = None

    @property
    def is_of_rows(self) -> bool:
        """Whether a month is rows of a database, and no objects."""
        return self.format is _ROWS

    @property
    def contents(self) -> str:
        """The word for the contents of a month in messages: rows or objects."""
        return "rows" if self.is_of_rows else "objects"

    @property
    def look_settings(self) -> SettingValues:
        """Settings of statements that inspect files which were listed."""
        return {**{each.name: each.value for each in self.exact}, **self.no_cache, **self.quick_failure}


_NONE_FOUND = "finding no file is an error"
_MISSING = "a missing file is an error"

S3 = StoreKind(
    title="S3",
    function="s3",
    privilege="READ ON S3",
    glob_argument="filename",
    shape=("format", "structure", "compression_method"),
    bytes_event="ReadBufferFromS3Bytes",
    time_event="ReadBufferFromS3Microseconds",
    # ClickHouse's S3 client refuses an empty name in a key, and cuts off a version.
    unreadable=("//", "?versionId="),
    exact=(
        Setting("s3_throw_on_zero_files_match", 1, _NONE_FOUND),
        Setting("s3_ignore_file_doesnt_exist", 0, _MISSING),
    ),
    # A lost connection request is sent again after a second, which is all the time that servers give it by default.
    quick_failure={"s3_retry_attempts": 5, "s3_connect_timeout_ms": 3_000},
    no_cache={"schema_inference_use_cache_for_s3": 0},
    probe_settings={
        "schema_inference_use_cache_for_s3": 0,
        # Adaptive timeouts would give it half a second.
        "s3_retry_attempts": 0,
        "s3_request_timeout_ms": 5_000,
        "s3_use_adaptive_timeouts": 0,
    },
)

AZURE_BLOB = StoreKind(
    title="Azure Blob Storage",
    function="azureBlobStorage",
    privilege="READ ON AZURE",
    glob_argument="blob_path",
    shape=("format", "compression_method", "structure"),
    bytes_event="ReadBufferFromAzureBytes",
    time_event="ReadBufferFromAzureMicroseconds",
    exact=(
        Setting("azure_throw_on_zero_files_match", 1, _NONE_FOUND),
        Setting("azure_ignore_file_doesnt_exist", 0, _MISSING),
    ),
    quick_failure={"azure_sdk_max_retries": 3},
    no_cache={"schema_inference_use_cache_for_azure": 0},
    probe_settings={"schema_inference_use_cache_for_azure": 0, "azure_sdk_max_retries": 0},
)

HDFS = StoreKind(
    title="HDFS",
    function="hdfs",
    privilege="READ ON HDFS",
    glob_argument="url",
    shape=("format", "structure", "compression_method"),
    # There is one for reads through a pool of threads, which servers use or not by settings and the size of a file.
    bytes_event=None,
    time_event=None,
    exact=(
        Setting("hdfs_throw_on_zero_files_match", 1, _NONE_FOUND),
        Setting("hdfs_ignore_file_doesnt_exist", 0, _MISSING),
    ),
    # 26.9 begins it with a slash, 25.8 does not.
    path="concat('/', trim(LEADING '/' FROM _path))",
    no_cache={"schema_inference_use_cache_for_hdfs": 0},
    probe_settings={"schema_inference_use_cache_for_hdfs": 0},
)

_ROWS = Format("rows", is_typed=True)
_NULLS = Setting("external_table_functions_use_nulls", 1, "NULL stays NULL")

POSTGRES = StoreKind(
    title="PostgreSQL",
    function="postgresql",
    privilege="READ ON POSTGRES",
    glob_argument="query",
    shape=(),
    bytes_event=None,
    time_event=None,
    exact=(_NULLS,),
    format=_ROWS,
)

MYSQL = StoreKind(
    title="MySQL",
    function="mysql",
    privilege="READ ON MYSQL",
    glob_argument="query",
    shape=(),
    bytes_event=None,
    time_event=None,
    exact=(
        _NULLS,
        Setting("external_storage_max_read_rows", 0, "no limit cuts the data off silently"),
        Setting("external_storage_max_read_bytes", 0, "no limit cuts the data off silently"),
    ),
    format=_ROWS,
)

STORE_KINDS = (S3, AZURE_BLOB, HDFS, POSTGRES, MYSQL)

#: The servers' counters of bytes received from a storage.
BYTES_EVENTS = tuple(kind.bytes_event for kind in STORE_KINDS if kind.bytes_event)

#: The servers' counters of microseconds that threads waited for a storage.
TIME_EVENTS = tuple(kind.time_event for kind in STORE_KINDS if kind.time_event)


def all_exact_settings() -> Iterator[Setting]:
    """Yield the exact settings of all kinds."""
    for kind in STORE_KINDS:
        yield from kind.exact
