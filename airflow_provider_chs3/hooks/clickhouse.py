"""ClickHouse over its native protocol, for this package's operators and for those of common-sql."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.providers.common.sql.hooks.sql import DbApiHook

from airflow_provider_chs3.hooks.connection import Address, ConnectionOptions, check_settings
from airflow_provider_chs3.hooks.log_comment import airflow_log_comment

if TYPE_CHECKING:
    from airflow_provider_chs3.hooks.driver import Client


class ClickHouseHook(DbApiHook):
    """A connection of type `chs3`.

    Every statement has a query id of its own and carries dag, task, run, try and map index in `log_comment`, so that
    `system.query_log` tells who sent it. Statements are not logged unless `log_sql=True`: they may hold keys.

    Args:
        clickhouse_conn_id: The Airflow connection, `chs3_default` by default.
    """

    conn_name_attr = "clickhouse_conn_id"
    default_conn_name = "chs3_default"
    conn_type = "chs3"
    hook_name = "ClickHouse (S3 loads)"

    def __init__(self, *args: Any, log_sql: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, log_sql=log_sql, **kwargs)

    @cached_property
    def options(self) -> ConnectionOptions:
        """What the connection says.

        Raises:
            ConfigurationError: If a field is wrong.
        """
        return ConnectionOptions.from_airflow(self.connection)

    def client(self, *, address: Address | None = None, send_receive_timeout_seconds: float | None = None) -> Client:
        """A client of clickhouse-driver: `with hook.client() as client: …` closes it at the end.

        Args:
            address: One node's address; None takes the connection's hosts, with failover.
            send_receive_timeout_seconds: Overrides the connection's.
        """
        from airflow_provider_chs3.hooks.driver import open_client

        return open_client(self.options, address=address, send_receive_timeout_seconds=send_receive_timeout_seconds)

    def query(
        self,
        sql: str,
        *,
        query_id: str | None = None,
        settings: Mapping[str, Any] | None = None,
        address: Address | None = None,
        secrets: Sequence[str] = (),
        send_receive_timeout_seconds: float | None = None,
    ) -> list[tuple[Any, ...]]:
        """Run one statement over a connection of its own.

        Args:
            sql: The statement.
            query_id: Its id; None makes one.
            settings: Settings for this statement, over the connection's. `log_comment` is set unless given here.
            address: One node's address; None takes the connection's hosts, with failover.
            secrets: What the statement holds and no message may show; the connection's password is added.
            send_receive_timeout_seconds: Overrides the connection's.

        Returns:
            The rows; none for a statement without a result.

        Raises:
            ClickHouseServerError: The server answered with an error.
            ClickHouseConnectionError: It did not answer, or the connection broke.
        """
        from airflow_provider_chs3.hooks.driver import translated_errors

        query_id = query_id or str(uuid.uuid4())
        all_settings = {"log_comment": airflow_log_comment()} | dict(check_settings(settings or {}, where="settings"))
        client = self.client(address=address, send_receive_timeout_seconds=send_receive_timeout_seconds)
        with translated_errors(client, query_id=query_id, secrets=(*secrets, self.options.password)), client:
            rows = client.execute(sql, query_id=query_id, settings=all_settings)
        return rows if isinstance(rows, list) else []
