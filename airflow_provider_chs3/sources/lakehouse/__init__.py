"""Tables of lakehouses as the `objects` of operators and `scheduled_load`: a period is the data files of a snapshot."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_chs3.defaults import AWS_CONN_ID
from airflow_provider_chs3.sources.storage import Storage

if TYPE_CHECKING:
    from airflow_provider_chs3.sources.lakehouse.listing import TableListing
    from airflow_provider_chs3.sources.lakehouse.reading import TableSource


@dataclass(kw_only=True)
class LakehouseTable(Storage):
    """A table whose snapshot lists the files of a period."""

    kind_name: ClassVar[str] = "s3.reading:S3"

    time_column: str
    aws_conn_id: str | None = AWS_CONN_ID
    endpoint_url: str | None = None
    timezone: str = "UTC"

    @property
    @abstractmethod
    def name(self) -> str:
        """The table, for people."""

    def source(self, listing: Any) -> TableSource:
        """Return what the servers read; see `Storage.source`."""
        from airflow_provider_chs3.core.files.key_template import KeyTemplate
        from airflow_provider_chs3.sources.lakehouse.reading import TableSource

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
