"""ClickHouse over its native protocol, for this package's operators and for those of common-sql."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from airflow.providers.common.compat.sdk import AirflowOptionalProviderFeatureException

from airflow_provider_chs3.client.connection import ConnectionOptions
from airflow_provider_chs3.defaults import CLICKHOUSE_CONN_ID
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.hooks.running_task import airflow_log_comment
from airflow_provider_chs3.hooks.statements.statement_runs import StatementRuns

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Connection as AirflowConnection
    from airflow.providers.openlineage.sqlparser import DatabaseInfo
    from sqlalchemy.engine import URL, Engine

    from airflow_provider_chs3.hooks.statements.dbapi import Connection


class ClickHouseHook(StatementRuns):
    """The hook for connections of type `chs3`.

    Args:
        clickhouse_conn_id: The Airflow connection. Default: `chs3_default`.
        schema: Database of unqualified table names, instead of the connection's. common-sql's operators set the
            attribute of this name from their argument `database`.
        log_sql: Whether common-sql logs statements and parameters; False by default, because they may hold keys.
    """

    conn_name_attr = "clickhouse_conn_id"
    default_conn_name = CLICKHOUSE_CONN_ID
    conn_type = "chs3"
    hook_name = "ClickHouse (S3 loads)"
    # Every statement takes effect at once; there is nothing to commit.
    supports_autocommit = True

    def __init__(self, *args: Any, schema: str | None = None, log_sql: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, schema=schema, log_sql=log_sql, **kwargs)
        self.schema = schema

    @classmethod
    def with_options(cls, options: ConnectionOptions, *, clickhouse_conn_id: str) -> Self:
        """Return a hook for a connection already looked up: on an event loop, Airflow's own look-up would block.

        Args:
            options: The connection's fields.
            clickhouse_conn_id: Its id.
        """
        hook = cls(clickhouse_conn_id=clickhouse_conn_id)
        hook.options = options
        return hook

    @cached_property
    def options(self) -> ConnectionOptions:  # type: ignore[override]  # looked up once it is needed
        """The fields of the connection.

        Raises:
            ConfigurationError: If a field is wrong.
        """
        options = ConnectionOptions.from_airflow(self.connection)
        return replace(options, database=self.schema) if self.schema else options

    @property
    def log_comment(self) -> str:
        """The running task, as JSON."""
        return airflow_log_comment()

    def get_conn(self) -> Connection:
        """Return a DB-API connection, for common-sql."""
        from airflow_provider_chs3.hooks.statements.dbapi import Connection

        return Connection(self.options)

    def test_connection(self) -> tuple[bool, str]:  # type: ignore[override]  # common-sql's has no annotation
        """Try every host.

        Returns:
            Whether one of them works, and for each host its version and node, or the problem and how to fix it.
        """
        try:
            results = self.test_hosts()
        except ConfigurationError as error:
            return False, str(error)
        return any(works for works, _ in results), " ".join(message for _, message in results)

    @property
    def sqlalchemy_url(self) -> URL:
        """The URL for SQLAlchemy, with the dialect of the package clickhouse-sqlalchemy."""
        from sqlalchemy.engine import URL

        options = self.options
        (host, port), *further = options.hosts
        query = {name: str(value) for name, value in options.settings.items()}
        if options.secure:
            query |= {"secure": "True", "verify": str(options.verify)}
            of_tls = {name: getattr(options, name) for name in ("ca_certs", "certfile", "keyfile", "server_hostname")}
            query |= {name: value for name, value in of_tls.items() if value}
        if further:
            query["alt_hosts"] = ",".join(f"{host}:{port}" for host, port in further)
        login = {"username": options.user, "password": options.password}
        return URL.create("clickhouse+native", host=host, port=port, database=options.database, query=query, **login)

    def get_sqlalchemy_engine(self, engine_kwargs: dict[str, Any] | None = None) -> Engine:
        """Return an engine of SQLAlchemy over the native protocol.

        Args:
            engine_kwargs: Further arguments of `sqlalchemy.create_engine`.

        Raises:
            AirflowOptionalProviderFeatureException: If the package clickhouse-sqlalchemy is missing.
        """
        from sqlalchemy.exc import NoSuchModuleError

        try:
            return super().get_sqlalchemy_engine(engine_kwargs)
        except NoSuchModuleError:
            raise AirflowOptionalProviderFeatureException(
                "SQLAlchemy needs a dialect for ClickHouse: pip install 'clickhouse-sqlalchemy>=0.3'"
            ) from None

    def get_uri(self) -> str:
        """Return `sqlalchemy_url` as text, password included."""
        return self.sqlalchemy_url.render_as_string(hide_password=False)

    def get_openlineage_database_info(self, connection: AirflowConnection) -> DatabaseInfo:
        """Return the server's name for lineage: `clickhouse://host:port`."""
        from airflow.providers.openlineage.sqlparser import DatabaseInfo

        host, port = self.options.hosts[0]
        return DatabaseInfo(
            scheme="clickhouse",
            authority=f"{host}:{port}",
            information_schema_columns=["table_schema", "table_name", "column_name", "ordinal_position", "data_type"],
            # Names in ClickHouse are case-sensitive.
            normalize_name_method=lambda name: name,
        )

    def get_openlineage_default_schema(self) -> str:
        """Return the database of unqualified names."""
        return self.options.database


class PooledClickHouseHook(ClickHouseHook):
    """A hook whose `query` leaves connections open for the next one. Threads may share it."""

    keeps_connections = True

    def close(self) -> None:
        """Close all connections: idle ones now, those in use when their statement ends."""
        self._connections.close()
