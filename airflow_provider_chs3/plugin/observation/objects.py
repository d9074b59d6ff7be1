"""The objects of a period, each with its state and the load that took it, as the loads recorded them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Literal, TypeAlias

from pydantic import BaseModel

from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.periods.objects import reads_of_objects
from airflow_provider_chs3.core.sql.quoting import Sql, table
from airflow_provider_chs3.core.steps.fan_out import texts_of
from airflow_provider_chs3.core.steps.operations import Row, Steps
from airflow_provider_chs3.core.target.topology import LEDGER_TABLE, OBJECTS_TABLE
from airflow_provider_chs3.plugin.observation.ledgers import find_ledgers
from airflow_provider_chs3.plugin.observation.period_details import is_of_period
from airflow_provider_chs3.plugin.observation.speed.logs import ask_log

#: The most objects that are shown, the newest.
MOST = 500
#: States of objects that the newest published load read, or did not find any more.
ObjectState: TypeAlias = Literal["loaded", "new", "changed", "gone"]
_ORDER: tuple[ObjectState, ...] = ("gone", "changed", "new", "loaded")


class ObjectRow(BaseModel):
    """An object of a period."""

    path: str
    state: ObjectState
    size_bytes: int
    rows: int | None
    attempt: str
    loaded_at: float


class Objects(BaseModel):
    """The objects of a period."""

    error: str
    objects: list[ObjectRow]
    is_cut: bool


def look_at_objects(cluster: str | None, target: TableName, period: Period) -> Steps[Objects]:
    """Read the objects of a period from the node with the newest record: a replica that was down may lack some."""
    ledgers = yield from find_ledgers(cluster)
    sql = {
        node: Sql(" UNION ALL ".join(_of_ledger(target, period, database) for database in databases))
        for node, databases in ledgers.databases.items()
        if databases
    }
    answers = yield from ask_log("Read the objects", sql)
    known = [answer for answer in answers.values() if not isinstance(answer, str)]
    silent = {node: answer for node, answer in answers.items() if isinstance(answer, str)} | texts_of(ledgers.down)
    reason = next(iter(silent.values()), "")
    if silent and not known:
        return Objects(error=f"{OBJECTS_TABLE}: {reason}", objects=[], is_cut=False)
    newest = max(known, key=lambda rows: (max((sequence for sequence, *_ in rows), default=0), len(rows)), default=[])
    objects = sorted(_objects(newest), key=lambda loaded: (_ORDER.index(loaded.state), -loaded.loaded_at, loaded.path))
    names = ", ".join(sorted(map(str, silent)))
    error = f"As far as known without {names}, which may know a newer load: {reason}" if silent else ""
    return Objects(error=error, objects=objects[:MOST], is_cut=len(objects) > MOST)


def _of_ledger(target: TableName, period: Period, database: str) -> str:
    """Return the query for the newest load, and what published loads read of each path, the oldest first."""
    ledger, condition = TableName(database, LEDGER_TABLE), is_of_period(target, period)
    published = f"FROM {table(ledger)} WHERE {condition} AND event = 'published'"
    newest = f"(SELECT max(sequence) {published}), (SELECT argMax(attempt, (sequence, recorded_at)) {published})"
    read = "(toFloat64(loaded_at), attempt, is_current, size_bytes, etag, ifNull(toInt64(rows), -1))"
    return (
        f"SELECT {newest}, path, arraySort(groupArray({read})) FROM ({reads_of_objects(ledger, condition)}) "
        f"GROUP BY path ORDER BY max(loaded_at) DESC, path LIMIT {MOST + 1}"
    )


def _objects(rows: Collection[Row]) -> Iterator[ObjectRow]:
    # Rows that somebody restored or adopted are of no load.
    is_of_a_load = any(reads[-1][2] for *_, reads in rows)
    for _, attempt, path, reads in rows:
        *_, (_, last_attempt, is_current, size_bytes, etag, count) = reads
        # An increment that removes rows records the kept objects once more: the first load with this version read it.
        took = next(read for read in reads if read[3:5] == (size_bytes, etag))
        state: ObjectState = "loaded"
        if is_of_a_load and not is_current:
            state = "gone"
        elif last_attempt == attempt and took[1] == attempt:
            state = "changed" if len({read[4] for read in reads}) > 1 else "new"
        yield ObjectRow(
            path=path,
            state=state,
            size_bytes=size_bytes,
            rows=None if count < 0 else count,
            attempt=took[1],
            loaded_at=took[0],
        )
