"""What is checked of `write_mode='append'`, also where DAGs are read."""

from __future__ import annotations

from airflow_provider_chs3.exceptions import ConfigurationError


def check_append(*, write_mode: str, retries: int | None, allow_duplicates: bool) -> None:
    """Check that what is appended is not appended again by a retry.

    Args:
        write_mode: `replace` or `append`.
        retries: Those of the task.
        allow_duplicates: Whether a retry may append again.

    Raises:
        ConfigurationError: If it would be.
    """
    if write_mode == "append" and retries and not allow_duplicates:
        raise ConfigurationError(
            f"write_mode='append' inserts rows again at every retry, and this task has retries={retries}: "
            "give retries=0, or allow_duplicates=True, or load with write_mode='replace', which is exact."
        )
