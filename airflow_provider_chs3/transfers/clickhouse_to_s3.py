"""Unload a period of a table to Parquet objects in S3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.core.arguments.declaration import check_destination
from airflow_provider_chs3.defaults import AWS_CONN_ID
from airflow_provider_chs3.hooks.running_task import airflow_errors
from airflow_provider_chs3.operators._support.period_task import PeriodTask

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context
    from airflow.sdk import ObjectStoragePath

    from airflow_provider_chs3.client.unloading import Unload
    from airflow_provider_chs3.core.exchange.unload_request import UnloadRequest
    from airflow_provider_chs3.sources.s3 import S3Objects


class ClickHouseToS3Operator(PeriodTask):
    """Write a period of a table to Parquet objects in S3, proved and named in a manifest.

    Each node writes its own rows to one object, all in parallel, in a folder of the attempt. The rows are read back and
    compared with the table's: their number, and a hash of every value. Then the manifest, `_manifest.json` in the
    period's folder, is replaced in one step, and objects of older attempts are deleted. Whatever fails on the way, the
    manifest names objects that hold the whole period as it was at one time. If table and objects still match the
    manifest, nothing is written. See `docs/how-to/unload.md`.

    Args:
        key: Template of the period's folder: `exports/trips/{YYYY-MM}/`; with the bucket, a URL:
            `s3://lake/exports/trips/{YYYY-MM}/`.
        bucket: The bucket, unless `key` names it.
        period: The period, such as `2026-10`. Default: the run's partition key, else the period of its data interval.
        aws_conn_id: AWS connection, which may list, read, write and delete; the servers get its keys. Default:
            Airflow's `[chs3] aws_conn_id`, `aws_default`.
        endpoint_url: The storage's endpoint as seen from the servers. Default: the AWS connection's.

    Returns:
        A dict: status (`unloaded`, or `unchanged`), table, period, rows, bytes, files (keys), manifest (key), seconds.

    Raises:
        ConfigurationError: If an argument is wrong.
    """

    template_fields: Sequence[str] = (
        *("table", "key", "bucket", "period", "timezone", "database", "cluster"),
        *("clickhouse_conn_id", "aws_conn_id", "endpoint_url"),
    )
    ui_color = "#e8f0d8"

    def __init__(
        self,
        *,
        table: str,
        key: str | ObjectStoragePath,
        bucket: str | None = None,
        period: str | None = None,
        timezone: str | None = None,
        database: str | None = None,
        cluster: str | None = None,
        aws_conn_id: str = AWS_CONN_ID,
        endpoint_url: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(table=table, timezone=timezone, database=database, cluster=cluster, **kwargs)
        check_destination(key, bucket)
        self.key = key
        self.bucket = bucket
        self.period = period
        self.aws_conn_id = aws_conn_id
        self.endpoint_url = endpoint_url
        self._unload: Unload | None = None

    @property
    def argument_for_period(self) -> str | None:
        """The argument that would set the task's period; None where it has one."""
        return None if self.period else "period"

    @property
    def store(self) -> S3Objects:
        """The place that the objects are written to."""
        from airflow_provider_chs3.sources.s3 import S3Objects

        return S3Objects(key=self.key, bucket=self.bucket, aws_conn_id=self.aws_conn_id, endpoint_url=self.endpoint_url)

    def execute(self, context: Context) -> dict[str, Any]:
        """Unload the period, and return the result."""
        from airflow_provider_chs3.client.shared_objects import SharedObjects
        from airflow_provider_chs3.client.unloading import Unload
        from airflow_provider_chs3.sources.s3.client import QuickS3Hook

        with airflow_errors():
            request = self._request(context)
            self._unload = Unload(
                request=request,
                runner=self.runner(),
                objects=SharedObjects(request.source.bucket, QuickS3Hook(aws_conn_id=self.store.conn_id).get_conn()),
            )
            result = self._unload.run()
        self._unload = None
        return result

    def on_kill(self) -> None:
        """End the statements on every node; what the manifest names stays."""
        if self._unload:
            self._unload.cancel(self.runner(in_turns=True))

    def _request(self, context: Context) -> UnloadRequest:
        from airflow_provider_chs3.core.exchange.unload_request import UnloadRequest
        from airflow_provider_chs3.core.model.period import Period
        from airflow_provider_chs3.sources.s3.reading import S3Source

        source = self.store.source(self.store.listing())
        assert isinstance(source, S3Source)  # of S3Objects
        return UnloadRequest(
            **self.on_connection(self.hook()).located(),
            period=Period.parse(self.period) if self.period else self.period_of_run(context, self.grain()),
            source=source,
        )
