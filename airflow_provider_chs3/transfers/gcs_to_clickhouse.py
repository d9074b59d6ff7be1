"""Load a period of objects in Google Cloud Storage into a ClickHouse table, exactly once."""

from __future__ import annotations

from airflow_provider_chs3.operators._support.period_load_task import PeriodLoadTask
from airflow_provider_chs3.sources.gcs import GcsObjects


class GCSToClickHouseOperator(PeriodLoadTask, storage=GcsObjects):
    """Make a period's partition hold exactly the rows of that period's objects in Google Cloud Storage.

    It does what `S3ToClickHouseOperator` does and takes the same arguments; these are in place of `key`, `bucket` and
    the credentials for S3. For a nightly load of the periods that changed, see `scheduled_load` with
    `objects=GcsObjects(…)`.

    Returns:
        As `S3ToClickHouseOperator`.
    """
