"""A table of MySQL or MariaDB as the worker sees it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from airflow_provider_chs3.sources.database.listing import RowsListing
from airflow_provider_chs3.sources.mysql.reading import MySql

if TYPE_CHECKING:
    from airflow.providers.common.sql.hooks.sql import DbApiHook


class MySqlListing(RowsListing):
    """Asks MySQL or MariaDB about a table."""

    dialect = MySql()
    port = 3306
    extra = "mysql"
    drivers = ("MySQLdb", "mysql.connector")

    @cached_property
    def hook(self) -> DbApiHook:
        """Airflow's hook of the database, which connects."""
        from airflow.providers.mysql.hooks.mysql import MySqlHook

        return MySqlHook(
            connection=self.connection_with(charset="utf8mb4"),
            # Otherwise a fingerprint that is not an aggregate would be that of any row.
            init_command="SET SESSION sql_mode = CONCAT(@@sql_mode, ',ONLY_FULL_GROUP_BY')",
        )

    def is_transient(self, error: Exception) -> bool:
        """Check whether an error may pass by itself: no connection, too many, a lock, a shutdown."""
        return bool(error.args) and error.args[0] in (1040, 1053, 1203, 1205, 1213, 2002, 2003, 2006, 2013)
