"""Load a period of objects in Google Cloud Storage into a ClickHouse table, exactly once."""

from __future__ import annotations

from typing import Any

from airflow_provider_chs3.operators._support.period_load_task import PeriodLoadTask
from airflow_provider_chs3.sources.gcs import GcsObjects


class GCSToClickHouseOperator(PeriodLoadTask):
    """Make a period's partition hold exactly the rows of that period's objects in Google Cloud Storage.

    It does what `S3ToClickHouseOperator` does and takes the same arguments; these are in place of `key`, `bucket` and
    the credentials for S3. For a nightly load of the periods that changed, see `scheduled_load` with
    `objects=GcsObjects(…)`.

    Args:
        object_name: Template of the names of the period's objects, without the bucket: `trips/{YYYY-MM}/*.parquet`.
        bucket: The bucket; leave it out where `named_collection` names it.
        hmac_conn_id: Connection of type `aws` that holds an HMAC key and the `endpoint_url` of Google, for listing, and
            for the servers' reads unless `named_collection` is set. Default: `gcs_hmac_default`.
        named_collection: A named collection on the servers that holds URL and key; ClickHouse then lists, too.

    Returns:
        As `S3ToClickHouseOperator`.
    """

    def __init__(
        self,
        *,
        object_name: str,
        bucket: str | None = None,
        hmac_conn_id: str = "gcs_hmac_default",
        named_collection: str | None = None,
        **kwargs: Any,
    ) -> None:
        objects = GcsObjects(
            object_name=object_name, bucket=bucket, hmac_conn_id=hmac_conn_id, named_collection=named_collection
        )
        super().__init__(objects=objects, **kwargs)
