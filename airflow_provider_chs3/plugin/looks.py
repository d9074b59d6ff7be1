"""Looks at connections, which remember what was seen last for when a cluster is down."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from airflow_provider_chs3.core.workflow.operations import Steps
from airflow_provider_chs3.exceptions import Chs3Error
from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
from airflow_provider_chs3.runners.blocking import Runner

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What was seen through a connection.

    Args:
        conn_id: The connection.
        error: Why nothing could be seen now; empty if it could. The rest is what was seen last, then.
        seen_at: When that was, as Unix time by this machine's clock; None where it never was.
    """

    conn_id: str
    error: str = ""
    seen_at: float | None = None

    def _as_json(self) -> dict[str, Any]:
        return {"conn_id": self.conn_id, "error": self.error, "seen_at": self.seen_at}


S = TypeVar("S", bound=Seen)
T = TypeVar("T")


class Looks(Generic[S]):
    """Looks at connections, and gives what was seen last, with the error, where that fails.

    Args:
        look: Looks at a connection; it may block for some seconds.
        nothing: What to give of a connection that was never seen.
    """

    def __init__(self, look: Callable[[str], S], *, nothing: Callable[[str], S]) -> None:
        self._look = look
        self._nothing = nothing
        self._last: dict[str, S] = {}

    def look(self, conn_id: str) -> S:
        """Look at a connection."""
        try:
            self._last[conn_id] = self._look(conn_id)
        except Chs3Error as error:
            _LOG.info("The page cannot look at %s: %s", conn_id, error)
            return replace(self._last.get(conn_id) or self._nothing(conn_id), error=str(error))
        return self._last[conn_id]


def carry_out(steps: Steps[T], hook: ClickHouseHook) -> T:
    """Run a workflow that only asks.

    Args:
        steps: The workflow.
        hook: The connection.
    """
    return Runner(hook=hook, listing=None, log=_LOG, progress_interval_seconds=10).run(steps)
