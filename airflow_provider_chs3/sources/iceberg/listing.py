"""Iceberg tables as the worker sees them, through pyiceberg: snapshots, data files, and what deletes rows of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.core.model.period import Grain, Period
from airflow_provider_chs3.core.model.table_snapshot import ANY_MOMENT, DataFile, TableSnapshot
from airflow_provider_chs3.exceptions import Chs3Error, ConfigurationError, ObjectsChangedError, TransientError
from airflow_provider_chs3.sources.iceberg.columns import ColumnHistory
from airflow_provider_chs3.sources.iceberg.deletes import DeletedRows, DeleteFiles, digest_of, problem_of
from airflow_provider_chs3.sources.lakehouse.listing import (
    TableListing,
    moments_between,
    moments_of,
    path_of,
    split_url,
)

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile as IcebergFile
    from pyiceberg.manifest import ManifestEntry
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.types import NestedField

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Those of a partition that show the time of its rows.
_TRANSFORMS = ("year", "month", "day", "hour", "identity")


class IcebergListing(TableListing):
    """Lists the data files of an Iceberg table."""

    def __init__(
        self, *, table: str, time_column: str, iceberg_conn_id: str, timezone: str, aws_conn_id: str | None
    ) -> None:
        super().__init__(aws_conn_id)
        self.timezone = timezone
        self.table = table
        self.time_column = time_column
        self.iceberg_conn_id = iceberg_conn_id
        self._deleted_rows = DeletedRows()

    @property
    def location(self) -> tuple[str, str]:
        """The bucket and the folder of the table; see `TableListing.location`."""
        with self._errors():
            return split_url(self._loaded.location())

    def snapshot(self, pinned: str | None, periods: Collection[Period]) -> TableSnapshot:
        """Return the data files of a snapshot; see `TableListing.snapshot`."""
        with self._errors():
            table = self._loaded.refresh()
            current = table.current_snapshot()
            if pinned is None:
                pinned = str(current.snapshot_id) if current else ""
            snapshot = table.snapshot_by_id(int(pinned)) if pinned else None
            if pinned and snapshot is None:
                raise self._is_gone(pinned)
            names = frozenset(field.name for field in table.schema().fields)
            if snapshot is None:
                return TableSnapshot("", self.table, self.time_column, self.timezone, names, ())
            try:
                listed = list(self._files(table, snapshot))
                checked = ColumnHistory(table).checked(
                    [file for file, _ in listed if file.has_rows_of(periods, self.timezone)]
                )
                deletes = {file.path: deletes_of_file for file, deletes_of_file in listed if deletes_of_file}
                known = {file.path: file for file in self._deleted_rows.known(table.io, checked, deletes)}
            except FileNotFoundError as error:
                raise self._is_gone(pinned) from error
            files = tuple(known.get(file.path, file) for file, _ in listed)
            return TableSnapshot(pinned, self.table, self.time_column, self.timezone, names, files)

    def _is_gone(self, snapshot: str) -> ObjectsChangedError:
        return ObjectsChangedError(
            f"Snapshot {snapshot} of {self.table} is gone: the table was vacuumed (expire_snapshots) while it was "
            "loaded. The period was not published."
        )

    @cached_property
    def _loaded(self) -> Table:
        from pyiceberg.catalog import load_catalog

        properties = self._properties()
        name = properties.pop("catalog_name", "chs3")
        return load_catalog(name, **properties).load_table(self.table)

    def _properties(self) -> dict[str, Any]:
        """Return the catalog's properties, with the keys of the AWS connection unless the catalog brings its own."""
        from airflow.providers.common.compat.sdk import BaseHook

        given = BaseHook.get_connection(self.iceberg_conn_id)
        # Properties are texts, except for `auth`, which has some of its own.
        extra = {name: value if isinstance(value, dict) else str(value) for name, value in given.extra_dejson.items()}
        if "name" in extra:
            raise ConfigurationError(
                f"The extra of connection {self.iceberg_conn_id!r} has 'name', which is not a property of pyiceberg's "
                "catalogs: set the catalog's name as catalog_name."
            )
        catalog = {"uri": given.host} if given.host else {}
        if given.login and given.password:
            catalog["credential"] = f"{given.login}:{given.password}"
        if self.aws_conn_id is None:
            return {"s3.anonymous": "true", **catalog, **extra}
        keys, endpoint_url = self.access()
        named = {
            "s3.endpoint": endpoint_url,
            "s3.access-key-id": keys.access_key_id,
            "s3.secret-access-key": keys.secret_access_key,
            "s3.session-token": keys.session_token,
            "s3.region": self._hook.region_name,
        }
        # Glue, and REST catalogs of AWS, take the keys by these names.
        of_catalog = {name.replace("s3.", "client."): value for name, value in named.items() if name != "s3.endpoint"}
        given_keys = {name: value for name, value in (named | of_catalog).items() if value}
        return {**given_keys, **catalog, **extra}

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Make errors of libraries those of this package: their texts may hold a catalog's password."""
        try:
            yield
        except Chs3Error:
            raise
        except ImportError as error:
            raise ConfigurationError(
                "Iceberg needs a library that is not installed: install the extra iceberg of airflow-provider-chs3."
            ) from error
        except Exception as error:
            where = f"Cannot list {self.table} (connection {self.iceberg_conn_id!r})"
            kind = _kind_of(error)
            if kind in _TERMINAL:
                raise ConfigurationError(f"{where}: {_TERMINAL[kind]}.") from None
            raise TransientError(f"{where}: {kind}.") from None

    def _files(self, table: Table, snapshot: Snapshot) -> Iterator[tuple[DataFile, list[IcebergFile]]]:
        """Yield the data files of a snapshot, with the problems that manifests show, and the delete files of each."""
        from pyiceberg.manifest import DataFileContent

        entries = [
            (manifest.partition_spec_id, entry)
            for manifest in snapshot.manifests(table.io)
            for entry in manifest.fetch_manifest_entry(table.io)
        ]
        delete_files = DeleteFiles(table, entries)
        bucket = split_url(table.location())[0]
        committed = {ancestor.snapshot_id: ancestor.timestamp_ms for ancestor in table.snapshots()}
        column = _period_field(table, self.time_column)
        for spec_id, entry in entries:
            file = entry.data_file
            if file.content != DataFileContent.DATA:
                continue
            path, problem = path_of(file.file_path, bucket=bucket)
            deletes = delete_files.of(spec_id, entry)
            problem = problem or problem_of(path, self.table, deletes) or _problem(file, path, self.table)
            at = _EPOCH + timedelta(seconds=committed.get(entry.snapshot_id or 0, 0) // 1000)
            moments = _moments(table.specs()[spec_id], entry, column)
            size, digest = file.file_size_in_bytes, digest_of(deletes)
            yield DataFile(path, size, file.record_count, at, moments, problem, deletes=digest), deletes


_DENIED = "the catalog denies access: check the keys; Glue needs glue:GetTable on catalog, database and table"
#: Errors that will not pass by themselves, by the names of their classes, as pyiceberg is not imported here.
_TERMINAL = {
    "NoSuchTableError": "there is no such table. A SQL catalog has tables under its own name: set that as "
    "catalog_name in the connection's extra (default: chs3)",
    "NoSuchNamespaceError": "there is no such namespace",
    "NoSuchIcebergTableError": "it is not an Iceberg table",
    "UnauthorizedError": "the catalog refuses the credentials",
    "OAuthError": "the catalog refuses the credentials",
    "ForbiddenError": "the catalog denies access",
    "NotInstalledError": "pyiceberg lacks the library of this catalog: install its extra",
    "ValidationError": "the catalog's answer is not understood: a newer pyiceberg may know the table's version",
    "ValueError": "a property of the catalog is wrong",
    "NoCredentialsError": "no keys: set them in the AWS connection, or in the catalog's properties",
    "NoRegionError": "no region: set region_name in the AWS connection, or client.region in the catalog's properties",
    "AccessDeniedException": _DENIED,
    "403": _DENIED,
    "UnrecognizedClientException": "the catalog refuses the keys",
    "InvalidSignatureException": "the catalog refuses the keys",
    "ExpiredTokenException": "the session token has expired: set a new one in the AWS connection",
}


def _kind_of(error: Exception) -> str:
    """Return the name of an error's class; of AWS, the code of what the service answered."""
    response = getattr(error, "response", None)
    code = response.get("Error", {}).get("Code") if isinstance(response, Mapping) else None
    return str(code or type(error).__name__)


def _problem(file: IcebergFile, path: str, table: str) -> str:
    if file.file_format == "PARQUET":
        return ""
    return f"{path} of {table} is not Parquet: rewrite the table's files as Parquet."


def _period_field(table: Table, time_column: str) -> NestedField:
    """Return the column of periods."""
    column = next((field for field in table.schema().fields if field.name == time_column), None)
    if column is None:
        names = ", ".join(field.name for field in table.schema().fields)
        raise ConfigurationError(f"time_column={time_column!r} is not a column of the table: it has {names}.")
    if not str(column.field_type).startswith(("date", "timestamp")):
        raise ConfigurationError(
            f"time_column={time_column!r} is of type {column.field_type}: name a column of dates or timestamps."
        )
    return column


def _moments(spec: PartitionSpec, entry: ManifestEntry, column: NestedField) -> tuple[datetime, datetime] | None:
    """Return the first and the last moment of a file: what its partitions and its statistics leave."""
    file = entry.data_file
    if file.record_count and (file.null_value_counts or {}).get(column.field_id) == file.record_count:
        return None
    bounds = [moments_between(*(_bound(bound, column) for bound in (file.lower_bounds, file.upper_bounds)))]
    for place, field in enumerate(spec.fields):
        transform = str(field.transform)
        if field.source_id != column.field_id or transform not in _TRANSFORMS:
            continue
        # A value out of range is in no period.
        if file.partition[place] is None or (value := _value(file.partition[place], transform, column)) is None:
            return None
        bounds.append(moments_of(value))
    first, last = max(moments[0] for moments in bounds), min(moments[1] for moments in bounds)
    # Statistics that contradict the partition show nothing.
    return (first, last) if first <= last else ANY_MOMENT


def _bound(bounds: Mapping[int, bytes] | None, column: NestedField) -> date | datetime | Period | None:
    """Return a bound of the column in a file; None if it is not known."""
    from pyiceberg.conversions import from_bytes
    from pyiceberg.types import PrimitiveType

    written = (bounds or {}).get(column.field_id)
    if written is None or not isinstance(column.field_type, PrimitiveType):
        return None
    return _value(from_bytes(column.field_type, written), "identity", column)


def _value(value: Any, transform: str, column: NestedField) -> date | datetime | Period | None:
    """Return the date, time or period that a partition's or a bound's value stands for; None if it is out of range."""
    if isinstance(value, date):
        return value
    try:
        if transform == "year":
            return Period(datetime(1970 + value, 1, 1), Grain.YEAR)
        if transform == "month":
            return Period.of_month(1970 + value // 12, value % 12 + 1)
        if transform == "hour":
            return Period(_EPOCH.replace(tzinfo=None) + timedelta(hours=value), Grain.HOUR)
        kind = str(column.field_type)
        if transform == "day" or kind == "date":
            return _EPOCH.date() + timedelta(days=value)
        return _EPOCH + timedelta(microseconds=value // 1000 if "_ns" in kind else value)
    except (OverflowError, ValueError, ConfigurationError):
        return None
