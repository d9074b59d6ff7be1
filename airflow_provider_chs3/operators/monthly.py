"""Base of the operators that work month by month: the objects, the table, the month."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from airflow.providers.common.compat.sdk import BaseOperator

from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.hooks import DEFAULT_CONN_ID

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_chs3.core.request.reload import Reload
    from airflow_provider_chs3.core.source.s3_source import S3Source
    from airflow_provider_chs3.core.values.models import Month
    from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
    from airflow_provider_chs3.hooks.pool import PooledClickHouseHook
    from airflow_provider_chs3.hooks.s3 import S3Listing


class MonthlyOperator(BaseOperator):
    """The base of operators that load months of S3 objects into a table.

    Args:
        table: A MergeTree table partitioned by month, on every node of `cluster`; or a Distributed table over it.
        key: Template of the keys, without the bucket: `trips/{YYYY-MM}/*.parquet`, `year={YYYY}/month={MM}/`.
        bucket: The bucket; leave it out where `named_collection` names it.
        timezone: Time zone in which months begin and end. Default: the DAG's.
        database: The table's database. Default: the connection's.
        cluster: The cluster that reads and writes. Default: the Distributed table's, else the connection's, else none:
            the one server that the connection leads to.
        staging_database: Database of staging and ledger, on every node. Default: the table's.
        clickhouse_conn_id: Connection of type `chs3`. Default: `chs3_default`.
        aws_conn_id: AWS connection for listing, and for the servers' reads unless `named_collection` or `role_arn` is
            given. Default: `aws_default`. None: a public bucket, read without keys.
        named_collection: A named collection on the servers that holds URL and keys; ClickHouse then lists, too.
        role_arn: A role that the servers may assume; ClickHouse then lists, too.
        endpoint_url: The storage's endpoint as seen from the servers. Default: the AWS connection's.
    """

    template_fields: Sequence[str] = (
        "table",
        "key",
        "bucket",
        "timezone",
        "database",
        "cluster",
        "staging_database",
        "named_collection",
        "role_arn",
        "endpoint_url",
    )

    def __init__(
        self,
        *,
        table: str,
        key: str,
        bucket: str | None = None,
        timezone: str | None = None,
        database: str | None = None,
        cluster: str | None = None,
        staging_database: str | None = None,
        clickhouse_conn_id: str = DEFAULT_CONN_ID,
        aws_conn_id: str | None = "aws_default",
        named_collection: str | None = None,
        role_arn: str | None = None,
        endpoint_url: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.key = key
        self.bucket = bucket
        self.timezone = timezone
        self.database = database
        self.cluster = cluster
        self.staging_database = staging_database
        self.clickhouse_conn_id = clickhouse_conn_id
        self.aws_conn_id = aws_conn_id
        self.named_collection = named_collection
        self.role_arn = role_arn
        self.endpoint_url = endpoint_url

    def reload_of_run(self, context: Context) -> Reload | None:
        """Return the reload that the run's conf asks for; None if it asks for none.

        Raises:
            ConfigurationError: If the request in the conf is not valid.
        """
        from airflow_provider_chs3.core.request.reload import reload_of

        return reload_of(getattr(context.get("dag_run"), "conf", None))

    def month_of_run(self, context: Context) -> Month:
        """Return the run's month: its partition key, else the month of its data interval.

        Raises:
            ConfigurationError: If the run has no month, or several.
        """
        from airflow_provider_chs3.core.values.run_month import month_of_run

        return month_of_run(**self._run(context))

    def months_of_run(self, context: Context) -> tuple[Month, ...]:
        """Return the run's months: its partition key, else the months that its data interval touches.

        Raises:
            ConfigurationError: If the run has no month.
        """
        from airflow_provider_chs3.core.values.run_month import months_of_run

        return months_of_run(**self._run(context))

    def _run(self, context: Context) -> dict[str, Any]:
        dag_run = context["dag_run"]
        return {
            "partition_key": getattr(dag_run, "partition_key", None),
            "start": dag_run.data_interval_start,
            "end": dag_run.data_interval_end,
            "timezone": _timezone(self.timezone) if self.timezone else self.dag.timezone,
        }

    def source(self, listing: S3Listing) -> S3Source:
        """Return the location of the objects, with the credentials that the servers read them with."""
        from airflow_provider_chs3.core.source.key_template import KeyTemplate
        from airflow_provider_chs3.core.source.s3_source import Credentials, S3Source

        template = KeyTemplate(self.key)
        if self.named_collection:
            held = Credentials(named_collection=self.named_collection)
            return S3Source(bucket=self.bucket or "", template=template, endpoint_url="", credentials=held)
        credentials, endpoint_url = listing.access()
        if self.role_arn:
            credentials = Credentials(role_arn=self.role_arn)
        return S3Source(
            bucket=self.bucket or "",
            template=template,
            endpoint_url=self.endpoint_url or endpoint_url,
            credentials=credentials,
        )

    def listing(self) -> S3Listing:
        """Return the listing of the bucket, as seen from the worker."""
        from airflow_provider_chs3.hooks.s3 import S3Listing

        return S3Listing(self.aws_conn_id)

    def hook(self) -> ClickHouseHook:
        """Return the connection to ClickHouse."""
        from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook

        return ClickHouseHook(clickhouse_conn_id=self.clickhouse_conn_id)

    def pooled_hook(self) -> PooledClickHouseHook:
        """Return a connection for many queries: it stays open until it is closed."""
        from airflow_provider_chs3.hooks.pool import PooledClickHouseHook

        return PooledClickHouseHook(clickhouse_conn_id=self.clickhouse_conn_id)


def _timezone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        raise ConfigurationError(f"timezone={name!r} is not known: give a name such as 'Europe/Berlin'.") from None
