"""Objects in Azure Blob Storage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_chs3.sources.storage import Storage, same_names

if TYPE_CHECKING:
    from airflow_provider_chs3.core.files.object_source import ObjectSource
    from airflow_provider_chs3.sources.azure.listing import AzureBlobListing


@dataclass(kw_only=True)
class AzureBlobs(Storage):
    """Objects in Azure Blob Storage. The worker needs the extra `azure` of this package.

    The servers get the key or the SAS token that the connection holds. If it holds neither, the worker lists with its
    own identity, and the servers read with the identity that Azure gives their machines.

    Args:
        blob: Template of the names of a period's blobs, as `key` of `S3ToClickHouseOperator`:
            `trips/{YYYY-MM}/*.parquet`.
        container: The container; leave it out where `named_collection` names it.
        wasb_conn_id: Connection of type `wasb`. Default: `wasb_default`.
        named_collection: A named collection on the servers that holds container and key; ClickHouse then lists, too.
    """

    template_fields: ClassVar[Sequence[str]] = ("blob", "container", "wasb_conn_id", "named_collection")
    kind_name: ClassVar[str] = "azure.reading:AZURE_BLOB"
    options: ClassVar[Mapping[str, str]] = {
        **{"key": "blob", "bucket": "container", "storage_conn_id": "wasb_conn_id"},
        **same_names("named_collection"),
    }

    blob: str
    container: str | None = None
    wasb_conn_id: str = "wasb_default"
    named_collection: str | None = None

    def listing(self) -> AzureBlobListing:
        """Return the listing, as seen from the worker."""
        from airflow_provider_chs3.sources.azure.listing import AzureBlobListing

        return AzureBlobListing(self.wasb_conn_id)

    def source(self, listing: Any) -> ObjectSource:
        """Return what the servers read; see `Storage.source`."""
        from airflow_provider_chs3.core.files.key_template import KeyTemplate
        from airflow_provider_chs3.sources.azure.reading import AzureAccess, AzureBlobSource

        held = AzureAccess(named_collection=self.named_collection) if self.named_collection else listing.access()
        return AzureBlobSource(bucket=self.place, template=KeyTemplate(self.blob), access=held)

    def namespace(self, place: str) -> str:
        """Return OpenLineage's namespace of a container."""
        # Servers do not reveal the account of a named collection.
        return (
            f"wasbs://{place}" if self.named_collection else f"wasbs://{place}@{self.listing().access().account_name}"
        )
