"""Tables of databases that months are loaded from: one of these is the `objects` of operators and `monthly_load`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_chs3.objects import ObjectStore

if TYPE_CHECKING:
    from airflow_provider_chs3.core.rows.dialect import SqlTable
    from airflow_provider_chs3.core.rows.sql_source import SqlSource
    from airflow_provider_chs3.hooks.listing.rows import RowsListing


@dataclass(kw_only=True)
class TableRows(ObjectStore):
    """Rows of a table, each of which belongs to the month that one of its columns says."""

    template_fields: ClassVar[Sequence[str]] = ("table", "schema", "named_collection", "server_address")

    table: str
    month_column: str
    schema: str | None = None
    key_column: str | None = None
    fingerprint: str | None = None
    timezone: str = "UTC"
    server_address: str | None = None
    named_collection: str | None = None

    @property
    def template(self) -> str:
        """The month itself: a month is one object."""
        return "{YYYY-MM}"

    @property
    def place(self) -> str:
        """The table with its schema."""
        return f"{self.schema}.{self.table}" if self.schema else self.table

    def source(self, listing: Any) -> SqlSource:
        """Return what the servers read; see `ObjectStore.source`."""
        source: SqlSource = listing.source(server_address=self.server_address, named_collection=self.named_collection)
        return source

    def namespace(self, place: str) -> str:
        """Return OpenLineage's namespace of the database."""
        listing = self.listing()
        return f"{listing.dialect.scheme}://{listing.address}"

    def table_dataset(self) -> tuple[str, str]:
        """Return OpenLineage's namespace and name of the table."""
        return self.namespace(""), f"{self.listing().connection.schema}.{self.place}"

    @abstractmethod
    def listing(self) -> RowsListing:
        """Return what asks the database, from the worker."""

    def _table(self) -> SqlTable:
        from airflow_provider_chs3.core.rows.dialect import SqlTable

        return SqlTable(
            name=self.table,
            schema=self.schema,
            month_column=self.month_column,
            key_column=self.key_column,
            fingerprint=self.fingerprint,
            timezone=self.timezone,
        )


@dataclass(kw_only=True)
class PostgresRows(TableRows):
    """Rows of a table or view in PostgreSQL. The worker needs the extra `postgres` of this package.

    The worker asks the database for the version of a month, and the servers read its rows: both with the login of the
    connection, unless the servers have a named collection.

    Args:
        table: The table or view.
        month_column: The column that says a row's month: a `date`, `timestamp` or `timestamptz`. Rows with NULL in it
            belong to no month, and are not loaded.
        schema: The table's schema. Default: `public`.
        key_column: The column by whose values nodes share the rows of a month, such as the primary key; whole numbers
            are also summed up as proof. Default: none; one node reads all rows.
        fingerprint: An aggregate in the database's SQL that changes with every change of the month's rows, such as
            `sum(extract(epoch FROM updated_at)::numeric)`; the number of rows always counts too. Default: a digest of
            all values of the month, for which the database reads the month each time it is compared.
        timezone: The zone in which months of a `timestamptz` begin. Default: `UTC`.
        postgres_conn_id: Connection of type `postgres`. Default: `postgres_default`.
        server_address: `host:port` as the ClickHouse servers reach the database. Default: the connection's.
        named_collection: A named collection on the servers that holds host, port, database, user and password.
    """

    template_fields: ClassVar[Sequence[str]] = (*TableRows.template_fields, "postgres_conn_id")

    schema: str | None = "public"
    postgres_conn_id: str = "postgres_default"

    def listing(self) -> RowsListing:
        """Return what asks the database, from the worker."""
        from airflow_provider_chs3.hooks.listing.rows import PostgresListing

        return PostgresListing(self.postgres_conn_id, self._table())


@dataclass(kw_only=True)
class MySqlRows(TableRows):
    """Rows of a table or view in MySQL or MariaDB. The worker needs the extra `mysql` of this package.

    Args:
        table: The table or view.
        month_column: The column that says a row's month: a `DATE`, `DATETIME` or `TIMESTAMP`. Rows with NULL in it
            belong to no month, and are not loaded.
        schema: Another database than the connection's, on the same server. Default: none.
        key_column: As in `PostgresRows`.
        fingerprint: As in `PostgresRows`.
        timezone: The zone in which months of a `TIMESTAMP` begin. Default: `UTC`.
        mysql_conn_id: Connection of type `mysql`. Default: `mysql_default`.
        server_address: As in `PostgresRows`.
        named_collection: As in `PostgresRows`.
    """

    template_fields: ClassVar[Sequence[str]] = (*TableRows.template_fields, "mysql_conn_id")

    mysql_conn_id: str = "mysql_default"

    def listing(self) -> RowsListing:
        """Return what asks the database, from the worker."""
        from airflow_provider_chs3.hooks.listing.rows import MySqlListing

        return MySqlListing(self.mysql_conn_id, self._table())
