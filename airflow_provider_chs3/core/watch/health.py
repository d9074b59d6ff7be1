"""Judge whether the merges of a period have finished, and finished well.

No state is kept between observations: the server itself reports how long a period's parts have been unchanged.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from math import ceil
from typing import Any

from airflow_provider_chs3.core.arguments.merge_arguments import Reactions, Thresholds
from airflow_provider_chs3.core.model.quantities import size_text
from airflow_provider_chs3.core.watch.merge_observation import MergeState, Replica
from airflow_provider_chs3.core.watch.merge_rate import MergeRate, merge_rate_of
from airflow_provider_chs3.exceptions import MergeHealthError

#: A merge starts only if this many times the size of its parts is free: `DISK_USAGE_COEFFICIENT_TO_SELECT` in
#: ClickHouse's `Storages/MergeTree/Compaction/CompactionStatistics.h`.
FREE_SPACE_FACTOR = 2


class Health(StrEnum):
    """State of a period's merges, from best to worst."""

    HEALTHY = "healthy"
    SETTLED_WITH_TOO_MANY_PARTS = "settled_with_too_many_parts"
    SETTLING = "settling"
    STUCK = "stuck"


_FROM_BEST = tuple(Health)


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """Health of one period's merges on one node."""

    state: MergeState
    health: Health
    reason: str
    merge_rate: MergeRate | None = None

    def __str__(self) -> str:
        state = self.state
        parts = f"{state.parts} part{'s' if state.parts != 1 else ''}"
        reasons = ", ".join(filter(None, (self.reason, str(self.merge_rate or ""))))
        return f"{state.period} on {state.node} {self.health}, {parts}{': ' if reasons else ''}{reasons}"


def judge(state: MergeState, thresholds: Thresholds, before: MergeState | None = None) -> Verdict:
    """Judge the health of one period's merges on one node."""
    most_parts = _large_parts(state) + thresholds.spare_parts

    def verdict(health: Health, reason: str) -> Verdict:
        merge_rate = merge_rate_of(state, most_parts=most_parts, before=before) if health is Health.SETTLING else None
        return Verdict(state=state, health=health, reason=reason, merge_rate=merge_rate)

    if hindrance := next(_hindrances(state, thresholds), None):
        return verdict(Health.STUCK, hindrance)
    if progress := _describe_progress(state, thresholds):
        return verdict(Health.SETTLING, progress)
    if state.parts <= most_parts and not state.mutations:
        return verdict(Health.HEALTHY, "")
    if state.pool_is_busy:
        return verdict(Health.SETTLING, "all merge threads are busy elsewhere")
    idle_seconds = min([state.unchanged_seconds, *(mutation.age_seconds for mutation in state.mutations)])
    must_go_on = bool(state.mutations) or _has_many_parts(state, thresholds)
    if idle_seconds < (thresholds.stuck_after_seconds if must_go_on else thresholds.settled_after_seconds):
        return verdict(Health.SETTLING, f"nothing has merged for {idle_seconds} s, which may be a pause")
    if must_go_on:
        return verdict(Health.STUCK, _standstill(state, idle_seconds))
    return verdict(
        Health.SETTLED_WITH_TOO_MANY_PARTS,
        f"unchanged for {idle_seconds} s with more than {most_parts}, and the server finds nothing to merge: "
        "OPTIMIZE TABLE … PARTITION … FINAL merges them",
    )


def _hindrances(state: MergeState, thresholds: Thresholds) -> Iterator[str]:
    """Yield the problems that a person must fix before merges can continue."""
    replica = state.replica
    if replica and replica.is_readonly:
        yield "the replica is read-only: check Keeper, and system.replicas on this node"
    if state.broken_parts:
        yield (
            f"rows are missing because parts were broken ({', '.join(state.broken_parts)} in system.detached_parts): "
            "load the period again, then ALTER TABLE … DROP DETACHED PART"
        )
    for mutation in state.mutations:
        if mutation.fail_reason:
            yield (
                f"mutation {mutation.command} failed: {_first_line(mutation.fail_reason)}; fix its cause, or "
                "KILL MUTATION"
            )
    if state.merges:
        return
    is_idle = state.unchanged_seconds >= thresholds.stuck_after_seconds
    if replica and is_idle and replica.delay_seconds > thresholds.max_replica_delay_seconds:
        yield (
            f"the replica lags {replica.delay_seconds} s behind{_wait_reason(replica)}; check "
            "system.replication_queue on this node"
        )
    needed_bytes = FREE_SPACE_FACTOR * state.two_smallest_bytes
    has_work = bool(state.mutations) or state.parts > _large_parts(state) + thresholds.spare_parts
    if has_work and state.free_bytes < needed_bytes and state.unchanged_seconds >= thresholds.settled_after_seconds:
        yield (
            f"disk full: {size_text(state.free_bytes)} free, and even the smallest merge needs "
            f"{size_text(needed_bytes)}; free up disk space"
        )


