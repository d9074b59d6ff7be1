"""Base of the operators that work period by period: the table, and the objects in S3 or another storage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.core.arguments.load_arguments import OF_S3, templated
from airflow_provider_chs3.defaults import AWS_CONN_ID
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.operators._support.declared import takes
from airflow_provider_chs3.operators._support.period_task import PeriodTask

if TYPE_CHECKING:
    from airflow.sdk import ObjectStoragePath

    from airflow_provider_chs3.sources.storage import Storage


@takes(*OF_S3)
class PeriodOperator(PeriodTask):
    """The base of operators that load periods of objects into a table: of S3, or of another storage.

    Raises:
        ConfigurationError: If it is not clear where the objects are.
    """

    template_fields: Sequence[str] = (*PeriodTask.template_fields, *templated(OF_S3))

    def __init__(
        self,
        *,
        key: str | ObjectStoragePath | None = None,
        bucket: str | None = None,
        aws_conn_id: str | None = AWS_CONN_ID,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.key = key
        self.bucket = bucket
        self.aws_conn_id = aws_conn_id
        self._check_objects()

    def _check_objects(self) -> None:
        given = [name for name in ("key", "bucket") if getattr(self, name)]
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
        assert self.key is not None  # checked above
        return S3Objects(key=self.key, bucket=self.bucket, aws_conn_id=self.aws_conn_id)
