"""Objects in S3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_chs3.defaults import AWS_CONN_ID
from airflow_provider_chs3.sources.storage import Storage, same_names

if TYPE_CHECKING:
    from airflow.sdk import ObjectStoragePath

    from airflow_provider_chs3.client.listing import Listing
    from airflow_provider_chs3.sources.s3.reading import S3Source


@dataclass(kw_only=True)
class S3Objects(Storage):
    """Objects in S3.

    Args:
        key: Template of the keys of a period's objects: `trips/{YYYY-MM}/*.parquet`; with the bucket, a URL, or
            Airflow's `ObjectStoragePath`: `s3://lake/trips/{YYYY-MM}/*.parquet`.
        bucket: The bucket; leave it out where `key` or `named_collection` names it.
        aws_conn_id: As in `PeriodOperator`. Default: Airflow's `[chs3] aws_conn_id`, `aws_default`.
        named_collection: A named collection on the servers that holds URL and keys; ClickHouse then lists, too.
        role_arn: A role that the servers may assume; ClickHouse then lists, too.
        external_id: The external id that the role's trust policy asks for. Needs ClickHouse 26.6 or newer.
        endpoint_url: The storage's endpoint as seen from the servers. Default: the AWS connection's.
    """

    template_fields: ClassVar[Sequence[str]] = (
        *("key", "bucket", "aws_conn_id"),
        *("named_collection", "role_arn", "external_id", "endpoint_url"),
    )
    kind_name: ClassVar[str] = "s3.reading:S3"
    options: ClassVar[Mapping[str, str]] = same_names(
        "key", "bucket", "aws_conn_id", "named_collection", "role_arn", "external_id", "endpoint_url"
    )
    schemes: ClassVar[Sequence[str]] = ("s3", "s3a", "s3n")

    key: str | ObjectStoragePath
    bucket: str | None = None
    aws_conn_id: str | None = AWS_CONN_ID
    named_collection: str | None = None
    role_arn: str | None = None
    external_id: str | None = None
    endpoint_url: str | None = None

    @property
    def conn_id(self) -> str | None:
        """The AWS connection: the one in the URL, else `aws_conn_id`."""
        return self.location.conn_id or self.aws_conn_id

    def listing(self) -> Listing:
        """Return the listing, as seen from the worker."""
        from airflow_provider_chs3.sources.s3.listing import S3Listing

        return S3Listing(self.conn_id)

    def source(self, listing: Any) -> S3Source:
        """Return what the servers read; see `Storage.source`."""
        from airflow_provider_chs3.core.files.key_template import KeyTemplate
        from airflow_provider_chs3.sources.s3.reading import Credentials, S3Source

        if self.named_collection:
            held, endpoint_url = Credentials(named_collection=self.named_collection), ""
        else:
            held, endpoint_url = listing.access()
            endpoint_url = self.endpoint_url or endpoint_url
            if self.role_arn or self.external_id:
                held = Credentials(role_arn=self.role_arn, external_id=self.external_id)
        return S3Source(self.place, KeyTemplate(self.template), endpoint_url, held)

    def namespace(self, place: str) -> str:
        """Return OpenLineage's namespace of a bucket."""
        return f"s3://{place}"
