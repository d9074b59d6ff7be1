"""Load a period of an Iceberg table into a ClickHouse table, exactly once."""

from __future__ import annotations

from airflow_provider_chs3.operators._support.period_load_task import PeriodLoadTask
from airflow_provider_chs3.sources.iceberg import IcebergTable

#: ClickHouse's table has the name `table`, and its periods `timezone`.
_CALLED = {"table": "iceberg_table", "timezone": "row_timezone"}


class IcebergToClickHouseOperator(PeriodLoadTask, storage=IcebergTable, called=_CALLED):
    """Make a period's partition hold exactly the rows that an Iceberg table's current snapshot has of that period.

    It does what `S3ToClickHouseOperator` does and takes the same arguments; these are in place of `key`, `bucket` and
    the credentials for S3. For a nightly load of the periods that changed, see `scheduled_load` with
    `objects=IcebergTable(…)`.

    Returns:
        As `S3ToClickHouseOperator`.
    """
