"""Load a period of a Delta table into a ClickHouse table, exactly once."""

from __future__ import annotations

from typing import Any

from airflow_provider_chs3.defaults import AWS_CONN_ID
from airflow_provider_chs3.operators._support.period_load_task import PeriodLoadTask
from airflow_provider_chs3.sources.delta import DeltaTable


class DeltaToClickHouseOperator(PeriodLoadTask):
    """Make a period's partition hold exactly the rows that a Delta table's current version has of that period.

    It does what `S3ToClickHouseOperator` does and takes the same arguments; these are in place of `key`, `bucket` and
    the credentials for S3. For a nightly load of the periods that changed, see `scheduled_load` with
    `objects=DeltaTable(…)`.

    Args:
        uri: Where the Delta table is: `s3://lake/trips`.
        time_column: The column that decides a row's period; see `DeltaTable`.
        aws_conn_id: AWS connection for the log, and for the servers' reads. Default: Airflow's
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
        uri: str,
        time_column: str,
        aws_conn_id: str | None = AWS_CONN_ID,
        endpoint_url: str | None = None,
        row_timezone: str = "UTC",
        **kwargs: Any,
    ) -> None:
        objects = DeltaTable(
            uri=uri, time_column=time_column, aws_conn_id=aws_conn_id, endpoint_url=endpoint_url, timezone=row_timezone
        )
        super().__init__(objects=objects, **kwargs)
