"""The parts of one period over time, from the servers' part logs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pydantic import BaseModel

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


class NodePartsSince(BaseModel):
    """The parts of a period on a node: Unix time and the number from then on; none, with the reason, without a log."""

    name: str
    error: str
    parts: list[tuple[float, int]]


class PeriodParts(BaseModel):
    """The parts of a period over time; times are of Unix."""

    error: str
    begun_at: float | None
    now: float | None
    nodes: list[NodePartsSince]


def look_at_period_parts(cluster: str | None, target: TableName, period: Period) -> Steps[PeriodParts]:
    """Read the parts of a period, and how their number has changed in the last days."""
    ledgers = yield from find_ledgers(cluster)
    of_period = own_parts(target, period, ledgers)
    counts = {node: _state_query(target, condition) for node, condition in of_period.items()}
    answers = yield from query_reachable(f"Count the parts of {period}", counts, ledgers.down)
    known, silent = dict[Node, list[tuple[float, int]]](), texts_of(ledgers.down)
    if not answers:
        return PeriodParts(error="", begun_at=None, now=None, nodes=_nodes(known, silent))
    until = max(rows[0][0] for rows in answers.values())
    begun_at = until - DAYS * _DAY_SECONDS
    changes = {
        node: throughput_queries.changes([target], begun_at=begun_at, step_seconds=1, condition=of_period[node])
        for node in answers
    }
    logs = yield from ask_log(f"Read the history of the parts of {period}", changes)
    for node, log in logs.items():
        if isinstance(log, str):
            silent[node] = f"system.part_log: {log}"
        else:
            known[node] = parts_since(answers[node][0][1], log, until=until)
    return PeriodParts(error="", begun_at=begun_at, now=until, nodes=_nodes(known, silent))


def _nodes(known: Mapping[Node, list[tuple[float, int]]], silent: Mapping[Node, str]) -> list[NodePartsSince]:
    return [
        NodePartsSince(name=str(node), error=silent.get(node, ""), parts=known.get(node, []))
        for node in sorted([*known, *silent])
    ]


def _state_query(target: TableName, condition: str) -> Sql:
    return Sql(
        f"SELECT toFloat64(now64(3)), count() FROM system.parts WHERE active AND rows > 0 "
        f"AND {in_table(target)} AND {condition}"
    )


def parts_since(parts: int, changes: Iterable[Row], *, until: float) -> list[tuple[float, int]]:
    """Return the parts over time, the oldest first, from the time on from which they are known."""
    changed: list[tuple[float, int]] = []
    for *_, at, difference in changes:
        changed.append((at, parts))
        parts -= difference
        # Events are missing, such as the last ones of a server that was killed: what was before is not known.
        if parts < 0:
            break
    return changed[::-1] or [(until, parts)]
