"""Tables of lakehouses as the worker sees them: their snapshots, and the bucket that has their files."""

from __future__ import annotations

from abc import abstractmethod
from datetime import UTC, date, datetime, time
from typing import Any

from airflow_provider_chs3.client.listing import SnapshotListing
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.model.table_snapshot import ANY_MOMENT
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.sources.s3.listing import S3Listing

_SCHEMES = ("s3", "s3a", "s3n")


class TableListing(S3Listing, SnapshotListing):
    """Lists the data files of a table in S3."""

    @property
    @abstractmethod
    def location(self) -> tuple[str, str]:
        """The bucket and the folder of the table."""

    @property
    def bucket(self) -> str:
        """The bucket that has the table's files; see `location`."""
        return self.location[0]


def split_url(url: str) -> tuple[str, str]:
    """Return the bucket and the key of a URL in S3."""
    scheme, _, rest = url.partition("://")
    if scheme not in _SCHEMES or not rest:
        raise ConfigurationError(f"{url!r} is not in S3: only tables in S3 can be loaded.")
    bucket, _, key = rest.partition("/")
    return bucket, key


def moments_of(value: date | datetime | Period) -> tuple[datetime, datetime]:
    """Return the first and the last moment in UTC that a value stands for: a date for its day, a period for itself."""
    if isinstance(value, Period):
        return value.begin, value.last
    if isinstance(value, datetime):
        at = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
        return at, at
    return datetime.combine(value, time.min), datetime.combine(value, time.max)


def moments_between(first: Any, last: Any) -> tuple[datetime, datetime]:
    """Return the moments of a file by the least and the greatest of its dates or times."""
    return ANY_MOMENT if first is None or last is None else (moments_of(first)[0], moments_of(last)[1])


def path_of(url: str, *, bucket: str) -> tuple[str, str]:
    """Return the path of a data file, and its problem if it is not in the table's bucket."""
    folder, key = split_url(url)
    path = f"{folder}/{key}"
    return path, "" if folder == bucket else _is_elsewhere(path, bucket)


def _is_elsewhere(path: str, bucket: str) -> str:
    return f"{path} is not in the table's bucket {bucket!r}: rewrite the table's files into one bucket."
