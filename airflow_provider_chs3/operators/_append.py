"""What is checked of `write_mode='append'`, also where DAGs are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_chs3.exceptions import ConfigurationError

if TYPE_CHECKING:
    from airflow_provider_chs3.operators.s3_to_clickhouse import S3ToClickHouseOperator


def check_append(task: S3ToClickHouseOperator) -> None:
    """Check that what is appended is not appended again by a retry.

    Raises:
        ConfigurationError: If it would be.
    """
    if task.write_mode == "append" and task.retries and not task.allow_duplicates:
        raise ConfigurationError(
            f"write_mode='append' inserts rows again at every retry, and this task has retries={task.retries}: "
            "give retries=0, or allow_duplicates=True, or load with write_mode='replace', which is exact."
        )
