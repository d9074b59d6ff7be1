"""Objects in Google Cloud Storage, listed and read as those of S3 (`sources/s3`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_chs3.sources.storage import Storage, same_names

if TYPE_CHECKING:
    from airflow.sdk import ObjectStoragePath

    from airflow_provider_chs3.client.listing import Listing
    from airflow_provider_chs3.core.files.object_source import ObjectSource


@dataclass(kw_only=True)
class GcsObjects(Storage):
    """Objects in Google Cloud Storage, read through its XML API with an HMAC key.

    Args:
        object_name: Template of the names of a period's objects, as `key` of `S3ToClickHouseOperator`:
            `trips/{YYYY-MM}/*.parquet`, or with the bucket `gs://lake/trips/{YYYY-MM}/*.parquet`.
        bucket: The bucket; leave it out where `object_name` or `named_collection` names it.
        hmac_conn_id: Connection of type `aws` that holds an HMAC key and the `endpoint_url` of Google. Default:
            `gcs_hmac_default`.
        named_collection: A named collection on the servers that holds URL and key; ClickHouse then lists, too.
    """

    template_fields: ClassVar[Sequence[str]] = ("object_name", "bucket", "hmac_conn_id", "named_collection")
    kind_name: ClassVar[str] = "s3.reading:S3"
    options: ClassVar[Mapping[str, str]] = {
        **{"key": "object_name", "storage_conn_id": "hmac_conn_id"},
        **same_names("bucket", "named_collection"),
    }

    schemes: ClassVar[Sequence[str]] = ("gs", "gcs")

    object_name: str | ObjectStoragePath
    bucket: str | None = None
    hmac_conn_id: str = "gcs_hmac_default"
    named_collection: str | None = None

    def listing(self) -> Listing:
        """Return the listing, as seen from the worker."""
        from airflow_provider_chs3.sources.s3.listing import S3Listing

        return S3Listing(self.hmac_conn_id)

    def source(self, listing: Any) -> ObjectSource:
        """Return what the servers read; see `Storage.source`."""
        from airflow_provider_chs3.core.files.key_template import KeyTemplate
        from airflow_provider_chs3.exceptions import ConfigurationError
        from airflow_provider_chs3.sources.s3.reading import Credentials, S3Source

        if self.named_collection:
            held, endpoint_url = Credentials(named_collection=self.named_collection), ""
        else:
            held, endpoint_url = listing.access()
            # A connection without an `endpoint_url` leads to AWS, too.
            if ".amazonaws.com" in endpoint_url:
                raise ConfigurationError(
                    f'Connection {self.hmac_conn_id!r} leads to AWS: set "endpoint_url": '
                    '"https://storage.googleapis.com" in its extra, and an HMAC key of Google as login and password.'
                )
        return S3Source(self.place, KeyTemplate(self.template), endpoint_url, held, scheme="gs")

    def namespace(self, place: str) -> str:
        """Return OpenLineage's namespace of a bucket."""
        return f"gs://{place}"
