"""Errors as the shell shows them."""

from __future__ import annotations

from airflow_provider_chs3.core.model.error_codes import is_terminal, with_hint
from airflow_provider_chs3.exceptions import Chs3Error


def describe_error(error: Exception) -> str:
    """Return an error's message, with the hint that does not depend on a retry."""
    text = str(error) or type(error).__name__
    if type(error).__name__ == "AirflowNotFoundException":
        return f"{text}: create this connection in Airflow (docs/reference/connection.md), or name another one."
    return with_hint(error, text) if isinstance(error, Chs3Error) and is_terminal(error) else text
