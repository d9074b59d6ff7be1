"""One period and its parts, as JSON for the page: only the values named here leave the ledger."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Container, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from airflow_provider_chs3.core.tuning.insert_settings import TUNED_NAMES, YOURS
from airflow_provider_chs3.core.values.models import Node, TableName
from airflow_provider_chs3.core.values.period import Period
from airflow_provider_chs3.core.workflow.operations import Steps
from airflow_provider_chs3.core.workflow.step_timer import in_order
from airflow_provider_chs3.exceptions import Chs3Error
from airflow_provider_chs3.plugin.api.periods import is_of_dag_in, task_as_json
from airflow_provider_chs3.plugin.api.schemas import Past
from airflow_provider_chs3.plugin.cache import carry_out
from airflow_provider_chs3.plugin.connections import hook_of
from airflow_provider_chs3.plugin.observation.changes import NodeChange, look_at_changes
from airflow_provider_chs3.plugin.observation.objects import PeriodObjects, look_at_objects
from airflow_provider_chs3.plugin.observation.period_details import Entry, PastEvent, PeriodDetails, look_at_period
from airflow_provider_chs3.plugin.observation.speed.period_parts import PeriodParts, look_at_period_parts
from airflow_provider_chs3.plugin.xcom import insert_sql

_LOG = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class DetailsAnswer:
    """The state of a period.

    Args:
        error: The reason why there is none; empty if there is.
        details: The state; None if there is none.
        insert_sql: The insert of its newest load, without credentials; empty if Airflow does not have it.
    """

    error: str = ""
    details: PeriodDetails | None = None
    insert_sql: str = ""

    @property
    def is_known(self) -> bool:
        """Whether the period exists, or may exist."""
        return self.details is None or self.details.is_known

    def as_json(
        self, *, readable_dags: Collection[str], readable_logs: Container[str], readable_xcoms: Container[str]
    ) -> dict[str, Any]:
        """Return JSON-safe values.

        Args:
            readable_dags: DAGs whose tasks may be named.
            readable_logs: DAGs whose errors may be shown with the values that they quote.
            readable_xcoms: DAGs whose statements may be shown.
        """
        seen = self.details
        if seen is None:
            unknown = dict.fromkeys(("load", "inserting", "failure", "last_finished"))
            return unknown | {"error": self.error, "nodes": [], "history": [], "insert_sql": ""}
        return {
            "error": "",
            "nodes": [
                {"name": str(node), "error": seen.down.get(node, ""), "share": seen.nodes.get(node)}
                for node in sorted({*seen.nodes, *seen.down})
            ],
            "load": _load(seen.load, readable_logs) | {"is_published": seen.is_published} if seen.load else None,
            "inserting": _inserting(seen.inserting) if seen.inserting else None,
            "failure": _failure(seen.failure, readable_logs) if seen.failure else None,
            "last_finished": seen.last_finished,
            "history": [
                _past(each, readable_dags, readable_logs)
                | {"is_kept": each.event == "load" and each.attempt in seen.kept}
                for each in seen.history
            ],
            "insert_sql": self.insert_sql if self.insert_sql and is_of_dag_in(seen.owner, readable_xcoms) else "",
        }


def look_at_details(question: str) -> DetailsAnswer:
    """Read the state of one period; it may block for some seconds.

    Args:
        question: The result of `question_of`.
    """
    details, error = _look(look_at_period, question)
    newest = details and (details.inserting or details.load)
    sql = insert_sql(details.owner, newest.attempt) if details and newest and details.owner else ""
    return DetailsAnswer(error=error, details=details, insert_sql=sql)


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
    seen, error = _look(look_at_period_parts, question)
    return PartsAnswer(error=error, seen=seen)


@dataclass(frozen=True, kw_only=True)
class ChangesAnswer:
    """What was done to a period since it was published.

    Args:
        error: The reason why there is no answer; empty if there is one.
        nodes: What was done on each node that has changed.
    """

    error: str = ""
    nodes: Mapping[Node, NodeChange] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return JSON-safe values."""
        changed = [{"name": str(node), "change": each} for node, each in sorted(self.nodes.items())]
        return {"error": self.error, "nodes": changed}


def look_at_who_changed(question: str) -> ChangesAnswer:
    """Read what was done to one period since it was published; it may block for some seconds.

    Args:
        question: The result of `question_of`.
    """
    seen, error = _look(look_at_changes, question)
    return ChangesAnswer(error=error) if seen is None else ChangesAnswer(nodes=seen)


