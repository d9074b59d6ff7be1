"""One month, as JSON for the page: only the values named here leave the ledger."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Container, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from airflow_provider_chs3.core.cluster.node_capacity import shown
from airflow_provider_chs3.core.values.models import Month, TableName
from airflow_provider_chs3.core.workflow.step_timer import STEP_NAMES
from airflow_provider_chs3.exceptions import Chs3Error
from airflow_provider_chs3.plugin.api.months import may_see_values, task_as_json
from airflow_provider_chs3.plugin.cache import carry_out
from airflow_provider_chs3.plugin.connections import hook_of
from airflow_provider_chs3.plugin.observation.month_details import Entry, MonthDetails, look_at_month

_LOG = logging.getLogger(__name__)
_OF_LOAD = (
    "reason",
    "rows",
    "parts",
    "other_month_rows",
    "insert_seconds",
    "peak_memory_bytes",
    "memory_bytes",
    "memory_steps",
    "query_ids",
)
_OF_ERROR = ("type", "code", "name", "host", "query_id", "message", "hint", "is_terminal")


@dataclass(frozen=True, kw_only=True)
class DetailsAnswer:
    """The state of a month.

    Args:
        error: The reason why there is none; empty if there is.
        details: The state; None if there is none.
    """

    error: str = ""
    details: MonthDetails | None = None

    @property
    def is_known(self) -> bool:
        """Whether the month exists, or may exist."""
        return self.details is None or self.details.is_known

    def as_json(self, *, readable_dags: Collection[str], readable_logs: Container[str]) -> dict[str, Any]:
        """Return JSON-safe values.

        Args:
            readable_dags: DAGs whose tasks may be named.
            readable_logs: DAGs whose errors may be shown with the values that they quote.
        """
        seen = self.details
        if seen is None:
            return {"error": self.error, "nodes": [], "load": None, "inserting": None, "failure": None, "task": None}
        nodes = {node: asdict(share) | {"error": ""} for node, share in seen.nodes.items()}
        nodes |= {node: {"error": error} for node, error in seen.down.items()}
        return {
            "error": "",
            "nodes": [{"name": shown(node), **nodes[node]} for node in sorted(nodes)],
            "load": _load(seen.load) | {"is_published": seen.is_published} if seen.load else None,
            "inserting": _inserting(seen.inserting) if seen.inserting else None,
            "failure": _failure(seen.failure, readable_logs) if seen.failure else None,
            "task": task_as_json(seen.owner, readable_dags),
        }


def look_at_details(question: str) -> DetailsAnswer:
    """Read the state of one month; it may block for some seconds.

    Args:
        question: The result of `question_of`.
    """
    conn_id, database, name, month = json.loads(question)
    try:
        hook = hook_of(conn_id)
        steps = look_at_month(hook.options.cluster, TableName(database, name), Month.parse(month))
        return DetailsAnswer(details=carry_out(steps, hook))
    except Chs3Error as error:
        _LOG.info("The page cannot read %s of %s: %s", month, conn_id, error)
        return DetailsAnswer(error=str(error))


def question_of(conn_id: str, table: TableName, month: str) -> str:
    """Return one name for a month of a table, so that many users who open it share one query."""
    return json.dumps([conn_id, table.database, table.table, month])


def _entry_as_json(entry: Entry) -> dict[str, Any]:
    return {
        "attempt": entry.attempt,
        "recorded_at": entry.recorded_at,
        "objects": entry.objects,
        "source_bytes": entry.source_bytes,
    }


def _load(entry: Entry) -> dict[str, Any]:
    details = entry.details
    seconds = details.get("insert_seconds") or 0
    # Older versions of this package loaded all objects of a month, and did not record these numbers.
    loaded_bytes = details.get("loaded_bytes", entry.source_bytes)
    reasons = details.get("setting_reasons", {})
    spent = details.get("seconds_by_step", {})
    return (
        _entry_as_json(entry)
        | {name: details.get(name) for name in _OF_LOAD}
        | {
            "loaded_objects": details.get("loaded_objects", entry.objects),
            "loaded_bytes": loaded_bytes,
            "object_changes": details.get("object_changes", {}),
            "rows_per_second": round(details.get("loaded_rows", details.get("rows", 0)) / seconds) if seconds else None,
            "bytes_per_second": round(loaded_bytes / seconds) if seconds else None,
            "seconds_by_step": [{"step": step, "seconds": spent[step]} for step in STEP_NAMES if step in spent],
            "settings": [
                {"name": name, "value": value, "reason": reasons.get(name, "")}
                for name, value in details.get("settings", {}).items()
            ],
        }
    )


def _inserting(entry: Entry) -> dict[str, Any]:
    plan: Mapping[str, Any] = entry.details.get("plan", {})
    started = [*(each["query_id"] for each in entry.details.get("done", ())), entry.details.get("running")]
    return _entry_as_json(entry) | {
        "reason": entry.details.get("reason", ""),
        "memory_bytes": plan.get("memory_bytes"),
        "memory_steps": plan.get("memory_steps"),
        "query_ids": [query_id for query_id in started if query_id],
        "settings": [{name: each[name] for name in ("name", "value", "reason")} for each in plan.get("settings", ())],
    }


def _failure(entry: Entry, readable_logs: Container[str]) -> dict[str, Any]:
    error: Mapping[str, Any] = entry.details.get("error", {})
    is_full = may_see_values(entry.details.get("owner", ""), readable_logs)
    values = {name: error.get(name) for name in _OF_ERROR if is_full or name != "message"}
    return _entry_as_json(entry) | {"message": None} | values
