"""How many parts a node had, and how far its merges were behind: reckoned back from what is there now."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PartsAt:
    """The parts of a node at one time.

    Args:
        at: When, as Unix time by the node's clock.
        parts: Active parts of all tables.
        backlog: Those of them beyond one for each partition: what merges could still take together.
    """

    at: float
    parts: int
    backlog: int


def parts_over_time(
    parts: Mapping[Hashable, int],
    changes: Iterable[tuple[Hashable, float, int]],
    *,
    begun_at: float,
    now: float,
    step_seconds: int,
) -> tuple[PartsAt, ...]:
    """The parts of a node, step by step.

    Args:
        parts: Active parts of each partition now.
        changes: Partition, time (rounded down to a step) and difference.
        begun_at: Since then, as Unix time.
        now: The time of `parts`.
        step_seconds: Time between two of the results.

    Returns:
        The oldest first; the last is of now.
    """
    by_step: dict[int, list[tuple[Hashable, int]]] = {}
    for partition, at, difference in changes:
        by_step.setdefault(int(at) // step_seconds, []).append((partition, difference))
    counts = dict(parts)
    total = sum(counts.values())
    backlog = sum(_beyond_one(count) for count in counts.values())
    found = [PartsAt(now, total, backlog)]
    for step in range(int(now) // step_seconds, int(begun_at) // step_seconds, -1):
        for partition, difference in by_step.get(step, ()):
            before = counts.get(partition, 0)
            # A log that began in mid-time tells of parts that go, and not of how they came.
            counts[partition] = after = max(0, before - difference)
            total += after - before
            backlog += _beyond_one(after) - _beyond_one(before)
        found.append(PartsAt(step * step_seconds, total, backlog))
    return tuple(reversed(found))


def _beyond_one(parts: int) -> int:
    return max(0, parts - 1)
