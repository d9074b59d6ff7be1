"""Tell Airflow whether a retry can help against an error."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from types import TracebackType

from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.exceptions import Chs3Error, ClickHouseServerError

_LOG = logging.getLogger(__name__)


def airflow_errors(*, hints: bool = True) -> AbstractContextManager[None]:
    """Tell Airflow which errors a retry cannot fix, and the user what to do, in one paragraph.

    Airflow logs an error with all that led to it, which for an error of a server would be pages. Where it was raised is
    in the log at level DEBUG.

    Raises:
        AirflowFailException: Instead of an error that a retry would meet again.
        ClickHouseServerError: If a retry may help.
    """
    return _AirflowErrors(hints)


# Not a generator: contextlib gives an error that passes through one its traceback back.
class _AirflowErrors(AbstractContextManager[None]):
    def __init__(self, hints: bool) -> None:
        self._hints = hints

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if isinstance(error, Chs3Error):
            _LOG.debug("Where it was raised:", exc_info=error)
            raise _airflow_error(error, self._hints).with_traceback(None) from None


def _airflow_error(error: Chs3Error, hints: bool) -> Exception:
    from airflow_provider_chs3.core.model.error_codes import is_terminal, with_hint

    if is_terminal(error):
        return AirflowFailException(with_hint(error, str(error)) if hints else str(error))
    if isinstance(error, ClickHouseServerError) and hints:
        # The class stays the same: retry policies go by it.
        message = with_hint(error, error.message)
        return ClickHouseServerError(error.code, error.name, message, error.host, error.query_id)
    return error
