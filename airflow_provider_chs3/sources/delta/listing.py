"""Delta tables as the worker sees them, through `deltalake`: versions, data files, and what deletes rows of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from airflow_provider_chs3.core.model.period import FIRST_YEAR, LAST_YEAR, Period
from airflow_provider_chs3.core.model.table_snapshot import ANY_MOMENT, DataFile, TableSnapshot
from airflow_provider_chs3.exceptions import (
    Chs3Error,
    ConfigurationError,
    ObjectsChangedError,
    SourceError,
    TransientError,
)
from airflow_provider_chs3.sources.lakehouse.listing import (
    TableListing,
    moments_between,
    moments_of,
    path_of,
    split_url,
)

if TYPE_CHECKING:
    from deltalake import DeltaTable

_MAPPING = "delta.columnMapping.mode"


class DeltaListing(TableListing):
    """Lists the data files of a Delta table."""

    def __init__(self, *, uri: str, time_column: str, timezone: str, aws_conn_id: str | None) -> None:
        super().__init__(aws_conn_id)
        self.uri = uri
        self.time_column = time_column
        self.timezone = timezone

    @property
    def location(self) -> tuple[str, str]:
        """The bucket and the folder of the table; see `TableListing.location`."""
        return split_url(self.uri.rstrip("/"))

    def snapshot(self, pinned: str | None, periods: Collection[Period]) -> TableSnapshot:
        """Return the data files of a version; see `TableListing.snapshot`."""
        with self._errors(pinned):
            table = self._table(pinned)
            mode = table.metadata().configuration.get(_MAPPING, "none")
            if mode != "none":
                raise SourceError(
                    f"{self.uri} maps its columns to other names in files ({_MAPPING} is {mode!r}), and ClickHouse "
                    "reads columns by their names. Copy the table into one without column mapping."
                )
            names = frozenset(field.name for field in table.schema().fields)
            return TableSnapshot(
                str(table.version()), self.uri, self.time_column, self.timezone, names, tuple(self._files(table))
            )

    def _table(self, pinned: str | None) -> DeltaTable:
        from deltalake import DeltaTable

        return DeltaTable(self.uri, version=int(pinned) if pinned else None, storage_options=self._options())

    def _options(self) -> dict[str, str]:
        """Return how `deltalake` gets in: with the keys of the AWS connection."""
        keys, endpoint_url = self.access()
        named = {
            "AWS_ACCESS_KEY_ID": keys.access_key_id,
            "AWS_SECRET_ACCESS_KEY": keys.secret_access_key,
            "AWS_SESSION_TOKEN": keys.session_token,
            "AWS_REGION": self._hook.region_name,
            "AWS_ENDPOINT_URL": endpoint_url,
            "AWS_ALLOW_HTTP": "true" if endpoint_url.startswith("http://") else None,
            "AWS_SKIP_SIGNATURE": "true" if self.aws_conn_id is None else None,
        }
        return {name: value for name, value in named.items() if value}

    @contextmanager
    def _errors(self, pinned: str | None) -> Iterator[None]:
        """Make errors of `deltalake` those of this package."""
        try:
            yield
        except Chs3Error:
            raise
        except ImportError as error:
            raise ConfigurationError(
                "Delta needs a library that is not installed: install the extra delta of airflow-provider-chs3."
            ) from error
        except Exception as error:
            kind = type(error).__name__
            if kind == "TableNotFoundError":
                raise ConfigurationError(f"There is no Delta table at {self.uri}.") from None
            if pinned and kind == "DeltaError":
                raise ObjectsChangedError(
                    f"Version {pinned} of {self.uri} is gone: the table's log was cleaned up while it was loaded. "
                    "The period was not published."
                ) from None
            text = str(error).partition("\n")[0]
            if "nsupported" in text:
                raise SourceError(f"deltalake cannot read {self.uri}: {text}.") from None
            raise TransientError(f"Cannot list {self.uri}: {kind}: {text}.") from None

    def _files(self, table: DeltaTable) -> Iterator[DataFile]:
        """Yield the data files of a version, with the problems that the log shows."""
        import pyarrow as pa

        if self.time_column not in (names := [field.name for field in table.schema().fields]):
            raise ConfigurationError(
                f"time_column={self.time_column!r} is not a column of {self.uri}: it has {', '.join(names)}."
            )
        partitioned = self.time_column in table.metadata().partition_columns
        root, deleted = self.uri.rstrip("/"), _with_deleted_rows(table)
        for action in pa.table(table.get_add_actions(flatten=True)).to_pylist():
            # The log writes paths as in URLs.
            name = unquote(action["path"])
            path, problem = path_of(name if "://" in name else f"{root}/{name}", bucket=self.bucket)
            if path in deleted:
                problem = _problem(path)
            at = datetime.fromtimestamp(action["modification_time"] // 1000, UTC)
            moments = self._partition_moments(action) if partitioned else self._moments(action)
            yield DataFile(path, action["size_bytes"], action["num_records"] or 0, at, moments, problem)

    def _partition_moments(self, action: Mapping[str, Any]) -> tuple[datetime, datetime] | None:
        value = action[f"partition.{self.time_column}"]
        if value is None:
            return None
        if isinstance(value, date):
            return moments_of(value)
        year = str(value)[:4]
        if year.isascii() and year.isdigit() and (0 < int(year) < FIRST_YEAR or int(year) > LAST_YEAR):
            return None
        try:
            return moments_of(Period.parse(value))
        except ConfigurationError:
            raise ConfigurationError(
                f"time_column={self.time_column!r} has a partition {value!r}, which names no period: name a column of "
                "dates, of timestamps, or of texts such as '2026-01'."
            ) from None

    def _moments(self, action: Mapping[str, Any]) -> tuple[datetime, datetime] | None:
        rows, column = action["num_records"], self.time_column
        if rows and action.get(f"null_count.{column}") == rows:
            return None
        first, last = (action.get(f"{bound}.{column}") for bound in ("min", "max"))
        if not (isinstance(first, date) and isinstance(last, date)):
            return ANY_MOMENT
        # The log cuts off what is below a millisecond, which is never where a period ends.
        return moments_between(first, last)


def _problem(path: str) -> str:
    return (
        f"{path} has rows that a deletion vector removes, and a load reads only data files. Purge the table "
        "(REORG TABLE … APPLY (PURGE)), then load the period again."
    )


def _with_deleted_rows(table: DeltaTable) -> set[str]:
    """Return the paths of the data files that have deletion vectors."""
    if "deletionVectors" not in (table.protocol().reader_features or ()):
        return set()
    import pyarrow as pa

    vectors = pa.table(table.deletion_vectors())
    return {"/".join(split_url(url)) for url in vectors["filepath"].to_pylist()}
