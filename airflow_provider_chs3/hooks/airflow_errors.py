"""What Airflow must know of an error: whether a retry can help."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.core.errors import is_terminal
from airflow_provider_chs3.exceptions import Chs3Error


@contextmanager
def airflow_errors() -> Iterator[None]:
    """Tell Airflow which errors a retry cannot mend.

    Raises:
        AirflowFailException: Instead of an error that a retry would meet again.
    """
    try:
        yield
    except Chs3Error as error:
        if is_terminal(error):
            raise AirflowFailException(str(error)) from error
        raise
