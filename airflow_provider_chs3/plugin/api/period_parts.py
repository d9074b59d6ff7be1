"""The parts of one period over time, as JSON for the page."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from airflow_provider_chs3.exceptions import Chs3Error
from airflow_provider_chs3.plugin.api.period_details import period_of_question
from airflow_provider_chs3.plugin.cache import carry_out
from airflow_provider_chs3.plugin.connections import hook_of
from airflow_provider_chs3.plugin.observation.speed.period_parts import PeriodParts, look_at_period_parts

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class PartsAnswer:
    """The parts of a period.

    Args:
        error: The reason why there are none; empty if there are.
        seen: The parts; None if there are none.
    """

    error: str = ""
    seen: PeriodParts | None = None

    def as_json(self) -> dict[str, Any]:
        """Return JSON-safe values."""
        if self.seen is None:
            return {"error": self.error, "begun_at": None, "now": None, "nodes": []}
        nodes = {node: [(each.at, each.parts) for each in points] for node, points in self.seen.nodes.items()}
        return {
            "error": "",
            "begun_at": self.seen.begun_at,
            "now": self.seen.now,
            "nodes": [
                {"name": str(node), "error": self.seen.silent.get(node, ""), "parts": nodes.get(node, [])}
                for node in sorted([*nodes, *self.seen.silent])
            ],
        }


def look_at_parts(question: str) -> PartsAnswer:
    """Read the parts of one period; it may block for some seconds.

    Args:
        question: The result of `question_of`.
    """
    conn_id, table, period = period_of_question(question)
    try:
        hook = hook_of(conn_id)
        return PartsAnswer(seen=carry_out(look_at_period_parts(hook.options.cluster, table, period), hook))
    except Chs3Error as error:
        _LOG.info("The page cannot read the parts of %s of %s: %s", period, conn_id, error)
        return PartsAnswer(error=str(error))
