"""Base of the operators that work period by period: the table, and the objects in S3 or another storage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_chs3.core.arguments.load_arguments import COMPARED, OF_S3, check_place
from airflow_provider_chs3.operators._support.period_task import PeriodTask

if TYPE_CHECKING:
    from airflow.sdk import ObjectStoragePath

    from airflow_provider_chs3.sources.storage import Storage


class PeriodOperator(PeriodTask, takes=OF_S3):
    """The base of operators that load periods of objects into a table: of S3, or of another storage.

    Raises:
        ConfigurationError: If it is not clear where the objects are.
    """

    key: str | ObjectStoragePath | None
    bucket: str | None
    aws_conn_id: str | None

    def _arguments_taken(self) -> None:
        check_place(vars(self))

    @property
    def is_compared(self) -> bool:
        """Whether the task knows what defines the rows of its load."""
        given = ((getattr(self, argument.name, None), argument.default) for argument in COMPARED)
        return self.has_load or any(value not in (None, default) for value, default in given)

    @property
    def store(self) -> Storage:
        """The place of the objects."""
        return self.as_load().store
