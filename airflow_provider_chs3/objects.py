"""The places of a month's objects: one of these is the `objects` of operators and `monthly_load`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_chs3.defaults import AWS_CONN_ID

if TYPE_CHECKING:
    from airflow_provider_chs3.core.source.object_source import ObjectSource
    from airflow_provider_chs3.core.source.source import Source
    from airflow_provider_chs3.hooks.listing.azure_blobs import AzureBlobListing
    from airflow_provider_chs3.hooks.listing.listing import Listing


@dataclass(kw_only=True)
class ObjectStore(ABC):
    """A place of months' objects. Airflow renders its template fields with those of the operator."""

    template_fields: ClassVar[Sequence[str]]

    @property
    @abstractmethod
    def template(self) -> str:
        """Template of the keys of a month."""

    @property
    @abstractmethod
    def place(self) -> str:
        """The bucket, or what the storage has in its place; empty if a named collection names it."""

    @abstractmethod
    def listing(self) -> Listing:
        """Return the listing, as seen from the worker."""

    @abstractmethod
    def source(self, listing: Any) -> Source:
        """Return what the servers read, with their credentials.

        Args:
            listing: What `listing` returned; it knows how the servers get in.

        Raises:
            ConfigurationError: If an argument or the connection is wrong.
        """

    @abstractmethod
    def namespace(self, place: str) -> str:
        """Return OpenLineage's namespace of a bucket's objects.

        Args:
            place: The bucket, or what the storage has in its place.
        """

    def dataset(self, path: str) -> tuple[str, str]:
        """Return OpenLineage's namespace and name of what is at a path.

        Args:
            path: `<bucket>/<key>`.
        """
        place, _, key = path.partition("/")
        return self.namespace(place), key or "/"

    def table_dataset(self) -> tuple[str, str] | None:
        """Return OpenLineage's namespace and name of the table whose rows are loaded; None where objects are."""
        return None

    def serialize(self) -> dict[str, Any]:
        """Return what Airflow's UI shows; there is no secret in it."""
        return {"kind": type(self).__name__, **asdict(self)}


@dataclass(kw_only=True)
class S3Objects(ObjectStore):
    """Objects in S3.

    Args:
        key: Template of the keys of a month's objects, without the bucket: `trips/{YYYY-MM}/*.parquet`.
        bucket: The bucket; leave it out where `named_collection` names it.
        aws_conn_id: As in `MonthlyOperator`. Default: Airflow's `[chs3] aws_conn_id`, `aws_default`.
        named_collection: A named collection on the servers that holds URL and keys; ClickHouse then lists, too.
        role_arn: A role that the servers may assume; ClickHouse then lists, too.
        endpoint_url: The storage's endpoint as seen from the servers. Default: the AWS connection's.
    """

    template_fields: ClassVar[Sequence[str]] = (
        *("key", "bucket", "aws_conn_id"),
        *("named_collection", "role_arn", "endpoint_url"),
    )

    key: str
    bucket: str | None = None
    aws_conn_id: str | None = AWS_CONN_ID
    named_collection: str | None = None
    role_arn: str | None = None
    endpoint_url: str | None = None

    @property
    def template(self) -> str:
        """Template of the keys of a month."""
        return self.key

    @property
    def place(self) -> str:
        """The bucket; empty if a named collection names it."""
        return self.bucket or ""

    def listing(self) -> Listing:
        """Return the listing, as seen from the worker."""
        from airflow_provider_chs3.hooks.s3 import S3Listing

        return S3Listing(self.aws_conn_id)

    def source(self, listing: Any) -> ObjectSource:
        """Return what the servers read; see `ObjectStore.source`."""
        from airflow_provider_chs3.core.source.key_template import KeyTemplate
        from airflow_provider_chs3.core.storages.s3_source import Credentials, S3Source

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


@dataclass(kw_only=True)
class AzureBlobs(ObjectStore):
    """Objects in Azure Blob Storage. The worker needs the extra `azure` of this package.

    The servers get the key or the SAS token that the connection holds. If it holds neither, the worker lists with its
    own identity, and the servers read with the one that Azure gives their machines.

    Args:
        blob: Template of the names of a month's blobs, as `key` of `S3ToClickHouseOperator`:
            `trips/{YYYY-MM}/*.parquet`.
        container: The container; leave it out where `named_collection` names it.
        wasb_conn_id: Connection of type `wasb`. Default: `wasb_default`.
        named_collection: A named collection on the servers that holds container and key; ClickHouse then lists, too.
    """

    template_fields: ClassVar[Sequence[str]] = ("blob", "container", "wasb_conn_id", "named_collection")

    blob: str
    container: str | None = None
    wasb_conn_id: str = "wasb_default"
    named_collection: str | None = None

    @property
    def template(self) -> str:
        """Template of the names of a month's blobs."""
        return self.blob

    @property
    def place(self) -> str:
        """The container; empty if a named collection names it."""
        return self.container or ""

    def listing(self) -> AzureBlobListing:
        """Return the listing, as seen from the worker."""
        from airflow_provider_chs3.hooks.listing.azure_blobs import AzureBlobListing

        return AzureBlobListing(self.wasb_conn_id)

    def source(self, listing: Any) -> ObjectSource:
        """Return what the servers read; see `ObjectStore.source`."""
        from airflow_provider_chs3.core.source.key_template import KeyTemplate
        from airflow_provider_chs3.core.storages.azure_blob_source import AzureAccess, AzureBlobSource

        held = AzureAccess(named_collection=self.named_collection) if self.named_collection else listing.access()
        return AzureBlobSource(bucket=self.place, template=KeyTemplate(self.blob), access=held)

    def namespace(self, place: str) -> str:
        """Return OpenLineage's namespace of a container."""
        # Servers do not reveal the account of a named collection.
        return (
            f"wasbs://{place}" if self.named_collection else f"wasbs://{place}@{self.listing().access().account_name}"
        )


