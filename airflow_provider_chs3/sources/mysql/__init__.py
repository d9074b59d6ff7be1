"""Tables of MySQL and MariaDB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from airflow_provider_chs3.sources.database import TableRows

if TYPE_CHECKING:
    from airflow_provider_chs3.sources.database.listing import RowsListing


@dataclass(kw_only=True)
class MySqlRows(TableRows):
    """Rows of a table or view in MySQL or MariaDB. The worker needs the extra `mysql` of this package.

    Args:
        table: The table or view.
        time_column: The column that decides a row's period: a `DATE`, `DATETIME` or `TIMESTAMP`. Rows with NULL in it
            belong to no period, and are not loaded.
        schema: Another database than the connection's, on the same server. Default: none.
        key_column: The column whose values divide a period's rows among the nodes, such as the primary key; whole
            numbers are also summed up as proof. Default: none; one node reads all rows.
        fingerprint: An aggregate in the database's SQL that changes with every change of the period's rows, such as
            `sum(unix_timestamp(updated_at))`; the number of rows always counts too. Default: a digest of all values of
            the period, for which the database reads the period each time it is compared.
        timezone: The zone in which days and longer periods of a `TIMESTAMP` begin, and to which the hours of times
            without a zone belong. Default: `UTC`.
        mysql_conn_id: Connection of type `mysql`. Default: `mysql_default`.
        server_address: `host:port` as the ClickHouse servers reach the database. Default: the connection's.
        named_collection: A named collection on the servers that holds host, port, database, user and password.
    """

    template_fields: ClassVar[Sequence[str]] = (*TableRows.template_fields, "mysql_conn_id")
    kind_name: ClassVar[str] = "mysql.reading:MYSQL"
    options: ClassVar[Mapping[str, str]] = {**TableRows.options, "storage_conn_id": "mysql_conn_id"}

    mysql_conn_id: str = "mysql_default"

    def listing(self) -> RowsListing:
        """Return what asks the database, from the worker."""
        from airflow_provider_chs3.sources.mysql.listing import MySqlListing

        return MySqlListing(self.mysql_conn_id, self._table())
