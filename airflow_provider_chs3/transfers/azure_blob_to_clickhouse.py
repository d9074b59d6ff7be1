"""Load a period of objects in Azure Blob Storage into a ClickHouse table, exactly once."""

from __future__ import annotations

from typing import Any

from airflow_provider_chs3.operators._support.period_load_task import PeriodLoadTask
from airflow_provider_chs3.sources.azure import AzureBlobs


class AzureBlobToClickHouseOperator(PeriodLoadTask):
    """Make a period's partition hold exactly the rows of that period's blobs.

    It does what `S3ToClickHouseOperator` does and takes the same arguments; these are in place of `key`, `bucket` and
    the credentials for S3. For a nightly load of the periods that changed, see `scheduled_load` with
    `objects=AzureBlobs(…)`.

    Args:
        blob: Template of the names of the period's blobs, without the container: `trips/{YYYY-MM}/*.parquet`.
        container: The container; leave it out where `named_collection` names it.
        wasb_conn_id: Connection of type `wasb`, for listing, and for the servers' reads unless `named_collection` is
            given. Default: `wasb_default`.
        named_collection: A named collection on the servers that holds container and key; ClickHouse then lists, too.

    Returns:
        As `S3ToClickHouseOperator`.
    """

    def __init__(
        self,
        *,
        blob: str,
        container: str | None = None,
        wasb_conn_id: str = "wasb_default",
        named_collection: str | None = None,
        **kwargs: Any,
    ) -> None:
        objects = AzureBlobs(
            blob=blob, container=container, wasb_conn_id=wasb_conn_id, named_collection=named_collection
        )
        super().__init__(objects=objects, **kwargs)
