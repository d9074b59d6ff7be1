"""Load a period of rows of MySQL or MariaDB into a ClickHouse table, exactly once."""

from __future__ import annotations

from airflow_provider_chs3.operators._support.period_load_task import PeriodLoadTask
from airflow_provider_chs3.sources.database import CALLED_BY_OPERATORS
from airflow_provider_chs3.sources.mysql import MySqlRows


class MySqlToClickHouseOperator(PeriodLoadTask, storage=MySqlRows, called=CALLED_BY_OPERATORS):
    """Make a period's partition hold exactly the rows that a table of MySQL or MariaDB has of that period.

    It does what `S3ToClickHouseOperator` does and takes the same arguments, except those about files; these are in
    place of `key`, `bucket` and the credentials for S3. For a nightly load of the periods that changed, see
    `scheduled_load` with `objects=MySqlRows(…)`.

    Returns:
        As `S3ToClickHouseOperator`.
    """
