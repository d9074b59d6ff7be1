"""Tables of lakehouses as the `objects` of operators and `monthly_load`: a month is the data files of a snapshot."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_chs3.defaults import AWS_CONN_ID
from airflow_provider_chs3.objects import ObjectStore

if TYPE_CHECKING:
    from airflow_provider_chs3.core.storages.table_source import TableSource
    from airflow_provider_chs3.hooks.tables.delta_tables import DeltaListing
    from airflow_provider_chs3.hooks.tables.iceberg_tables import IcebergListing
    from airflow_provider_chs3.hooks.tables.table_listing import TableListing


@dataclass(kw_only=True)
class LakehouseTable(ObjectStore):
    """A table of which a snapshot says which files a month has."""

    month_column: str
    aws_conn_id: str | None = AWS_CONN_ID
    endpoint_url: str | None = None

    @property
    @abstractmethod
    def name(self) -> str:
        """The table, for people."""

    @property
    def template(self) -> str:
        """The text that messages show in place of a template of keys."""
        return "{YYYY-MM}"

    @property
    def place(self) -> str:
        """Empty: the table knows its bucket."""
        return ""

    def source(self, listing: Any) -> TableSource:
        """Return what the servers read; see `ObjectStore.source`."""
        from airflow_provider_chs3.core.source.key_template import KeyTemplate
        from airflow_provider_chs3.core.storages.table_source import TableSource

        credentials, endpoint_url = listing.access()
        return TableSource(
            bucket=listing.bucket,
            template=KeyTemplate(self.template),
            endpoint_url=self.endpoint_url or endpoint_url,
            credentials=credentials,
            table=self.name,
        )

    def namespace(self, place: str) -> str:
        """Return OpenLineage's namespace of a bucket."""
        return f"s3://{place}"

    @abstractmethod
    def listing(self) -> TableListing:
        """Return the listing, as seen from the worker."""

    def table_dataset(self) -> tuple[str, str]:
        """Return OpenLineage's namespace and name of the table: its bucket and folder."""
        bucket, folder = self.listing().location
        return self.namespace(bucket), folder


@dataclass(kw_only=True)
class IcebergTable(LakehouseTable):
    """An Iceberg table in S3. The worker needs the extra `iceberg` of this package.

    Args:
        table: The table in its catalog: `lake.trips`.
        month_column: The column of dates or timestamps by which rows belong to months. Best is a table partitioned by
            its month or day; else statistics must show that each file holds one month.
        iceberg_conn_id: Connection to the catalog, with the properties of pyiceberg's catalogs in `extra`, and
            `catalog_name` there if a SQL catalog's name is not `chs3`. Default: `iceberg_default`.
        aws_conn_id: AWS connection for metadata, and for the servers' reads. Default: Airflow's
            `[chs3] aws_conn_id`, `aws_default`. None: a public bucket, read without keys.
        endpoint_url: The storage's endpoint as seen from the servers. Default: the AWS connection's.
    """

    template_fields: ClassVar[Sequence[str]] = (
        "table",
        "month_column",
        "iceberg_conn_id",
        "aws_conn_id",
        "endpoint_url",
    )

    table: str
    iceberg_conn_id: str = "iceberg_default"

    @property
    def name(self) -> str:
        """The table, for people."""
        return self.table

    def listing(self) -> IcebergListing:
        """Return the listing, as seen from the worker."""
        from airflow_provider_chs3.hooks.tables.iceberg_tables import IcebergListing

        return IcebergListing(
            table=self.table,
            month_column=self.month_column,
            iceberg_conn_id=self.iceberg_conn_id,
            aws_conn_id=self.aws_conn_id,
        )


@dataclass(kw_only=True)
class DeltaTable(LakehouseTable):
    """A Delta table in S3. The worker needs the extra `delta` of this package.

    Args:
        uri: Where the table is: `s3://lake/trips`.
        month_column: The column by which rows belong to months: a partition column of dates or of texts such as
            `2026-01`, or a column of dates or timestamps whose statistics show that each file holds one month.
        aws_conn_id: AWS connection for the log, and for the servers' reads. Default: Airflow's
            `[chs3] aws_conn_id`, `aws_default`. None: a public bucket, read without keys.
        endpoint_url: The storage's endpoint as seen from the servers. Default: the AWS connection's.
    """

    template_fields: ClassVar[Sequence[str]] = ("uri", "month_column", "aws_conn_id", "endpoint_url")

    uri: str

    @property
    def name(self) -> str:
        """The table, for people."""
        return self.uri

    def listing(self) -> DeltaListing:
        """Return the listing, as seen from the worker."""
        from airflow_provider_chs3.hooks.tables.delta_tables import DeltaListing

        return DeltaListing(uri=self.uri, month_column=self.month_column, aws_conn_id=self.aws_conn_id)