def _describe_progress(state: MergeState, thresholds: Thresholds) -> str:
    replica = state.replica
    if state.merges:
        return f"merging, {', '.join(f'{merge.progress:.0%}' for merge in state.merges)} done"
    if replica and replica.queue:
        return (
            f"{replica.queue} part{'s' if replica.queue != 1 else ''} in the replication queue{_wait_reason(replica)}"
        )
    if replica and replica.delay_seconds > thresholds.max_replica_delay_seconds:
        return f"the replica lags {replica.delay_seconds} s behind"
    return ""


def _wait_reason(replica: Replica) -> str:
    reason = replica.last_exception or replica.postpone_reason
    return f": {_first_line(reason)}" if reason else ""


def _large_parts(state: MergeState) -> int:
    """Return how many parts a period of this size needs at least, given the largest part that a merge makes."""
    largest_bytes = state.limits.max_bytes_to_merge_at_max_space_in_pool
    # With 0 the table's settings forbid merges: the period must not look as if its parts were too large to merge.
    return ceil(state.size_bytes / largest_bytes) if largest_bytes else 1


def _has_many_parts(state: MergeState, thresholds: Thresholds) -> bool:
    limits = state.limits
    return (
        state.parts > thresholds.stuck_fraction * limits.parts_to_delay_insert
        or state.table_parts > thresholds.stuck_fraction * limits.max_parts_in_total
    )


def _standstill(state: MergeState, idle_seconds: int) -> str:
    limits = state.limits
    problem = f"mutation {state.mutations[0].command} waits" if state.mutations else "this many parts should merge"
    return (
        f"{problem}, but nothing has merged for {idle_seconds} s: merges are stopped (SYSTEM START MERGES), or the "
        f"table's settings forbid them; inserts are delayed at {limits.parts_to_delay_insert} parts, rejected at "
        f"{limits.parts_to_throw_insert} in one period or {limits.max_parts_in_total} in the table"
    )


def _first_line(text: str) -> str:
    return textwrap.shorten(text.splitlines()[0], 300, placeholder=" …")


def is_over(verdicts: Iterable[Verdict], reactions: Reactions) -> bool:
    """Check whether the wait is over; a reaction `fail` is raised as an error."""
    reaction = {
        Health.HEALTHY: "continue",
        Health.SETTLING: "wait",
        Health.SETTLED_WITH_TOO_MANY_PARTS: reactions.on_settled_with_too_many_parts,
        Health.STUCK: reactions.on_stuck,
    }
    verdicts = tuple(verdicts)
    if failed := [str(verdict) for verdict in verdicts if reaction[verdict.health] == "fail"]:
        raise MergeHealthError("\n".join(failed))
    return all(reaction[verdict.health] == "continue" for verdict in verdicts)


def overall(verdicts: Iterable[Verdict]) -> Health:
    """Return the worst of the verdicts; healthy if there are none."""
    return max((verdict.health for verdict in verdicts), key=_FROM_BEST.index, default=Health.HEALTHY)


def as_json(verdicts: Iterable[Verdict]) -> dict[str, object]:
    """Convert verdicts to JSON-safe values: a period of several partitions has the worst, with the parts of all."""
    verdicts = tuple(verdicts)
    periods: dict[str, dict[str, dict[str, Any]]] = {}
    for verdict in verdicts:
        periods.setdefault(str(verdict.state.period), {})[str(verdict.state.node)] = {"parts": 0, "size_bytes": 0}
    for verdict in sorted(verdicts, key=lambda verdict: _FROM_BEST.index(verdict.health)):
        nodes, node = periods[str(verdict.state.period)], str(verdict.state.node)
        others = nodes[node]
        nodes[node] = {
            "health": str(verdict.health),
            "parts": others["parts"] + verdict.state.parts,
            "size_bytes": others["size_bytes"] + verdict.state.size_bytes,
            "reason": verdict.reason,
            **({"pace": verdict.merge_rate.as_json()} if verdict.merge_rate else {}),
        }
    return {"health": str(overall(verdicts)), "periods": periods}
