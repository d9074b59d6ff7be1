"""A table of PostgreSQL as the worker sees it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.sources.database.listing import RowsListing
from airflow_provider_chs3.sources.postgres.reading import Postgres

if TYPE_CHECKING:
    from airflow.providers.common.sql.hooks.sql import DbApiHook

_CONNECT_SECONDS = 10


class PostgresListing(RowsListing):
    """Asks PostgreSQL about a table."""

    dialect = Postgres()
    port = 5432
    extra = "postgres"
    drivers = ("psycopg", "psycopg2")

    @cached_property
    def hook(self) -> DbApiHook:
        """Airflow's hook of the database, which connects."""
        from airflow.providers.postgres.hooks.postgres import PostgresHook

        options = {"connect_timeout": _CONNECT_SECONDS, **self.connection.extra_dejson}
        # Not the role's: names, and a fingerprint, may have characters that it lacks.
        return PostgresHook(connection=self.connection_with(**options | {"client_encoding": "UTF8"}))

    def tls_of_servers(self, extra: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
        """Return `sslmode` and the root certificate, whose file is the worker's, by its content."""
        tls = {"sslmode": str(extra["sslmode"])} if extra.get("sslmode") else {}
        if (root := extra.get("sslrootcert")) and root != "system":
            tls["sslrootcert_pem"] = Path(root).read_text(encoding="utf-8")
        return tuple(tls.items())

    def is_transient(self, error: Exception) -> bool:
        """Check whether an error may pass by itself: a server that refuses a login names no code, but says so."""
        state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
        if state is None:
            return "authentication failed" not in str(error) and "does not exist" not in str(error)
        return str(state)[:2] in ("08", "40", "53", "55", "57")
