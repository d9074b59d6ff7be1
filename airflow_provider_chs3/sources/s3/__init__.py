"""Objects in S3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_chs3.defaults import AWS_CONN_ID
from airflow_provider_chs3.sources.storage import Storage, same_names

if TYPE_CHECKING:
    from airflow_provider_chs3.core.source.object_source import ObjectSource
    from airflow_provider_chs3.sources.listing import Listing


@dataclass(kw_only=True)
class S3Objects(Storage):
    """Objects in S3.

    Args:
        key: Template of the keys of a period's objects, without the bucket: `trips/{YYYY-MM}/*.parquet`.
        bucket: The bucket; leave it out where `named_collection` names it.
        aws_conn_id: As in `PeriodOperator`. Default: Airflow's `[chs3] aws_conn_id`, `aws_default`.
        named_collection: A named collection on the servers that holds URL and keys; ClickHouse then lists, too.
        role_arn: A role that the servers may assume; ClickHouse then lists, too.
        endpoint_url: The storage's endpoint as seen from the servers. Default: the AWS connection's.
    """

    template_fields: ClassVar[Sequence[str]] = (
        *("key", "bucket", "aws_conn_id"),
        *("named_collection", "role_arn", "endpoint_url"),
    )
    kind_name: ClassVar[str] = "s3.reading:S3"
    options: ClassVar[Mapping[str, str]] = same_names(
        "key", "bucket", "aws_conn_id", "named_collection", "role_arn", "endpoint_url"
    )

    key: str
    bucket: str | None = None
    aws_conn_id: str | None = AWS_CONN_ID
    named_collection: str | None = None
    role_arn: str | None = None
    endpoint_url: str | None = None

    def listing(self) -> Listing:
        """Return the listing, as seen from the worker."""
        from airflow_provider_chs3.sources.s3.listing import S3Listing

        return S3Listing(self.aws_conn_id)

    def source(self, listing: Any) -> ObjectSource:
        """Return what the servers read; see `Storage.source`."""
        from airflow_provider_chs3.core.source.key_template import KeyTemplate
        from airflow_provider_chs3.sources.s3.reading import Credentials, S3Source

        template = KeyTemplate(self.key)
        if self.named_collection:
            held = Credentials(named_collection=self.named_collection)
            return S3Source(bucket=self.place, template=template, endpoint_url="", credentials=held)
        credentials, endpoint_url = listing.access()
        if self.role_arn:
            credentials = Credentials(role_arn=self.role_arn)
        return S3Source(
            bucket=self.place,
            template=template,
            endpoint_url=self.endpoint_url or endpoint_url,
            credentials=credentials,
        )

    def namespace(self, place: str) -> str:
        """Return OpenLineage's namespace of a bucket."""
        return f"s3://{place}"
