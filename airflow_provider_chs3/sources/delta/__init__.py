"""Tables of Delta Lake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from airflow_provider_chs3.sources.lakehouse import LakehouseTable
from airflow_provider_chs3.sources.storage import same_names

if TYPE_CHECKING:
    from airflow_provider_chs3.sources.delta.listing import DeltaListing


@dataclass(kw_only=True)
class DeltaTable(LakehouseTable):
    """A Delta table in S3. The worker needs the extra `delta` of this package.

    Args:
        uri: Where the table is: `s3://lake/trips`.
        time_column: The column that decides a row's period: a partition column of dates, timestamps, or texts of
            periods such as `2026-01`, as long as ClickHouse's or shorter; or a column of dates or timestamps whose
            statistics show that each file holds one period.
        aws_conn_id: AWS connection for the log, and for the servers' reads. Default: Airflow's
            `[chs3] aws_conn_id`, `aws_default`. None: a public bucket, read without keys.
        endpoint_url: The storage's endpoint as seen from the servers. Default: the AWS connection's.
        timezone: The zone in which days and longer periods begin: that of ClickHouse's partition key. Default: `UTC`.
    """

    template_fields: ClassVar[Sequence[str]] = ("uri", "time_column", "aws_conn_id", "endpoint_url", "timezone")
    options: ClassVar[Mapping[str, str]] = {
        "source_table": "uri",
        **same_names("time_column", "aws_conn_id", "endpoint_url", "timezone"),
    }

    uri: str

    @property
    def name(self) -> str:
        """The table, for people."""
        return self.uri

    def listing(self) -> DeltaListing:
        """Return the listing, as seen from the worker."""
        from airflow_provider_chs3.sources.delta.listing import DeltaListing

        return DeltaListing(
            uri=self.uri, time_column=self.time_column, timezone=self.timezone, aws_conn_id=self.aws_conn_id
        )
