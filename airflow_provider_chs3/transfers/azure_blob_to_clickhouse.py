"""Load a period of objects in Azure Blob Storage into a ClickHouse table, exactly once."""

from __future__ import annotations

from airflow_provider_chs3.operators._support.period_load_task import PeriodLoadTask
from airflow_provider_chs3.sources.azure import AzureBlobs


class AzureBlobToClickHouseOperator(PeriodLoadTask, storage=AzureBlobs):
    """Make a period's partition hold exactly the rows of that period's blobs.

    It does what `S3ToClickHouseOperator` does and takes the same arguments; these are in place of `key`, `bucket` and
    the credentials for S3. For a nightly load of the periods that changed, see `scheduled_load` with
    `objects=AzureBlobs(…)`.

    Returns:
        As `S3ToClickHouseOperator`.
    """
