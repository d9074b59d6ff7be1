"""The speed of loads, and the parts over time, from the ledgers and the servers' logs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace

from airflow_provider_chs3.core.cluster.topology import nodes_of
from airflow_provider_chs3.core.ledger.table import columns_of_ledgers
from airflow_provider_chs3.core.merges.health import Thresholds
from airflow_provider_chs3.core.sql.quoting import Sql
from airflow_provider_chs3.core.values.models import Node
from airflow_provider_chs3.core.workflow.fan_out import query_reachable, texts_of
from airflow_provider_chs3.core.workflow.operations import Row, Steps, TryQueryNodes
from airflow_provider_chs3.exceptions import Chs3Error, ClickHouseServerError
from airflow_provider_chs3.plugin.observation.speed import throughput_queries
from airflow_provider_chs3.plugin.observation.speed.load_history import SeenLoad, judged, loads_of


def settle_seconds(events: Iterable[tuple[float, float, str]]) -> dict[str, float]:
    """Return the seconds from each publication to the end of the last merge that followed from it.

    A merge follows if it began before merges would have counted as settled (`Thresholds.settled_after_seconds`) since
    the publication, or since the merge before it; later ones, such as an OPTIMIZE of a closed month, do not belong to
    the load.

    Args:
        events: The events of one partition on one node: begin and end, as Unix time, and the attempt that published;
            empty for a merge.

    Returns:
        Attempt → seconds; 0 if nothing was merged.
    """
    quiet_seconds = Thresholds().settled_after_seconds
    found: dict[str, float] = {}
    attempt, published_at, busy_until = "", 0.0, 0.0
    for begun_at, ended_at, published_by in sorted(events, key=lambda event: event[0]):
        if published_by and published_by not in found:
            attempt, published_at, busy_until = published_by, ended_at, ended_at
            found[attempt] = 0.0
        elif attempt and not published_by and begun_at - busy_until <= quiet_seconds:
            busy_until = max(busy_until, ended_at)
            found[attempt] = busy_until - published_at
    return found


@dataclass(frozen=True, slots=True)
class PartsAt:
    """The parts of a node at one time.

    Args:
        at: The time, as Unix time by the node's clock.
        parts: Active parts of all tables.
        backlog: Parts beyond one for each partition, which merges could still join.
    """

    at: float
    parts: int
    backlog: int


def parts_over_time(
    parts: Mapping[Hashable, int],
    changes: Iterable[tuple[Hashable, float, int]],
    *,
    begun_at: float,
    known_since: float,
    now: float,
    step_seconds: int,
) -> tuple[PartsAt, ...]:
    """Return the parts of a node over time.

    What is known stands at the beginning of its step, so that the points of all nodes have the same times.

    Args:
        parts: Active parts of each partition now.
        changes: Partition, time (rounded down to a step) and difference.
        begun_at: The beginning of the period, as Unix time.
        known_since: From when on all changes are known; `now` if none are.
        now: The time of `parts`.
        step_seconds: Seconds between two of the results.

    Returns:
        The results, the oldest first; the last is of now.
    """
    by_step: dict[int, list[tuple[Hashable, int]]] = {}
    for partition, at, difference in changes:
        by_step.setdefault(int(at) // step_seconds, []).append((partition, difference))
    counts = dict(parts)
    total = sum(counts.values())
    backlog = sum(_beyond_one(count) for count in counts.values())
    found = [PartsAt(now, total, backlog)]
    first = int(known_since) // step_seconds if known_since < now else int(now) // step_seconds + 1
    for step in range(int(now) // step_seconds, first - 1, -1):
        for partition, difference in by_step.get(step, ()):
            before = counts.get(partition, 0)
            # A log that starts later shows parts being removed, but not how they were created.
            counts[partition] = after = max(0, before - difference)
            total += after - before
            backlog += _beyond_one(after) - _beyond_one(before)
        found.append(PartsAt(max(step * step_seconds, begun_at), total, backlog))
    return tuple(reversed(found))


def _beyond_one(parts: int) -> int:
    return max(0, parts - 1)


_ACCESS_DENIED = 497
_UNKNOWN_TABLE = 60
_DAY_SECONDS = 86_400
#: Points for each node, whatever the range.
_POINTS = 144

#: A log of each node: its rows, or the reason why it has none.
Log = Mapping[Node, list[Row] | str]


@dataclass(frozen=True, kw_only=True)
class Throughput:
    """The speed of a cluster's loads.

    Args:
        cluster: The cluster; None for a single server.
        loads: The loads, the oldest first.
        is_cut: Whether there were more loads; the oldest are missing.
        parts: The parts over time, of each node that logs them.
        nodes: The nodes that answered.
        down: The reasons why the others did not.
        silent: Node → the reason why each of its logs has nothing, or not enough.
    """

    cluster: str | None
    loads: tuple[SeenLoad, ...]
    is_cut: bool
    parts: Mapping[Node, tuple[PartsAt, ...]]
    nodes: tuple[Node, ...]
    down: Mapping[Node, str]
    silent: Mapping[Node, tuple[str, ...]]


#: The value for a cluster that has not answered yet.
NOTHING = Throughput(cluster=None, loads=(), is_cut=False, parts={}, nodes=(), down={}, silent={})


def look_at_throughput(cluster: str | None, *, days: int) -> Steps[Throughput]:
    """Read the recorded loads of every node, with further data from its logs.

    Logs may be switched off, not granted, or kept for a shorter time: their data is missing then.

    Args:
        cluster: The cluster; None is the single server of the connection.
        days: Days to look back.

    Raises:
        PreflightError: If the cluster is not known.
        Chs3Error: If no host of the connection answers.
    """
    nodes = yield from nodes_of(cluster)
    down: dict[Node, Chs3Error] = {}
    columns = yield from query_reachable("Find the ledgers", dict.fromkeys(nodes, columns_of_ledgers()), down)
    statements = {node: throughput_queries.loads(dict(rows), days=days) for node, rows in columns.items() if rows}
    records = yield from query_reachable("Read the loads in the ledgers", statements, down)
    loads = loads_of(row for rows in records.values() for row in rows)
    is_cut = any(len(rows) == throughput_queries.MAX_LOADS for rows in records.values())
    # A node without a ledger may still have parts and logs.
    answered = [node for node in columns if node not in down]
    seen = replace(NOTHING, cluster=cluster, loads=loads, is_cut=is_cut, nodes=tuple(answered), down=texts_of(down))
    if not loads:
        return seen
    now_of = throughput_queries.now(sorted({load.table for load in loads}))
    now = yield from query_reachable("Count the parts", dict.fromkeys(answered, now_of), down)
    seen = replace(seen, nodes=tuple(now), down=texts_of(down))
    return (yield from _with_logs(seen, {node: rows[0] for node, rows in now.items()}, days)) if now else seen


def ask_log(name: str, statements: Mapping[Node, Sql]) -> Steps[Log]:
    """Read a log of each node, which it may not have.

    Args:
        name: What the step is called.
        statements: The query for each node.
    """
    answers = yield from TryQueryNodes(name=name, sql=statements)
    return {node: _why(answer) if isinstance(answer, Chs3Error) else answer for node, answer in answers.items()}


def _why(error: Chs3Error) -> str:
    if isinstance(error, ClickHouseServerError) and error.code == _UNKNOWN_TABLE:
        return "the server does not keep it, or has written nothing to it yet"
    if isinstance(error, ClickHouseServerError) and error.code == _ACCESS_DENIED:
        return "the connection's user may not read it; docs/privileges.md has the GRANT"
    return str(error)


def _with_logs(seen: Throughput, now: Mapping[Node, Row], days: int) -> Steps[Throughput]:
    tables = sorted({load.table for load in seen.loads})
    first, last = min(load.begun_at for load in seen.loads), seen.loads[-1].published_at
    history = _History(now=max(row[0] for row in now.values()), days=days)
    inserts_of = throughput_queries.inserts([load.attempt for load in seen.loads], begun_at=first, ended_at=last)
    changes_of = throughput_queries.changes(tables, begun_at=history.begun_at, step_seconds=history.step_seconds)
    inserts = yield from ask_log("Read how long inserts waited for the storage", dict.fromkeys(now, inserts_of))
    merges_of = throughput_queries.merges(tables, begun_at=first)
    merges = yield from ask_log("Read the merges", dict.fromkeys(now, merges_of))
    changes = yield from ask_log("Read the history of parts", dict.fromkeys(now, changes_of))
    storage_seconds, merge_seconds = _storage_seconds(inserts), _merge_seconds(merges)
    merging = {partition for row in now.values() for partition in row[2]}
    newest = {load.partition: load.attempt for load in seen.loads}
    for partition in merging & newest.keys():
        merge_seconds.pop(newest[partition], None)
    with_logs = [
        replace(load, storage_seconds=storage_seconds.get(load.attempt), merge_seconds=merge_seconds.get(load.attempt))
        for load in seen.loads
    ]
    return replace(
        seen,
        loads=judged(with_logs),
        parts={node: history.of(now[node], rows) for node, rows in changes.items() if not isinstance(rows, str)},
        silent=_silent({"system.query_log": inserts, "system.part_log": merges}),
    )


def _storage_seconds(inserts: Log) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for rows in inserts.values():
        for attempt, seconds in () if isinstance(rows, str) else rows:
            found[attempt] += seconds
    # A load that did not wait at all is one from a storage without a counter.
    return {attempt: seconds for attempt, seconds in found.items() if seconds}


def _merge_seconds(merges: Log) -> dict[str, float]:
    """Return the longest time on any node, as all merge in parallel."""
    found: dict[str, float] = {}
    for rows in merges.values():
        for *_, events in () if isinstance(rows, str) else rows:
            for attempt, seconds in settle_seconds(events).items():
                found[attempt] = max(seconds, found.get(attempt, 0.0))
    return found


def _silent(logs: Mapping[str, Log]) -> dict[Node, tuple[str, ...]]:
    """Return the reasons why logs have no data.

    A log that was switched on later, or cleared, has no loads. That counts only if it is so on all nodes: the log of a
    node without rows has none, either.
    """
    found: dict[Node, list[str]] = defaultdict(list)
    for name, log in logs.items():
        knows_none = not any(rows for rows in log.values() if not isinstance(rows, str))
        for node, rows in log.items():
            if isinstance(rows, str) or knows_none:
                found[node].append(f"{name}: {rows or 'it knows none of these loads'}")
    return {node: tuple(each) for node, each in found.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class _History:
    """The period that is shown.

    Args:
        now: Its end, as Unix time; the same for all nodes, so that their points have the same times.
        days: Its length in days.
    """

    now: float
    days: int

    @property
    def begun_at(self) -> float:
        """Its beginning, as Unix time."""
        return self.now - self.days * _DAY_SECONDS

    @property
    def step_seconds(self) -> int:
        """Seconds between two points."""
        return self.days * _DAY_SECONDS // _POINTS

    def of(self, now: Row, changes: list[Row]) -> tuple[PartsAt, ...]:
        """Return the parts of a node, from the answers to `throughput_queries.now` and `.changes`."""
        return parts_over_time(
            {(database, table, partition): parts for database, table, partition, parts in now[1]},
            [((database, table, partition), at, difference) for database, table, partition, at, difference in changes],
            begun_at=self.begun_at,
            known_since=self._known_since(changes),
            now=self.now,
            step_seconds=self.step_seconds,
        )

    def _known_since(self, changes: list[Row]) -> float:
        if not changes:
            return self.now
        database, *_, at, _ = changes[-1]
        # Without the row for the log's beginning there were too many changes: those of the oldest step are not all.
        return at + self.step_seconds if database else at
