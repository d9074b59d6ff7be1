"""Base of the operators that work month by month: the table, and the objects in S3 or another storage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.core.values.arguments import either_name
from airflow_provider_chs3.defaults import AWS_CONN_ID
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.operators._support.month_task import MonthTask

if TYPE_CHECKING:
    from airflow_provider_chs3.sources.storage import Storage


class MonthlyOperator(MonthTask):
    """The base of operators that load months of objects into a table: of S3, or of another storage.

    Args:
        table: A MergeTree table partitioned by month, on every node of `cluster`; or a Distributed table over it.
        key: Template of the keys, without the bucket: `trips/{YYYY-MM}/*.parquet`, `year={YYYY}/month={MM}/`. Required,
            unless `objects` is given.
        bucket: The bucket; leave it out where `named_collection` names it.
        s3_key: Another name of `key`, as in the transfers of Airflow's own providers.
        s3_bucket: Another name of `bucket`.
        timezone: Time zone in which months begin and end. Default: the DAG's.
        database: The table's database. Default: the one in `table` (`taxi.trips`), else the connection's.
        cluster: The cluster that reads and writes. Default: the Distributed table's, else the connection's, else none:
            the one server that the connection leads to.
        staging_database: Database of staging and ledger, on every node. Default: the table's.
        clickhouse_conn_id: Connection of type `chs3`. Default: Airflow's `[chs3] clickhouse_conn_id`, `chs3_default`.
        aws_conn_id: AWS connection for listing, and for the servers' reads unless `named_collection` or `role_arn` is
            given. Default: Airflow's `[chs3] aws_conn_id`, `aws_default`. None: a public bucket, read without keys.
        named_collection: A named collection on the servers that holds URL and keys; ClickHouse then lists, too.
        role_arn: A role that the servers may assume; ClickHouse then lists, too.
        endpoint_url: The storage's endpoint as seen from the servers. Default: the AWS connection's.
        objects: Objects in a storage other than S3, such as `airflow_provider_chs3.sources.azure.AzureBlobs`, in place
            of `key`, `bucket` and the credentials for S3. Default: none.

    Raises:
        ConfigurationError: If it is not clear where the objects are, or `key` or `bucket` is given by both names.
    """

    template_fields: Sequence[str] = (
        "table",
        "key",
        "bucket",
        "timezone",
        "database",
        "cluster",
        "staging_database",
        "clickhouse_conn_id",
        "aws_conn_id",
        "named_collection",
        "role_arn",
        "endpoint_url",
        "objects",
    )

    def __init__(
        self,
        *,
        key: str | None = None,
        bucket: str | None = None,
        s3_key: str | None = None,
        s3_bucket: str | None = None,
        aws_conn_id: str | None = AWS_CONN_ID,
        named_collection: str | None = None,
        role_arn: str | None = None,
        endpoint_url: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.key = either_name("key", key, as_s3=s3_key)
        self.bucket = either_name("bucket", bucket, as_s3=s3_bucket)
        self.aws_conn_id = aws_conn_id
        self.named_collection = named_collection
        self.role_arn = role_arn
        self.endpoint_url = endpoint_url
        self._check_objects()

    def _check_objects(self) -> None:
        of_s3 = ("key", "bucket", "named_collection", "role_arn", "endpoint_url")
        given = [name for name in of_s3 if getattr(self, name)]
        if self.objects is not None and given:
            raise ConfigurationError(f"{', '.join(given)}: objects=… says where the objects are; leave this out.")
        if self.objects is None and self.key is None:
            raise ConfigurationError("Nothing says where the objects are: give key=… and bucket=…, or objects=….")

    @property
    def store(self) -> Storage:
        """The place of the objects."""
        from airflow_provider_chs3.sources.s3 import S3Objects

        if self.objects is not None:
            return self.objects
        names = ("key", "bucket", "aws_conn_id", "named_collection", "role_arn", "endpoint_url")
        return S3Objects(**{name: getattr(self, name) for name in names})
