"""The parts of one period over time, from the servers' part logs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from airflow_provider_chs3.core.model.models import Node, TableName
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.sql.quoting import Sql, in_table
from airflow_provider_chs3.core.steps.fan_out import query_reachable, texts_of
from airflow_provider_chs3.core.steps.operations import Row, Steps
from airflow_provider_chs3.plugin.observation.ledgers import find_ledgers
from airflow_provider_chs3.plugin.observation.period_details import own_parts
from airflow_provider_chs3.plugin.observation.speed import throughput_queries
from airflow_provider_chs3.plugin.observation.speed.logs import ask_log

#: How far the chart goes back, in days: parts of a period change for hours after its load.
DAYS = 7
_DAY_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class PartsSince:
    """The parts of a period on a node from one time to the next."""

    at: float
    parts: int


class PeriodParts(NamedTuple):
    """The parts of one period over time."""

    begun_at: float | None
    now: float | None
    nodes: Mapping[Node, tuple[PartsSince, ...]]
    silent: Mapping[Node, str]


def look_at_period_parts(cluster: str | None, target: TableName, period: Period) -> Steps[PeriodParts]:
    """Read the parts of a period, and how their number has changed in the last days."""
    ledgers = yield from find_ledgers(cluster)
    of_period = own_parts(target, period, ledgers)
    counts = {node: _state_query(target, condition) for node, condition in of_period.items()}
    answers = yield from query_reachable(f"Count the parts of {period}", counts, ledgers.down)
    if not answers:
        return PeriodParts(begun_at=None, now=None, nodes={}, silent=texts_of(ledgers.down))
    until = max(rows[0][0] for rows in answers.values())
    begun_at = until - DAYS * _DAY_SECONDS
    changes = {
        node: throughput_queries.changes([target], begun_at=begun_at, step_seconds=1, condition=of_period[node])
        for node in answers
    }
    logs = yield from ask_log(f"Read the history of the parts of {period}", changes)
    return PeriodParts(
        begun_at=begun_at,
        now=until,
        nodes={
            node: parts_since(answers[node][0][1], rows, until=until)
            for node, rows in logs.items()
            if not isinstance(rows, str)
        },
        silent=texts_of(ledgers.down)
        | {node: f"system.part_log: {reason}" for node, reason in logs.items() if isinstance(reason, str)},
    )


def _state_query(target: TableName, condition: str) -> Sql:
    return Sql(
        f"SELECT toFloat64(now64(3)), count() FROM system.parts WHERE active AND rows > 0 "
        f"AND {in_table(target)} AND {condition}"
    )


def parts_since(parts: int, changes: Iterable[Row], *, until: float) -> tuple[PartsSince, ...]:
    """Return the parts over time, the oldest first, from the time on from which they are known."""
    changed: list[PartsSince] = []
    for *_, at, difference in changes:
        changed.append(PartsSince(at, parts))
        parts -= difference
        # Events are missing, such as the last ones of a server that was killed: what was before is not known.
        if parts < 0:
            break
    return tuple(reversed(changed)) or (PartsSince(until, parts),)
