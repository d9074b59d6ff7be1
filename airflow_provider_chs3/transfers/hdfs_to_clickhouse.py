"""Load a period of files in HDFS into a ClickHouse table, exactly once."""

from __future__ import annotations

from typing import Any

from airflow_provider_chs3.operators._support.period_load_task import PeriodLoadTask
from airflow_provider_chs3.sources.hdfs import HdfsFiles


class HdfsToClickHouseOperator(PeriodLoadTask):
    """Make a period's partition hold exactly the rows of that period's files in HDFS.

    It does what `S3ToClickHouseOperator` does and takes the same arguments; these are in place of `key`, `bucket` and
    the credentials for S3. For a nightly load of the periods that changed, see `scheduled_load` with
    `objects=HdfsFiles(…)`.

    Args:
        path: Template of the absolute paths of the period's files: `/lake/trips/{YYYY-MM}/*.parquet`.
        hdfs_url: URL of the name node as seen from the servers, with the user that they read as:
            `hdfs://user@namenode:8020`.
        webhdfs_conn_id: Connection of type `webhdfs`, for listing. Default: `webhdfs_default`.

    Returns:
        As `S3ToClickHouseOperator`.
    """

    def __init__(
        self,
        *,
        path: str,
        hdfs_url: str,
        webhdfs_conn_id: str = "webhdfs_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(objects=HdfsFiles(path=path, hdfs_url=hdfs_url, webhdfs_conn_id=webhdfs_conn_id), **kwargs)
