"""Load a period of rows of MySQL or MariaDB into a ClickHouse table, exactly once."""

from __future__ import annotations

from typing import Any

from airflow_provider_chs3.operators._support.period_load_task import PeriodLoadTask
from airflow_provider_chs3.sources.mysql import MySqlRows


class MySqlToClickHouseOperator(PeriodLoadTask):
    """Make a period's partition hold exactly the rows that a table of MySQL or MariaDB has of that period.

    It does what `S3ToClickHouseOperator` does and takes the same arguments, except those about files; these are in
    place of `key`, `bucket` and the credentials for S3. For a nightly load of the periods that changed, see
    `scheduled_load` with `objects=MySqlRows(…)`.

    Args:
        source_table: The table or view to read. `table` is ClickHouse's.
        time_column: The column that decides a row's period.
        schema: As in `airflow_provider_chs3.sources.mysql.MySqlRows`. Default: the connection's database.
        key_column: The column whose values divide the rows among the nodes. Default: none; one node reads all rows.
        fingerprint: An aggregate that changes with the period's rows. Default: a digest of all its values.
        row_timezone: The zone in which days and longer periods of a column of instants begin, and to which the hours of
            times without a zone belong. Default: `UTC`.
        mysql_conn_id: Connection of type `mysql`. Default: `mysql_default`.
        server_address: `host:port` as the ClickHouse servers reach the database. Default: the connection's.
        named_collection: A named collection on the servers that holds host, port, database, user and password.

    Returns:
        As `S3ToClickHouseOperator`.
    """

    def __init__(
        self,
        *,
        source_table: str,
        time_column: str,
        schema: str | None = None,
        key_column: str | None = None,
        fingerprint: str | None = None,
        row_timezone: str = "UTC",
        mysql_conn_id: str = "mysql_default",
        server_address: str | None = None,
        named_collection: str | None = None,
        **kwargs: Any,
    ) -> None:
        objects = MySqlRows(
            table=source_table,
            time_column=time_column,
            schema=schema,
            key_column=key_column,
            fingerprint=fingerprint,
            timezone=row_timezone,
            mysql_conn_id=mysql_conn_id,
            server_address=server_address,
            named_collection=named_collection,
        )
        super().__init__(objects=objects, **kwargs)
