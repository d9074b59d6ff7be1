"""Load a period of an Iceberg table into a ClickHouse table, exactly once."""

from __future__ import annotations

from typing import Any

from airflow_provider_chs3.defaults import AWS_CONN_ID
from airflow_provider_chs3.operators._support.period_load_task import PeriodLoadTask
from airflow_provider_chs3.sources.iceberg import IcebergTable


class IcebergToClickHouseOperator(PeriodLoadTask):
    """Make a period's partition hold exactly the rows that an Iceberg table's current snapshot has of that period.

    It does what `S3ToClickHouseOperator` does and takes the same arguments; these are in place of `key`, `bucket` and
    the credentials for S3. For a nightly load of the periods that changed, see `scheduled_load` with
    `objects=IcebergTable(…)`.

    Args:
        iceberg_table: The table in its catalog: `lake.trips`.
        time_column: The column of dates or timestamps that decides a row's period.
        iceberg_conn_id: Connection to the catalog. Default: `iceberg_default`.
        aws_conn_id: AWS connection for metadata, and for the servers' reads. Default: Airflow's
            `[chs3] aws_conn_id`, `aws_default`.
        endpoint_url: The storage's endpoint as seen from the servers. Default: the AWS connection's.
        row_timezone: The zone in which days and longer periods begin: that of ClickHouse's partition key. Default:
            `UTC`.

    Returns:
        As `S3ToClickHouseOperator`.
    """

    def __init__(
        self,
        *,
        iceberg_table: str,
        time_column: str,
        iceberg_conn_id: str = "iceberg_default",
        aws_conn_id: str | None = AWS_CONN_ID,
        endpoint_url: str | None = None,
        row_timezone: str = "UTC",
        **kwargs: Any,
    ) -> None:
        objects = IcebergTable(
            table=iceberg_table,
            time_column=time_column,
            iceberg_conn_id=iceberg_conn_id,
            aws_conn_id=aws_conn_id,
            endpoint_url=endpoint_url,
            timezone=row_timezone,
        )
        super().__init__(objects=objects, **kwargs)
