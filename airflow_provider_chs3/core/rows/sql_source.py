"""A table of a database as a source: a month of it is one object, whose version changes with its rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from airflow_provider_chs3.core.rows.dialect import Dialect, SqlColumn, SqlTable, sent_name
from airflow_provider_chs3.core.source.source import Batch, Source
from airflow_provider_chs3.core.source.store_kinds import StoreKind
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, literal, literals, one_of
from airflow_provider_chs3.core.values.models import Manifest, Month, S3Object
from airflow_provider_chs3.core.workflow.operations import ListObjects, Steps

#: What tells a server from all others of a cluster.
SERVER = "toString((serverUUID(), hostName(), tcpPort()))"
#: Names of the values within a view, which no column has.
_VALUE = "chs3: value {}"


@dataclass(frozen=True, kw_only=True)
class SqlAccess:
    """How the ClickHouse servers get at the database.

    Args:
        host: Its host and port, as reachable from the servers; empty with a named collection.
        database: The database.
        user: The user.
        password: The user's password.
        named_collection: A named collection on the servers, with all of this.
    """

    host: str = ""
    database: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    named_collection: str | None = None


@dataclass(frozen=True, kw_only=True)
class SqlSource(Source):
    """A table in a database.

    Args:
        dialect: The database's SQL.
        table: The table.
        columns: Its columns.
        full_name: Database, schema and table, joined by dots, without slashes.
        access: How the servers get at it.
        shards: What tells the servers of each shard from others (`SERVER`); empty on a single server, and until the
            insert.
    """

    dialect: Dialect
    table: SqlTable
    columns: tuple[SqlColumn, ...]
    full_name: str
    access: SqlAccess
    shards: tuple[tuple[str, ...], ...] = ()

    @property
    def kind(self) -> StoreKind:  # type: ignore[override]
        """What ClickHouse does differently for this database."""
        return self.dialect.kind

    @property
    def place(self) -> str:
        """Database, schema and table."""
        return self.full_name

    @property
    def pattern(self) -> str:
        """The column that says the month, for messages."""
        return self.table.month_column

    @property
    def named_collection(self) -> str | None:
        """The named collection through which the servers read; None if they use other credentials."""
        return self.access.named_collection

    def list_month(self, month: Month) -> Steps[tuple[SqlSource, Manifest]]:
        """Ask the database for the month's version; a month without rows has no object."""
        pages = yield from ListObjects(name=f"Look at {self.place}, {month}", bucket=self.place, prefix=str(month))
        return self, Manifest.of(each for page in pages for each in page.objects())

    def list_months(self, months: Collection[Month] | None) -> Steps[dict[Month, Manifest]]:
        """Ask the database for the versions of months.

        Args:
            months: The months; None means all that have rows.
        """
        if months is None:
            pages = yield from ListObjects(name=f"Look for months in {self.place}", bucket=self.place, prefix="")
            found = [each for page in pages for each in page.objects()]
            return {_month_of(each.path): Manifest((each,)) for each in found}
        listed = {}
        for month in months:
            _, listed[month] = yield from self.list_month(month)
        return listed

    def batches(self, manifest: Manifest) -> list[Batch]:
        """Return one batch for each month."""
        return [Batch(self.glob_of(each.path), (each.path,)) for each in manifest.objects]

    def glob_of(self, path: str) -> str:
        """Return the month as text."""
        return str(_month_of(path))

    def table_function(
        self,
        glob: str,
        *,
        file_format: str,
        cluster: str | None = None,
        structure: str = "auto",
        compression: str = "auto",
    ) -> Sql:
        """Return a sub-query of the month's rows: all of them on this server, or on each server its slice.

        Args:
            glob: The month.
            file_format: Not needed.
            cluster: The cluster whose servers read their slices, once it is known which they are.
            structure: Not needed: the database tells it.
            compression: Not needed.
        """
        shards = self.shards if cluster else ()
        readers = shards if self.table.key_column else shards[:1]
        month, count = Month.parse(glob), max(1, len(readers))
        parts = [self._rows(month, (number, count), readers[number] if readers else ()) for number in range(count)]
        return Sql(f"({' UNION ALL '.join(parts)})", (self.access.password,) if self.access.password else ())

    def _rows(self, month: Month, part: tuple[int, int], servers: Sequence[str]) -> str:
        query = self.dialect.rows_of_month(self.table, self.columns, month, part=part)
        # A column that cannot be NULL is sent as such by some databases only.
        values = [
            f"toNullable({each.read.format(sent_name(number))}) AS {identifier(each.name)}"
            for number, each in enumerate(self.columns)
        ]
        path = f"{literal(f'{self.place}/{month}')} AS _path"
        # A constant condition: the other servers do not ask for these rows at all.
        where = f" WHERE {one_of(SERVER, servers)}" if servers else ""
        return f"SELECT {', '.join([*values, path])} FROM {self._function(query)}{where}"

    def _function(self, query: str) -> str:
        given, name = self.access, self.kind.function
        if given.named_collection:
            return f"{name}({identifier(given.named_collection)}, query = {literal(query)})"
        where = f"{literals([given.host, given.database])}, query({literal(query)})"
        return f"{name}({where}, {literals([given.user, given.password])})"

    def select(self, values: Sequence[str], *, function: Sql, condition: str, cluster: str | None) -> Sql:
        """Return the SELECT of an insert; see `Source.select`.

        All of it is in the view: from a view, the servers' own INSERTs leave out expressions and conditions of the
        statement around it.
        """
        if not cluster:
            return super().select(values, function=function, condition=condition, cluster=None)
        names = [identifier(_VALUE.format(number)) for number in range(len(values))]
        made = ", ".join(f"{value} AS {name}" for value, name in zip(values, names, strict=True))
        view = f"view(SELECT {made} FROM {function.text} WHERE {condition})"
        return Sql(f"SELECT {', '.join(names)} FROM cluster({literal(cluster)}, {view})", function.secrets)


def rows_and_keys(version: str) -> tuple[int, int]:
    """Return a month's rows and the sum of their keys.

    Args:
        version: What `version_of` returned.
    """
    rows, keys, _ = version.split("/")
    return int(rows), int(keys)


def version_of(rows: int, keys: int, digest: str) -> str:
    """Return the version of a month.

    Args:
        rows: Its rows.
        keys: The sum of their keys; 0 if keys are not whole numbers.
        digest: What changes with the rows.
    """
    return f"{rows}/{keys}/{digest}"


def rows_of(manifest: Manifest) -> int:
    """Return the rows of all months of a manifest."""
    return sum(rows_and_keys(each.etag)[0] for each in manifest.objects)


def _month_of(path: str) -> Month:
    return Month.parse(path.rpartition("/")[2])


def unit_of(place: str, month: Month, *, version: str, size_bytes: int) -> S3Object:
    """Return a month as the object that a load records.

    Args:
        place: Database, schema and table.
        month: The month.
        version: Its version.
        size_bytes: An estimate of its size.
    """
    return S3Object(f"{place}/{month}", size_bytes, version, datetime.fromtimestamp(0, UTC))
