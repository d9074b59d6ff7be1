"""Tables of Iceberg."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from airflow_provider_chs3.sources.lakehouse import LakehouseTable
from airflow_provider_chs3.sources.storage import same_names

if TYPE_CHECKING:
    from airflow_provider_chs3.sources.iceberg.listing import IcebergListing


@dataclass(kw_only=True)
class IcebergTable(LakehouseTable):
    """An Iceberg table in S3. The worker needs the extra `iceberg` of this package.

    Args:
        table: The table in its catalog: `lake.trips`.
        time_column: The column of dates or timestamps that decides a row's period. Partition the table by it, in
            periods as long as ClickHouse's or shorter; otherwise statistics must show that each file holds one period.
        iceberg_conn_id: Connection to the catalog, with the properties of pyiceberg's catalogs in `extra`, and
            `catalog_name` there if a SQL catalog's name is not `chs3`. Default: `iceberg_default`.
        aws_conn_id: AWS connection for metadata, and for the servers' reads. Default: Airflow's
            `[chs3] aws_conn_id`, `aws_default`. None: a public bucket, read without keys.
        endpoint_url: The storage's endpoint as seen from the servers. Default: the AWS connection's.
        timezone: The zone in which days and longer periods begin: that of ClickHouse's partition key. Default: `UTC`.
    """

    template_fields: ClassVar[Sequence[str]] = (
        "table",
        "time_column",
        "iceberg_conn_id",
        "aws_conn_id",
        "endpoint_url",
        "timezone",
    )
    options: ClassVar[Mapping[str, str]] = {
        **{"source_table": "table", "storage_conn_id": "iceberg_conn_id"},
        **same_names("time_column", "aws_conn_id", "endpoint_url", "timezone"),
    }

    table: str
    iceberg_conn_id: str = "iceberg_default"

    @property
    def name(self) -> str:
        """The table, for people."""
        return self.table

    def listing(self) -> IcebergListing:
        """Return the listing, as seen from the worker."""
        from airflow_provider_chs3.sources.iceberg.listing import IcebergListing

        return IcebergListing(
            table=self.table,
            time_column=self.time_column,
            iceberg_conn_id=self.iceberg_conn_id,
            timezone=self.timezone,
            aws_conn_id=self.aws_conn_id,
        )
