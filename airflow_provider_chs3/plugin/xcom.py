"""Read the XComs of tasks: the changed objects that plans found, the periods of a run, the insert of a load.

All of it is in Airflow's database; nothing here queries a storage or ClickHouse. Values that a custom XCom backend
stores elsewhere are missing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from sqlalchemy import and_, func, select

from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.plugin.constants import LINK_KEY, PLAN_KEY, PROOF_KEY, SQL_KEY

T = TypeVar("T")

#: The newest run of each planning task counts: of at most this many tasks, and no older than this many days.
_PLANS = 200
_PLAN_DAYS = 92
#: So many of the newest proofs count, whichever tasks they are of: one may prove another period each time.
_PROOFS = 200
#: The most tasks of one run.
_LINKS = 2_000


@dataclass(frozen=True, slots=True)
class ChangedPeriod:
    """A period whose objects changed since it was published.

    Args:
        attempts: The attempts that had published the period then, on any node.
        planned_at: Time of the plan; None of a derived period whose base changed, which the servers themselves tell.
        is_blocked: Whether its load will stop with an error, for this reason.
    """

    reason: str
    attempts: frozenset[str]
    planned_at: datetime | None
    is_blocked: bool = False


@dataclass(frozen=True, slots=True)
class ProvedPeriod:
    """A period that a proof compared with its objects."""

    is_equal: bool
    found: str
    nodes: Mapping[str, tuple[int, ...]]
    proved_at: datetime


@dataclass(frozen=True, slots=True)
class NamedPeriod:
    """A period that a task is about."""

    conn_id: str
    table: TableName
    period: str | None


def changed_in_storage(conn_id: str) -> dict[tuple[TableName, str], ChangedPeriod]:
    """Return the periods whose objects changed, according to the newest plan of each."""
    newest = _of_periods(_newest_plans(), conn_id, _changed)
    return {key: change for key, change in newest.items() if change}


def _changed(values: Mapping[str, Any] | None, planned_at: datetime) -> ChangedPeriod | None:
    if not values:
        return None
    attempts = frozenset(map(str, values["attempts"]))
    return ChangedPeriod(str(values["reason"]), attempts, planned_at, values["is_blocked"] is True)


def proved_periods(conn_id: str) -> dict[tuple[TableName, str], ProvedPeriod]:
    """Return what the newest proof of each period found."""
    oldest = datetime.now(UTC) - timedelta(days=_PLAN_DAYS)
    asked = (
        select(XComModel.value, XComModel.timestamp)
        .where(XComModel.key == PROOF_KEY, XComModel.timestamp > oldest)
        .order_by(XComModel.timestamp.desc())
        .limit(_PROOFS)
    )
    with create_session() as session:
        return _of_periods(session.execute(asked), conn_id, _proved)


def _proved(values: Mapping[str, Any], proved_at: datetime) -> ProvedPeriod:
    return ProvedPeriod(
        is_equal=values["is_equal"] is True,
        found=str(values["found"]),
        nodes={str(node): tuple(map(int, versions)) for node, versions in values["nodes"].items()},
        proved_at=proved_at,
    )


def _of_periods(
    newest_first: Iterable[Any], conn_id: str, parse: Callable[[Any, datetime], T]
) -> dict[tuple[TableName, str], T]:
    """Return what the newest of some results says of each period behind a connection."""
    known: dict[tuple[TableName, str], T] = {}
    for value, at in newest_first:
        try:
            answer = _parsed(value)
            if answer["conn_id"] == conn_id:
                table = TableName(str(answer["database"]), str(answer["table"]))
                known = {(table, str(period)): parse(of, at) for period, of in answer["periods"].items()} | known
        except (KeyError, TypeError, ValueError, AttributeError):
            # From another version of this package, or from something else.
            continue
    return known


def _newest_plans() -> list[Any]:
    """Return the result of each plan's newest run, the newest first."""
    task = (XComModel.dag_id, XComModel.task_id, XComModel.map_index)
    number = func.row_number().over(partition_by=task, order_by=XComModel.timestamp.desc()).label("number")
    oldest = datetime.now(UTC) - timedelta(days=_PLAN_DAYS)
    is_plan = (XComModel.key == PLAN_KEY, XComModel.timestamp > oldest)
    # Read only the newest values, as they may be long.
    ranked = select(XComModel.dag_run_id, XComModel.task_id, XComModel.map_index, number).where(*is_plan).subquery()
    is_same_task = [getattr(XComModel, name) == ranked.c[name] for name in ("dag_run_id", "task_id", "map_index")]
    newest = (
        select(XComModel.value, XComModel.timestamp)
        .join(ranked, and_(*is_same_task))
        .where(*is_plan, ranked.c.number == 1)
    )
    with create_session() as session:
        return [*session.execute(newest.order_by(XComModel.timestamp.desc()).limit(_PLANS))]


def named_periods(*, dag_id: str, run_id: str, task_id: str | None, map_index: int | None) -> frozenset[NamedPeriod]:
    """Return the periods that the tasks of a run are about, from their links to the page."""
    asked = select(XComModel.value).where(
        XComModel.dag_id == dag_id, XComModel.run_id == run_id, XComModel.key == LINK_KEY
    )
    if task_id is not None:
        asked = asked.where(XComModel.task_id == task_id)
    if map_index is not None:
        asked = asked.where(XComModel.map_index == map_index)
    with create_session() as session:
        values = session.scalars(asked.limit(_LINKS)).all()
    return frozenset(named for value in values for named in _named(_parsed(value)))


def _named(url: Any) -> Iterator[NamedPeriod]:
    query = parse_qs(urlsplit(url).query) if isinstance(url, str) else {}
    if {"conn_id", "database", "table"} <= query.keys():
        table = TableName(query["database"][0], query["table"][0])
        for period in query.get("period", [None]):
            yield NamedPeriod(query["conn_id"][0], table, period)


def insert_sql(owner: str, attempt: str) -> str:
    """Return the insert that a load sent last, without credentials and shortened; empty if Airflow does not have it."""
    dag_id, run_id, task_id, map_index = json.loads(owner)
    asked = select(XComModel.value).where(
        XComModel.dag_id == dag_id,
        XComModel.run_id == run_id,
        XComModel.task_id == task_id,
        XComModel.map_index == map_index,
        XComModel.key == SQL_KEY,
    )
    with create_session() as session:
        sql = _parsed(session.scalar(asked))
    # It writes into the attempt's staging, whose name ends with the attempt.
    return sql if isinstance(sql, str) and f"_{attempt}" in sql else ""


def _parsed(value: Any) -> Any:
    """Parse the value of an XCom: Airflow stores JSON text in a JSON column."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value
