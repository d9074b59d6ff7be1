"""Have the merges of a month come to an end, and to a good one?

Nothing is remembered from one look to the next: since when the parts of a month are what they are, the server knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from math import ceil

from airflow_provider_chs3.core.merges.merge_rate import MergeRate, merge_rate_of
from airflow_provider_chs3.core.merges.observation import MergeState, Replica
from airflow_provider_chs3.exceptions import ConfigurationError, MergeHealthError

#: A merge is not begun below so many times the size of its parts as free space; `DISK_USAGE_COEFFICIENT_TO_SELECT` in
#: ClickHouse's `Storages/MergeTree/Compaction/CompactionStatistics.h`.
FREE_SPACE_FACTOR = 2

_GIB = 1024**3


class Health(StrEnum):
    """How the merges of a month stand, the worst last."""

    HEALTHY = "healthy"
    SETTLED_WITH_TOO_MANY_PARTS = "settled_with_too_many_parts"
    SETTLING = "settling"
    STUCK = "stuck"


@dataclass(frozen=True, kw_only=True, slots=True)
class Thresholds:
    """What counts as few, many and long.

    Args:
        spare_parts: Parts that a settled month may have beyond those that are too large to be merged. Default: 10.
        settled_after_seconds: Parts that stayed as they are for so long, while nothing merged, have settled: between
            two merges the server sleeps for 5 to 60 seconds. Default: 120.
        stuck_after_seconds: Many parts, or a mutation, at which nothing was done for so long are stuck. Default: 600.
        stuck_fraction: Many parts: more than this part of `parts_to_delay_insert`, or the table's of
            `max_parts_in_total`. Default: 0.5.
        max_replica_delay_seconds: A replica further behind lags. Default: 300, as
            `max_replica_delay_for_distributed_queries`.

    Raises:
        ConfigurationError: If a value is negative, or `stuck_fraction` is above 1.
    """

    spare_parts: int = 10
    settled_after_seconds: float = 120
    stuck_after_seconds: float = 600
    stuck_fraction: float = 0.5
    max_replica_delay_seconds: float = 300

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) < 0:
                raise ConfigurationError(f"{name}={getattr(self, name)} must not be negative.")
        if self.stuck_fraction > 1:
            raise ConfigurationError(f"stuck_fraction={self.stuck_fraction} must lie between 0 and 1.")


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """How the merges of one month stand on one node.

    Args:
        state: What was seen.
        health: What it means.
        reason: Why, in words, and with the way out where a person must act; empty where it is healthy.
        merge_rate: How fast a settling month goes, and how long it may still take; None for all others.
    """

    state: MergeState
    health: Health
    reason: str
    merge_rate: MergeRate | None = None

    def __str__(self) -> str:
        state = self.state
        parts = f"{state.parts} part{'s' if state.parts != 1 else ''}"
        why = ", ".join(filter(None, (self.reason, str(self.merge_rate or ""))))
        return f"{state.month} on {state.node} {self.health}, {parts}{': ' if why else ''}{why}"


def judge(state: MergeState, thresholds: Thresholds, before: MergeState | None = None) -> Verdict:
    """Decide how the merges of one month stand on one node.

    Args:
        state: What was seen there.
        thresholds: What counts as few, many and long.
        before: What was seen there earlier. The verdict does not depend on it: it makes the estimate of the time left
            better. Default: None, no earlier look.
    """
    most_parts = _large_parts(state) + thresholds.spare_parts

    def verdict(health: Health, reason: str) -> Verdict:
        merge_rate = merge_rate_of(state, most_parts=most_parts, before=before) if health is Health.SETTLING else None
        return Verdict(state=state, health=health, reason=reason, merge_rate=merge_rate)

    if hindrance := next(_hindrances(state, thresholds), None):
        return verdict(Health.STUCK, hindrance)
    if at_work := _at_work(state, thresholds):
        return verdict(Health.SETTLING, at_work)
    if state.parts <= most_parts and not state.mutations:
        return verdict(Health.HEALTHY, "")
    if state.pool_is_busy:
        return verdict(Health.SETTLING, "all threads for merges are busy elsewhere")
    idle_seconds = min([state.unchanged_seconds, *(mutation.age_seconds for mutation in state.mutations)])
    must_go_on = bool(state.mutations) or _are_many(state, thresholds)
    if idle_seconds < (thresholds.stuck_after_seconds if must_go_on else thresholds.settled_after_seconds):
        return verdict(Health.SETTLING, f"nothing merges since {idle_seconds} s, which may be a pause")
    if must_go_on:
        return verdict(Health.STUCK, _standstill(state, idle_seconds))
    return verdict(
        Health.SETTLED_WITH_TOO_MANY_PARTS,
        f"unchanged since {idle_seconds} s with more than {most_parts}, and the server sees nothing to merge: "
        "OPTIMIZE TABLE … PARTITION … FINAL merges them",
    )


def _hindrances(state: MergeState, thresholds: Thresholds) -> Iterator[str]:
    """What a person must clear away before merges can go on."""
    replica = state.replica
    if replica and replica.is_readonly:
        yield "the replica is read-only: look at Keeper and at system.replicas on this node"
    if state.broken_parts:
        yield (
            f"rows are missing, as parts were broken ({', '.join(state.broken_parts)} in system.detached_parts): load "
            "the month again, then ALTER TABLE … DROP DETACHED PART"
        )
    for mutation in state.mutations:
        if mutation.fail_reason:
            yield (
                f"mutation {mutation.command} failed: {_first_line(mutation.fail_reason)}; mend its cause, or "
                "KILL MUTATION"
            )
    if state.merges:
        return
    is_idle = state.unchanged_seconds >= thresholds.stuck_after_seconds
    if replica and is_idle and replica.delay_seconds > thresholds.max_replica_delay_seconds:
        yield (
            f"the replica lags {replica.delay_seconds} s behind{_why_it_waits(replica)}; look at "
            "system.replication_queue on this node"
        )
    needed_bytes = FREE_SPACE_FACTOR * state.two_smallest_bytes
    has_work = bool(state.mutations) or state.parts > _large_parts(state) + thresholds.spare_parts
    if has_work and state.free_bytes < needed_bytes and state.unchanged_seconds >= thresholds.settled_after_seconds:
        yield (
            f"disk full: {state.free_bytes / _GIB:.3g} GiB free, and even the smallest merge needs "
            f"{needed_bytes / _GIB:.3g} GiB; make room"
        )


def _at_work(state: MergeState, thresholds: Thresholds) -> str:
    """What is being done; empty where nothing is."""
    replica = state.replica
    if state.merges:
        return f"merging, {', '.join(f'{merge.progress:.0%}' for merge in state.merges)} done"
    if replica and replica.queue:
        return (
            f"{replica.queue} part{'s' if replica.queue != 1 else ''} in the replication queue{_why_it_waits(replica)}"
        )
    if replica and replica.delay_seconds > thresholds.max_replica_delay_seconds:
        return f"the replica lags {replica.delay_seconds} s behind"
    return ""


def _why_it_waits(replica: Replica) -> str:
    reason = replica.last_exception or replica.postpone_reason
    return f": {_first_line(reason)}" if reason else ""


def _large_parts(state: MergeState) -> int:
    """Parts that a month of this size must have, because merges make no larger ones."""
    largest_bytes = state.limits.max_bytes_to_merge_at_max_space_in_pool
    # With 0 the table's settings forbid merges, which must not pass for a month of large parts.
    return ceil(state.size_bytes / largest_bytes) if largest_bytes else 1


def _are_many(state: MergeState, thresholds: Thresholds) -> bool:
    limits = state.limits
    return (
        state.parts > thresholds.stuck_fraction * limits.parts_to_delay_insert
        or state.table_parts > thresholds.stuck_fraction * limits.max_parts_in_total
    )


def _standstill(state: MergeState, idle_seconds: int) -> str:
    limits = state.limits
    what = f"mutation {state.mutations[0].command} waits" if state.mutations else "so many parts should merge"
    return (
        f"{what}, but nothing merges since {idle_seconds} s: merges are stopped (SYSTEM START MERGES), or the "
        f"table's settings forbid them; inserts are slowed at {limits.parts_to_delay_insert} parts, refused at "
        f"{limits.parts_to_throw_insert} in one month or {limits.max_parts_in_total} in the table"
    )


def _first_line(text: str) -> str:
    return text.splitlines()[0][:300]


@dataclass(frozen=True, kw_only=True, slots=True)
class Reactions:
    """What a user wants to be done about each verdict.

    Args:
        on_settled_with_too_many_parts: `continue` or `fail`.
        on_stuck: `fail`, `wait` or `continue`.

    Raises:
        ConfigurationError: If a value is none of these.
    """

    on_settled_with_too_many_parts: str = "continue"
    on_stuck: str = "fail"

    def __post_init__(self) -> None:
        _check_choice("on_settled_with_too_many_parts", self.on_settled_with_too_many_parts, ("continue", "fail"))
        _check_choice("on_stuck", self.on_stuck, ("fail", "wait", "continue"))


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigurationError(f"{name}={value!r} is not known: use one of {', '.join(choices)}.")


def is_over(verdicts: Iterable[Verdict], reactions: Reactions) -> bool:
    """Whether nothing is left to wait for.

    Args:
        verdicts: Of every month on every node.
        reactions: What the user wants to be done about them.

    Raises:
        MergeHealthError: If a person must act, and the user wants to know it this way.
    """
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
    """The worst of the verdicts; healthy where there is nothing to judge."""
    return max((verdict.health for verdict in verdicts), key=list(Health).index, default=Health.HEALTHY)


def as_json(verdicts: Iterable[Verdict]) -> dict[str, object]:
    """The overall verdict, and that of each month on each node, as JSON-safe values."""
    verdicts = tuple(verdicts)
    months: dict[str, dict[str, object]] = {}
    for each in verdicts:
        months.setdefault(str(each.state.month), {})[str(each.state.node)] = {
            "health": str(each.health),
            "parts": each.state.parts,
            "size_bytes": each.state.size_bytes,
            "reason": each.reason,
            **({"pace": each.merge_rate.as_json()} if each.merge_rate else {}),
        }
    return {"health": str(overall(verdicts)), "months": months}
