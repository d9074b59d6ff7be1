"""One period and its parts, as JSON for the page: only the values named here leave the ledger."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Container, Mapping
from typing import Any, NamedTuple, TypeAlias, TypeVar

from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.steps.driving import in_order
from airflow_provider_chs3.core.steps.operations import Steps
from airflow_provider_chs3.core.tuning.insert_settings import TUNED_NAMES, YOURS
from airflow_provider_chs3.exceptions import Chs3Error
from airflow_provider_chs3.plugin.answers.periods import is_of_dag_in, task_as_json
from airflow_provider_chs3.plugin.cache import carry_out
from airflow_provider_chs3.plugin.connections import hook_of
from airflow_provider_chs3.plugin.observation.period_details import Entry, PastEvent, PeriodDetails, look_at_period
from airflow_provider_chs3.plugin.xcom import insert_sql

_LOG = logging.getLogger(__name__)
T = TypeVar("T")
Look: TypeAlias = Callable[[str | None, TableName, Period], Steps[T]]


class SeenDetails(NamedTuple):
    """The state of a period, or why it is not known, and the insert of its newest load."""

    details: PeriodDetails | None
    insert_sql: str = ""
    error: str = ""


class PeriodOfTable(NamedTuple):
    """A period of a table behind a connection: many users who open it share one query."""

    conn_id: str
    table: TableName
    period: Period


def look_with(look: Look[T], nothing: Callable[..., T]) -> Callable[[PeriodOfTable], T]:
    """Return a function that takes a look at a period; it may block. After an error, `nothing` makes the answer."""

    def look_at(question: PeriodOfTable) -> T:
        conn_id, table, period = question
        try:
            hook = hook_of(conn_id)
            return carry_out(look(hook.options.cluster, table, period), hook)
        except Chs3Error as error:
            _LOG.info("The page cannot read %s of %s: %s", period, conn_id, error)
            return nothing(error=str(error))

    return look_at


def look_at_details(cluster: str | None, target: TableName, period: Period) -> Steps[SeenDetails]:
    """Read the state of a period, as `look_at_period`, and the insert of its newest load."""
    details = yield from look_at_period(cluster, target, period)
    newest = details.inserting or details.load
    return SeenDetails(details, insert_sql(details.owner, newest.attempt) if newest and details.owner else "")


def details_as_json(
    seen: SeenDetails,
    *,
    readable_dags: Collection[str],
    readable_logs: Container[str],
    readable_xcoms: Container[str],
) -> dict[str, Any] | None:
    """Return what `api.schemas.PeriodDetails` is made of; None of a period that does not exist."""
    details, sql, error = seen
    if details is None:
        unknown = dict.fromkeys(("load", "inserting", "failure", "last_finished"))
        return unknown | {"error": error, "nodes": [], "history": [], "insert_sql": ""}
    if not details.is_known:
        return None
    return {
        "error": "",
        "nodes": [
            {"name": str(node), "error": details.down.get(node, ""), "share": details.nodes.get(node)}
            for node in sorted({*details.nodes, *details.down})
        ],
        "load": _load(details.load, readable_logs) | {"is_published": details.is_published} if details.load else None,
        "inserting": _inserting(details.inserting) if details.inserting else None,
        "failure": _failure(details.failure, readable_logs) if details.failure else None,
        "last_finished": details.last_finished,
        "history": [
            _past(event, readable_dags, readable_logs)
            | {"is_kept": event.event == "load" and event.attempt in details.kept}
            for event in details.history
        ],
        "insert_sql": sql if sql and is_of_dag_in(details.owner, readable_xcoms) else "",
    }


def _load(entry: Entry, readable_logs: Container[str]) -> dict[str, Any]:
    """Return what `api.schemas.Load` is made of: all that the load recorded, which the schema chooses from."""
    details = entry.details
    seconds = details["insert_seconds"]
    # A maximum, or what a statement of the user's found, may be a value of a row.
    hidden = {} if is_of_dag_in(details["owner"], readable_logs) else {"found": None}
    return {
        **details,
        **entry._asdict(),
        "rows_per_second": round(details["loaded_rows"] / seconds) if seconds else None,
        "bytes_per_second": round(details["loaded_bytes"] / seconds) if seconds else None,
        "object_changes": dict(details["object_changes"]),
        "seconds_by_step": in_order(dict(details["seconds_by_step"])),
        "settings": _settings(details["settings"]),
        "checks": [load | hidden for load in json.loads(details["checks"] or "[]")],
    }


def _past(event: PastEvent, readable_dags: Collection[str], readable_logs: Container[str]) -> dict[str, Any]:
    """Return what `api.schemas.Past` is made of."""
    is_full = is_of_dag_in(event.owner, readable_logs)
    reason = event.error if is_full and event.error else event.error_hint or event.reason
    task = task_as_json(event.owner, readable_dags)
    return {**event._asdict(), "why": reason, "task": task}


def _settings(text: str) -> list[dict[str, Any]]:
    """Return the computed settings first, then the user's, then those that every load has."""

    def order(setting: Mapping[str, Any]) -> int:
        if setting["reason"] in ("", YOURS):
            return 1
        return 0 if setting["name"] in TUNED_NAMES else 2

    return [{name: load[name] for name in ("name", "value", "reason")} for load in sorted(json.loads(text), key=order)]


def _inserting(entry: Entry) -> dict[str, Any]:
    details = entry.details
    # A load that was resumed has timed its first inserts; of another one they are timed alone.
    spent = dict(details["seconds_by_step"])
    if inserting := max(spent.get("insert", 0.0), details["insert_seconds"]):
        spent["insert"] = inserting
    return {
        **details,
        **entry._asdict(),
        "seconds_by_step": in_order(spent),
        "settings": _settings(details["settings"]),
    }


def _failure(entry: Entry, readable_logs: Container[str]) -> dict[str, Any]:
    details = entry.details
    is_full = is_of_dag_in(details["owner"], readable_logs)
    # Errors that come from no server have fewer fields.
    said = {name: details[f"error_{name}"] or None for name in ("type", "code", "name", "host", "query_id")}
    return {
        **entry._asdict(),
        **said,
        "message": details["error"] if is_full else None,
        "hint": details["error_hint"],
        "is_terminal": details["is_terminal"],
    }
