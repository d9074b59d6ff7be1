"""The speed of loads, and the parts over time, from the ledgers and the servers' logs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from airflow_provider_chs3.core.arguments.merge_arguments import Thresholds
from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.core.steps.fan_out import query_reachable, texts_of
from airflow_provider_chs3.core.steps.operations import Row, Steps
from airflow_provider_chs3.plugin.observation.ledgers import find_ledgers
from airflow_provider_chs3.plugin.observation.speed import throughput_queries
from airflow_provider_chs3.plugin.observation.speed.costs import TableCost, add_up_costs
from airflow_provider_chs3.plugin.observation.speed.load_history import LoadSpeed, judged, loads_of
from airflow_provider_chs3.plugin.observation.speed.logs import Log, ask_log, silent_logs
from airflow_provider_chs3.plugin.observation.speed.parts_over_time import PartsAt, parts_over_time

_DAY_SECONDS = 86_400
#: Points for each node, whatever the range.
_POINTS = 144


@dataclass(frozen=True, kw_only=True)
class Throughput:
    """The speed of a cluster's loads."""

    cluster: str | None
    loads: tuple[LoadSpeed, ...]
    is_cut: bool
    parts: Mapping[Node, tuple[PartsAt, ...]]
    nodes: tuple[Node, ...]
    down: Mapping[Node, str]
    silent: Mapping[Node, tuple[str, ...]]
    unread: str = ""
    costs: tuple[TableCost, ...] = ()


#: The value for a cluster that has not answered yet.
NOTHING = Throughput(cluster=None, loads=(), is_cut=False, parts={}, nodes=(), down={}, silent={})


def look_at_throughput(cluster: str | None, *, days: int) -> Steps[Throughput]:
    """Read the recorded loads of every node, with further data from its logs.

    Logs may be switched off, not granted, or kept for a shorter time: their data is missing then.
    """
    ledgers = yield from find_ledgers(cluster)
    statements = {
        node: throughput_queries.loads(databases, days=days) for node, databases in ledgers.loads.items() if databases
    }
    records = yield from query_reachable("Read the loads in the ledgers", statements, ledgers.down)
    loads = loads_of(row for rows in records.values() for row in rows)
    # A node without a ledger may still have parts and logs.
    nodes = tuple(node for node in ledgers.databases if node not in ledgers.down)
    parts, silent, costs = dict[Node, tuple[PartsAt, ...]](), dict[Node, tuple[str, ...]](), list[TableCost]()
    if loads:
        now_of = throughput_queries.now(sorted({load.table_name for load in loads}))
        states = yield from query_reachable("Count the parts", dict.fromkeys(nodes, now_of), ledgers.down)
        nodes = tuple(states)
        if states:
            loads, parts, silent = yield from _look_at_logs(
                loads, {node: rows[0] for node, rows in states.items()}, days
            )
        costs = yield from add_up_costs(ledgers, days=days)
    return Throughput(
        cluster=cluster,
        loads=loads,
        is_cut=any(len(rows) == throughput_queries.MAX_LOADS for rows in records.values()),
        parts=parts,
        nodes=nodes,
        down=texts_of(ledgers.down),
        silent=silent,
        unread=ledgers.unread,
        costs=tuple(costs),
    )


def _look_at_logs(
    loads: Sequence[LoadSpeed], states: Mapping[Node, Row], days: int
) -> Steps[tuple[tuple[LoadSpeed, ...], dict[Node, tuple[PartsAt, ...]], dict[Node, tuple[str, ...]]]]:
    """Return the loads with what logs say of them, the parts of each node over time, and the logs that say nothing."""
    tables = sorted({load.table_name for load in loads})
    first, last = min(load.begun_at for load in loads), loads[-1].published_at
    until = max(row[0] for row in states.values())
    begun_at, step_seconds = until - days * _DAY_SECONDS, days * _DAY_SECONDS // _POINTS
    inserts_of = throughput_queries.inserts([load.attempt for load in loads], begun_at=first, ended_at=last)
    changes_of = throughput_queries.changes(tables, begun_at=begun_at, step_seconds=step_seconds)
    inserts = yield from ask_log("Read how long inserts waited for the storage", dict.fromkeys(states, inserts_of))
    merges_of = throughput_queries.merges(tables, begun_at=first)
    merges = yield from ask_log("Read the merges", dict.fromkeys(states, merges_of))
    changes = yield from ask_log("Read the history of parts", dict.fromkeys(states, changes_of))
    storage_seconds, merge_seconds = _storage_seconds(inserts), _merge_seconds(merges)
    merging = {partition for row in states.values() for partition in row[2]}
    newest = {load.partition: load.attempt for load in loads}
    for partition in merging & newest.keys():
        merge_seconds.pop(newest[partition], None)
    with_logs = [
        load.model_copy(
            update={
                "storage_seconds": storage_seconds.get(load.attempt),
                "merge_seconds": merge_seconds.get(load.attempt),
            }
        )
        for load in loads
    ]
    parts = {
        node: parts_over_time(states[node][1], rows, begun_at=begun_at, until=until, step_seconds=step_seconds)
        for node, rows in changes.items()
        if not isinstance(rows, str)
    }
    return judged(with_logs), parts, silent_logs({"system.query_log": inserts, "system.part_log": merges})


def _storage_seconds(inserts: Log) -> dict[str, float]:
    by_attempt: dict[str, float] = defaultdict(float)
    for rows in inserts.values():
        for attempt, seconds in () if isinstance(rows, str) else rows:
            by_attempt[attempt] += seconds
    # A load that did not wait at all is one from a storage without a counter.
    return {attempt: seconds for attempt, seconds in by_attempt.items() if seconds}


def _merge_seconds(merges: Log) -> dict[str, float]:
    """Return the seconds of merges after each publication: of the slowest node, as all merge in parallel."""
    by_attempt: dict[str, float] = {}
    for rows in merges.values():
        for *_, events in () if isinstance(rows, str) else rows:
            for attempt, seconds in settle_seconds(events).items():
                by_attempt[attempt] = max(seconds, by_attempt.get(attempt, 0.0))
    return by_attempt


def settle_seconds(events: Iterable[tuple[float, float, str]]) -> dict[str, float]:
    """Return the seconds from each publication to the end of the last merge that followed from it.

    A merge follows if it began before merges would have counted as settled (`Thresholds.settled_after_seconds`) since
    the publication, or since the merge before it; later ones, such as an OPTIMIZE of a closed period, do not belong to
    the load.

    Returns:
        Attempt → seconds; 0 if nothing was merged.
    """
    quiet_seconds = Thresholds().settled_after_seconds
    by_attempt: dict[str, float] = {}
    attempt, published_at, busy_until = "", 0.0, 0.0
    for begun_at, ended_at, published_by in sorted(events, key=lambda event: event[0]):
        if published_by and published_by not in by_attempt:
            attempt, published_at, busy_until = published_by, ended_at, ended_at
            by_attempt[attempt] = 0.0
        elif attempt and not published_by and begun_at - busy_until <= quiet_seconds:
            busy_until = max(busy_until, ended_at)
            by_attempt[attempt] = busy_until - published_at
    return by_attempt
