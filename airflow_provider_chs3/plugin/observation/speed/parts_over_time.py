"""The parts of a node over time, reckoned back from what is there now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_chs3.core.steps.operations import Row


@dataclass(frozen=True, slots=True)
class PartsAt:
    """The parts of a node at one time."""

    at: float
    parts: int
    backlog: int


def parts_over_time(
    parts: Sequence[Row], changes: Sequence[Row], *, begun_at: float, until: float, step_seconds: int
) -> tuple[PartsAt, ...]:
    """Return the parts of a node over time, the oldest first; the last is of now.

    Each point is at the beginning of its step, so that the points of all nodes have the same times. The parts now, of
    each partition, and their changes are as `throughput_queries.now` and `.changes` find them.
    """
    known_since = until
    if changes:
        database, *_, known_since, _ = changes[-1]
        # Without the row for the log's beginning there were too many changes: those of the oldest step are not all.
        known_since += step_seconds if database else 0
    by_step: dict[int, list[tuple[tuple[str, ...], int]]] = {}
    for *names, at, difference in changes:
        by_step.setdefault(int(at) // step_seconds, []).append((tuple(names), difference))
    counts: dict[tuple[str, ...], int] = {tuple(names): count for *names, count in parts}
    total = sum(counts.values())
    backlog = sum(_beyond_one(count) for count in counts.values())
    samples = [PartsAt(until, total, backlog)]
    first = int(known_since) // step_seconds if known_since < until else int(until) // step_seconds + 1
    for step in range(int(until) // step_seconds, first - 1, -1):
        for partition, difference in by_step.get(step, ()):
            before = counts.get(partition, 0)
            # A log that starts later shows parts being removed, but not how they were created.
            counts[partition] = after = max(0, before - difference)
            total += after - before
            backlog += _beyond_one(after) - _beyond_one(before)
        samples.append(PartsAt(max(step * step_seconds, begun_at), total, backlog))
    return tuple(reversed(samples))


def _beyond_one(parts: int) -> int:
    return max(0, parts - 1)
