"""What Airflow must know of an error: whether a retry can help."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.core.errors import hint_of, is_terminal
from airflow_provider_chs3.exceptions import Chs3Error, ClickHouseServerError

_LOG = logging.getLogger(__name__)


@contextmanager
def airflow_errors() -> Iterator[None]:
    """Tell Airflow which errors a retry cannot mend, and the user the way out, in one paragraph.

    Airflow logs an error with all that led to it, which for an error of a server would be pages. Where it was raised is
    in the log at level DEBUG.

    Raises:
        AirflowFailException: Instead of an error that a retry would meet again.
        ClickHouseServerError: With a hint at the way out.
    """
    try:
        yield
    except Chs3Error as error:
        _LOG.debug("Where it was raised:", exc_info=True)
        if is_terminal(error):
            raise AirflowFailException(f"{error} {hint_of(error)}".rstrip()) from None
        if isinstance(error, ClickHouseServerError):
            # Of the same class: retry policies go by it.
            message = f"{error.message} {hint_of(error)}".rstrip()
            raise ClickHouseServerError(error.code, error.name, message, error.host, error.query_id) from None
        raise error.with_traceback(None) from None
