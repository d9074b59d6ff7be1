"""Load a period of files in HDFS into a ClickHouse table, exactly once."""

from __future__ import annotations

from airflow_provider_chs3.operators._support.period_load_task import PeriodLoadTask
from airflow_provider_chs3.sources.hdfs import HdfsFiles


class HdfsToClickHouseOperator(PeriodLoadTask, storage=HdfsFiles):
    """Make a period's partition hold exactly the rows of that period's files in HDFS.

    It does what `S3ToClickHouseOperator` does and takes the same arguments; these are in place of `key`, `bucket` and
    the credentials for S3. For a nightly load of the periods that changed, see `scheduled_load` with
    `objects=HdfsFiles(…)`.

    Returns:
        As `S3ToClickHouseOperator`.
    """
