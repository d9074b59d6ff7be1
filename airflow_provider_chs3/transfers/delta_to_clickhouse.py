"""Load a period of a Delta table into a ClickHouse table, exactly once."""

from __future__ import annotations

from airflow_provider_chs3.operators._support.period_load_task import PeriodLoadTask
from airflow_provider_chs3.sources.delta import DeltaTable


class DeltaToClickHouseOperator(PeriodLoadTask, storage=DeltaTable, called={"timezone": "row_timezone"}):
    """Make a period's partition hold exactly the rows that a Delta table's current version has of that period.

    It does what `S3ToClickHouseOperator` does and takes the same arguments; these are in place of `key`, `bucket` and
    the credentials for S3. For a nightly load of the periods that changed, see `scheduled_load` with
    `objects=DeltaTable(…)`.

    Returns:
        As `S3ToClickHouseOperator`.
    """
