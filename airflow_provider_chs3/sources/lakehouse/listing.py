"""Tables of lakehouses as the worker sees them: their snapshots, and the bucket that has their files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from airflow_provider_chs3.core.values.period import FIRST_YEAR, LAST_YEAR, Period
from airflow_provider_chs3.core.values.table_snapshot import ALL_PERIODS, DataFile, TableSnapshot
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.sources.s3.listing import S3Listing

_SCHEMES = ("s3", "s3a", "s3n")


class TableListing(S3Listing):
    """Lists the data files of a table in S3.

    Args:
        aws_conn_id: The AWS connection.
    """

    @property
    @abstractmethod
    def location(self) -> tuple[str, str]:
        """The bucket and the folder of the table.

        Raises:
            ConfigurationError: If the table or the connection is wrong.
        """

    @property
    def bucket(self) -> str:
        """The bucket that has the table's files; see `location`."""
        return self.location[0]

    @abstractmethod
    def snapshot(self, pinned: str | None, periods: Collection[Period]) -> TableSnapshot:
        """Return the data files of a snapshot.

        Args:
            pinned: The snapshot's id; None for the current one.
            periods: The periods to load: their files are inspected closely.

        Raises:
            ConfigurationError: If the table or the connection is wrong.
            ObjectsChangedError: If the snapshot is gone.
            TransientError: If the catalog or the storage did not answer.
        """


def split_url(url: str) -> tuple[str, str]:
    """Return the bucket and the key of a URL in S3.

    Args:
        url: The URL.

    Raises:
        ConfigurationError: If it is not one of S3.
    """
    scheme, _, rest = url.partition("://")
    if scheme not in _SCHEMES or not rest:
        raise ConfigurationError(f"{url!r} is not in S3: only tables in S3 can be loaded.")
    bucket, _, key = rest.partition("/")
    return bucket, key


def period_of(value: Any) -> Period | None:
    """Return the period of a date or a time; None if there is no value, or no table holds such a period.

    Args:
        value: A date or a datetime.
    """
    if value is None or not FIRST_YEAR <= value.year <= LAST_YEAR:
        return None
    return Period.of_month(value.year, value.month)


def periods_between(first: Any, last: Any) -> tuple[Period, Period]:
    """Return the periods of a file by the least and the greatest of its dates or times.

    Args:
        first: The least one, a date or a datetime; None if it is not known.
        last: The greatest one.
    """
    if first is None or last is None:
        return ALL_PERIODS
    # What is out of range belongs to no period, but the rest of the file may.
    return period_of(first) or ALL_PERIODS[0], period_of(last) or ALL_PERIODS[1]


def with_problems(file: DataFile, *, table: str, time_column: str) -> DataFile:
    """Return the file, with a problem if it may hold rows of several periods.

    Args:
        file: The file.
        table: The table's name, for people.
        time_column: The column of dates or times.
    """
    if file.problem or file.periods is None or file.periods[0] == file.periods[1]:
        return file
    return replace(file, problem=_problem(file.path, *file.periods, table=table, time_column=time_column))


def _problem(path: str, first: Period, last: Period, *, table: str, time_column: str) -> str:
    holds = f"holds rows of {first} to {last}"
    if (first, last) == ALL_PERIODS:
        holds = f"does not show to which period its rows belong: it has no statistics of {time_column!r}"
    return (
        f"{path} of {table} {holds}, and files are loaded whole. Partition the table by period or day of "
        f"{time_column!r}, and rewrite its files."
    )


def path_of(url: str, *, bucket: str) -> tuple[str, str]:
    """Return the path of a data file, and its problem if it is not in the table's bucket.

    Args:
        url: The file's URL.
        bucket: The table's bucket.
    """
    found, key = split_url(url)
    path = f"{found}/{key}"
    return path, "" if found == bucket else _is_elsewhere(path, bucket)


def _is_elsewhere(path: str, bucket: str) -> str:
    return f"{path} is not in the table's bucket {bucket!r}: rewrite the table's files into one bucket."