@dataclass(kw_only=True)
class GcsObjects(ObjectStore):
    """Objects in Google Cloud Storage, read through its XML API with an HMAC key.

    Args:
        object_name: Template of the names of a month's objects, as `key` of `S3ToClickHouseOperator`:
            `trips/{YYYY-MM}/*.parquet`.
        bucket: The bucket; leave it out where `named_collection` names it.
        hmac_conn_id: Connection of type `aws` that holds an HMAC key and the `endpoint_url` of Google. Default:
            `gcs_hmac_default`.
        named_collection: A named collection on the servers that holds URL and key; ClickHouse then lists, too.
    """

    template_fields: ClassVar[Sequence[str]] = ("object_name", "bucket", "hmac_conn_id", "named_collection")

    object_name: str
    bucket: str | None = None
    hmac_conn_id: str = "gcs_hmac_default"
    named_collection: str | None = None

    @property
    def template(self) -> str:
        """Template of the names of a month's objects."""
        return self.object_name

    @property
    def place(self) -> str:
        """The bucket; empty if a named collection names it."""
        return self.bucket or ""

    def listing(self) -> Listing:
        """Return the listing, as seen from the worker."""
        from airflow_provider_chs3.hooks.s3 import S3Listing

        return S3Listing(self.hmac_conn_id)

    def source(self, listing: Any) -> ObjectSource:
        """Return what the servers read; see `ObjectStore.source`."""
        from airflow_provider_chs3.core.source.key_template import KeyTemplate
        from airflow_provider_chs3.core.storages.gcs_source import GcsSource, check_is_google
        from airflow_provider_chs3.core.storages.s3_source import Credentials

        if self.named_collection:
            held, endpoint_url = Credentials(named_collection=self.named_collection), ""
        else:
            held, endpoint_url = listing.access()
            check_is_google(endpoint_url, self.hmac_conn_id)
        return GcsSource(self.place, KeyTemplate(self.object_name), endpoint_url, held)

    def namespace(self, place: str) -> str:
        """Return OpenLineage's namespace of a bucket."""
        return f"gs://{place}"


@dataclass(kw_only=True)
class HdfsFiles(ObjectStore):
    """Files in HDFS. The worker lists them by WebHDFS, and the servers read them from the data nodes.

    Args:
        path: Template of the absolute paths of a month's files, as `key` of `S3ToClickHouseOperator`:
            `/lake/trips/{YYYY-MM}/*.parquet`.
        hdfs_url: URL of the name node as seen from the servers, with the user that they read as:
            `hdfs://user@namenode:8020`.
        webhdfs_conn_id: Connection of type `webhdfs`. Default: `webhdfs_default`.
    """

    template_fields: ClassVar[Sequence[str]] = ("path", "hdfs_url", "webhdfs_conn_id")

    path: str
    hdfs_url: str
    webhdfs_conn_id: str = "webhdfs_default"

    @property
    def template(self) -> str:
        """Template of the paths of a month's files, without the slash at their beginning."""
        return self.path.lstrip("/")

    @property
    def place(self) -> str:
        """Empty: HDFS has folders only."""
        return ""

    def listing(self) -> Listing:
        """Return the listing, as seen from the worker."""
        from airflow_provider_chs3.hooks.listing.webhdfs import WebHdfsListing

        return WebHdfsListing(self.webhdfs_conn_id)

    def source(self, listing: Any) -> ObjectSource:
        """Return what the servers read; see `ObjectStore.source`."""
        from airflow_provider_chs3.core.source.key_template import KeyTemplate
        from airflow_provider_chs3.core.storages.hdfs_source import HdfsSource

        return HdfsSource(self.place, KeyTemplate(self.template), self.hdfs_url.rstrip("/"))

    def namespace(self, place: str) -> str:
        """Return OpenLineage's namespace: the name node."""
        scheme, _, rest = self.hdfs_url.rstrip("/").partition("://")
        return f"{scheme}://{rest.rpartition('@')[2]}"
