"""A try to list and read objects, which reads little of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

from airflow_provider_chs3.core.source.formats import format_of_key
from airflow_provider_chs3.core.source.globs import plain_prefix
from airflow_provider_chs3.core.source.object_source import ObjectSource
from airflow_provider_chs3.core.source.prefixes import MonthKeys
from airflow_provider_chs3.core.source.source import AccessTrial
from airflow_provider_chs3.core.sql.quoting import Sql
from airflow_provider_chs3.core.values.models import Month, S3Object
from airflow_provider_chs3.core.workflow.operations import ListObjects, Steps
from airflow_provider_chs3.exceptions import ConfigurationError

#: One page of a listing of S3.
_LISTED_BY_WORKER = 1_000
#: With one thread, a server stops listing at this number of objects.
_LISTED_BY_SERVER = 100


@dataclass(frozen=True)
class ObjectTrial(AccessTrial):
    """A try to list the first objects of a month, and to read one.

    Args:
        source: The source.
        month: The month; None for any.
    """

    source: ObjectSource
    month: Month | None

    @property
    def where(self) -> str:
        """The prefix that is listed, for messages."""
        return f"{self.source.place}/{self._keys.prefix}"

    @property
    def options(self) -> str:
        """The options of the command line that say where the objects are."""
        return "--bucket and --key"

    @property
    def _keys(self) -> MonthKeys:
        template = self.source.template
        return template.keys_of(self.month) if self.month else template.keys_of_all

    def list_from_worker(self) -> Steps[Sequence[S3Object]] | None:
        """List the first page from the worker; None if ClickHouse lists."""
        return None if self.source.lists_through_clickhouse else self._first_page()

    def _first_page(self) -> Steps[Sequence[S3Object]]:
        name = f"List objects under {self.source.url}/{self._keys.prefix}"
        pages = yield from ListObjects(name=name, bucket=self.source.bucket, prefix=self._keys.prefix)
        return list(islice(chain.from_iterable(page.objects() for page in pages), _LISTED_BY_WORKER))

    def list_on_server(self) -> Sql:
        """Return the statement by which a server lists the first objects."""
        function = self.source.table_function(f"{plain_prefix(self._keys.prefix)}**", file_format="One")
        columns = f"{self.source.kind.path}, _size, _etag, toUnixTimestamp(_time)"
        return Sql(f"SELECT {columns} FROM {function.text} LIMIT {_LISTED_BY_SERVER}", function.secrets)

    def read_on_server(self, listed: Sequence[S3Object]) -> Sql | None:
        """Return the statement that reads the footer of Parquet, or the first line of another file."""
        source, keys = self.source, self._keys
        source = replace(source, base=source.base_of(listed, plain_prefix(keys.prefix)))
        fitting = [each for each in listed if keys.select(each.path[len(source.base) :], each.size_bytes)]
        return read_a_little(source, fitting)


def read_a_little(source: ObjectSource, objects: Sequence[S3Object]) -> Sql | None:
    """Return the statement that reads the footer of Parquet, or the first line of another file; None without any.

    Args:
        source: The source; its base is known.
        objects: The objects, of which the smallest is read.
    """
    if not objects:
        return None
    path = min(objects, key=lambda each: each.size_bytes).path
    glob = source.glob_of(path)
    if _is_parquet(path):
        function = source.table_function(glob, file_format="ParquetMetadata")
        return Sql(f"SELECT num_rows FROM {function.text} LIMIT 1", function.secrets)
    function = source.table_function(glob, file_format="LineAsString", structure="line String")
    return Sql(f"SELECT length(line) FROM {function.text} LIMIT 1", function.secrets)


def _is_parquet(path: str) -> bool:
    try:
        return format_of_key(path).name == "Parquet"
    except ConfigurationError:
        return False