@dataclass(frozen=True, kw_only=True)
class ObjectsAnswer:
    """The objects of a period.

    Args:
        error: The reason why there is no answer; empty if there is one.
        seen: The objects.
    """

    error: str = ""
    seen: PeriodObjects = field(default_factory=PeriodObjects)

    def as_json(self) -> dict[str, Any]:
        """Return JSON-safe values."""
        objects, is_cut, why_not = self.seen
        return {"error": self.error or why_not, "objects": objects, "is_cut": is_cut}


def look_at_objects_of(question: str) -> ObjectsAnswer:
    """Read the objects of one period; it may block for some seconds.

    Args:
        question: The result of `question_of`.
    """
    seen, error = _look(look_at_objects, question)
    return ObjectsAnswer(error=error) if seen is None else ObjectsAnswer(seen=seen)


def _look(look: Callable[[str | None, TableName, Period], Steps[T]], question: str) -> tuple[T | None, str]:
    """Carry out a look at one period; returns what it found, or why it found nothing."""
    conn_id, table, period = period_of_question(question)
    try:
        hook = hook_of(conn_id)
        return carry_out(look(hook.options.cluster, table, period), hook), ""
    except Chs3Error as error:
        _LOG.info("The page cannot read %s of %s: %s", period, conn_id, error)
        return None, str(error)


def question_of(conn_id: str, table: TableName, period: str) -> str:
    """Return one name for a period of a table, so that many users who open it share one query."""
    return json.dumps([conn_id, table.database, table.table, period])


def period_of_question(question: str) -> tuple[str, TableName, Period]:
    """Return the connection, table and period of a result of `question_of`."""
    conn_id, database, name, period = json.loads(question)
    return conn_id, TableName(database, name), Period.parse(period)


def _entry_as_json(entry: Entry) -> dict[str, Any]:
    return {
        "attempt": entry.attempt,
        "recorded_at": entry.recorded_at,
        "objects": entry.objects,
        "source_bytes": entry.source_bytes,
    }


def _load(entry: Entry, readable_logs: Container[str]) -> dict[str, Any]:
    """Return what `api.schemas.Load` is made of: all that the load recorded, which the schema chooses from."""
    details = entry.details
    seconds = details["insert_seconds"]
    # A maximum, or what a statement of the user's found, may be a value of a row.
    hidden = {} if is_of_dag_in(details["owner"], readable_logs) else {"found": None}
    return {
        **details,
        **_entry_as_json(entry),
        "rows": entry.rows,
        "rows_per_second": round(details["loaded_rows"] / seconds) if seconds else None,
        "bytes_per_second": round(details["loaded_bytes"] / seconds) if seconds else None,
        "object_changes": dict(details["object_changes"]),
        "seconds_by_step": in_order(dict(details["seconds_by_step"])),
        "settings": _settings(details["settings"]),
        "checks": [each | hidden for each in json.loads(details["checks"] or "[]")],
    }


def _past(event: PastEvent, readable_dags: Collection[str], readable_logs: Container[str]) -> dict[str, Any]:
    """Return what `api.schemas.Past` is made of."""
    is_full = is_of_dag_in(event.owner, readable_logs)
    why = event.error if is_full and event.error else event.error_hint or event.reason
    task = task_as_json(event.owner, readable_dags)
    return {name: value for name, value in asdict(event).items() if name in Past.model_fields} | {
        "why": why,
        "task": task,
    }


def _settings(text: str) -> list[dict[str, Any]]:
    """Return the computed settings first, then the user's, then those that every load has."""

    def order(setting: Mapping[str, Any]) -> int:
        if setting["reason"] in ("", YOURS):
            return 1
        return 0 if setting["name"] in TUNED_NAMES else 2

    return [{name: each[name] for name in ("name", "value", "reason")} for each in sorted(json.loads(text), key=order)]


def _inserting(entry: Entry) -> dict[str, Any]:
    details = entry.details
    # A load that was resumed has timed its first inserts; of another one they are timed alone.
    spent = dict(details["seconds_by_step"])
    if inserting := max(spent.get("insert", 0.0), details["insert_seconds"]):
        spent["insert"] = inserting
    return {
        **details,
        **_entry_as_json(entry),
        "seconds_by_step": in_order(spent),
        "settings": _settings(details["settings"]),
    }


def _failure(entry: Entry, readable_logs: Container[str]) -> dict[str, Any]:
    details = entry.details
    is_full = is_of_dag_in(details["owner"], readable_logs)
    # Errors that come from no server have fewer fields.
    said = {name: details[f"error_{name}"] or None for name in ("type", "code", "name", "host", "query_id")}
    return {
        **_entry_as_json(entry),
        **said,
        "message": details["error"] if is_full else None,
        "hint": details["error_hint"],
        "is_terminal": details["is_terminal"],
    }
