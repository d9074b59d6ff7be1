"""Run an insert, which may take hours, in a thread, and log its progress."""

from __future__ import annotations

import textwrap
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from airflow_provider_chs3.client.session import Session
from airflow_provider_chs3.core.load.row_counts import source_read_of
from airflow_provider_chs3.core.steps.insert_progress import (
    InsertProgress,
    ProgressLines,
    progress_of,
    progress_query,
)
from airflow_provider_chs3.core.steps.operations import Insert, InsertStats, SourceRead
from airflow_provider_chs3.exceptions import Chs3Error

#: The list of objects can take megabytes; `system.query_log` has all of it.
_SHOWN_SQL_CHARACTERS = 2_000

#: The first check comes early, so that short inserts also show their memory.
_FIRST_CHECK_SECONDS = 0.5


class ProgressLog(Protocol):
    """The log for the user: a standard logger, or Airflow's."""

    def info(self, message: str, /, *args: Any) -> None:
        """Log progress."""

    def debug(self, message: str, /, *args: Any) -> None:
        """Log details."""

    def warning(self, message: str, /, *args: Any) -> None:
        """Log a problem that may be temporary."""


@dataclass(frozen=True)
class Quiet:
    """A log that shows progress only among the details."""

    log: ProgressLog

    def info(self, message: str, /, *args: Any) -> None:
        """Log progress as a detail."""
        self.log.debug(message, *args)

    def debug(self, message: str, /, *args: Any) -> None:
        """Log details."""
        self.log.debug(message, *args)

    def warning(self, message: str, /, *args: Any) -> None:
        """Log a problem that may be temporary."""
        self.log.warning(message, *args)


@dataclass
class _Outcome:
    """The outcome of an insert in a thread."""

    read_rows: int = 0
    read_bytes: int = 0
    source: SourceRead | None = None
    error: Exception | None = None
    done: threading.Event = field(default_factory=threading.Event)


def run_insert(
    step: Insert,
    *,
    session: Session,
    log: ProgressLog,
    log_comment: Mapping[str, str],
    progress_interval_seconds: float,
) -> InsertStats:
    """Run an insert to its end.

    Raises:
        ClickHouseServerError: If the insert failed.
        ClickHouseConnectionError: If the connection broke; servers then cancel the insert.
        AirflowTaskTimeout: If the session's deadline is over.
    """
    announce(step, log)
    outcome = _Outcome()
    settings = {**step.settings, **log_comment}
    started = time.monotonic()
    # A daemon: a killed task must not hang on a query that its on_kill is about to end.
    threading.Thread(target=_insert, args=(step, session, settings, outcome), daemon=True).start()
    peak_memory_bytes: int | None = None
    lines = ProgressLines(step.total_rows)
    wait_seconds = min(_FIRST_CHECK_SECONDS, progress_interval_seconds)
    while not outcome.done.wait(session.deadline.within(wait_seconds)):
        session.deadline.check()
        wait_seconds = progress_interval_seconds
        progress = _check_progress(step, session)
        if nodes := progress.nodes:
            peak_memory_bytes = max(peak_memory_bytes or 0, *(node.peak_memory_bytes for node in nodes))
            log.info("%s", lines.line(progress, seconds=time.monotonic() - started))
    if outcome.error is not None:
        raise outcome.error
    return InsertStats(
        time.monotonic() - started, outcome.read_rows, peak_memory_bytes, outcome.source, outcome.read_bytes
    )


def announce(step: Insert, log: ProgressLog) -> None:
    """Log which insert is about to be sent, with its query id."""
    log.info("%s: query id %s", step.name, step.query_id)
    log.info("%s", shown_sql(step))


def shown_sql(step: Insert) -> str:
    """Return the statement for the log: without secrets, and shortened."""
    return textwrap.shorten(step.sql.masked, _SHOWN_SQL_CHARACTERS, placeholder=" …")


def _insert(step: Insert, session: Session, settings: Mapping[str, str | int], outcome: _Outcome) -> None:
    try:
        outcome.read_rows, outcome.read_bytes, counters = session.insert_select(
            step.sql.text, query_id=step.query_id, settings=settings, secrets=step.sql.secrets
        )
        outcome.source = source_read_of(counters, step.bytes_event)
    except Exception as error:
        outcome.error = error
    finally:
        outcome.done.set()


def _check_progress(step: Insert, session: Session) -> InsertProgress:
    try:
        rows = session.query(progress_query([step.query_id], step.cluster).text)
    except Chs3Error:
        # A failed check says nothing about the insert, which reports its own end.
        return InsertProgress()
    return progress_of(step.query_id, rows, step.cluster)
