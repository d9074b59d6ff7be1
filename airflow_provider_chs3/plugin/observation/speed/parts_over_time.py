"""The parts of a node over time, reckoned back from what is there now."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

from airflow_provider_chs3.core.steps.operations import Row

_DAY_SECONDS = 86_400
#: Points for each node, whatever the range.
_POINTS = 144


@dataclass(frozen=True, slots=True)
class PartsAt:
    """The parts of a node at one time."""

    at: float
    parts: int
    backlog: int


def parts_over_time(
    parts: Mapping[Hashable, int],
    changes: Iterable[tuple[Hashable, float, int]],
    *,
    begun_at: float,
    known_since: float,
    until: float,
    step_seconds: int,
) -> tuple[PartsAt, ...]:
    """Return the parts of a node over time, the oldest first; the last is of now.

    Each point is at the beginning of its step, so that the points of all nodes have the same times.
    """
    by_step: dict[int, list[tuple[Hashable, int]]] = {}
    for partition, at, difference in changes:
        by_step.setdefault(int(at) // step_seconds, []).append((partition, difference))
    counts = dict(parts)
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


@dataclass(frozen=True, kw_only=True, slots=True)
class PartsHistory:
    """The period that is shown."""

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

    def of(self, state: Row, changes: list[Row]) -> tuple[PartsAt, ...]:
        """Return the parts of a node, from the answers to `throughput_queries.now` and `.changes`."""
        return parts_over_time(
            {(database, table, partition): parts for database, table, partition, parts in state[1]},
            [((database, table, partition), at, difference) for database, table, partition, at, difference in changes],
            begun_at=self.begun_at,
            known_since=self._known_since(changes),
            until=self.now,
            step_seconds=self.step_seconds,
        )

    def _known_since(self, changes: list[Row]) -> float:
        if not changes:
            return self.now
        database, *_, at, _ = changes[-1]
        # Without the row for the log's beginning there were too many changes: those of the oldest step are not all.
        return at + self.step_seconds if database else at
