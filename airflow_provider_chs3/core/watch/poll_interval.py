"""The interval between two observations of merges, which grows while nothing changes."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider_chs3.core.watch.health import Verdict

#: Factor by which each observation without a change extends the interval: a change is noticed after at most half of
#: the time that nothing had changed before it.
GROWTH = 1.5

#: Upper limit of a growing interval.
LONGEST_INTERVAL_SECONDS = 300.0


def next_interval_seconds(
    verdicts: Iterable[Verdict], before: Iterable[Verdict], *, former_seconds: float, shortest_seconds: float
) -> float:
    """Return the time to wait until the next observation.

    Returns:
        `shortest_seconds` if anything changed, else `former_seconds` × 1.5; at least `shortest_seconds`, and at most
        300, or `shortest_seconds` if that is more. The progress of a merge does not count as a change, or a merge of
        hours would be polled all the time.
    """
    if _comparable(verdicts) != _comparable(before):
        return shortest_seconds
    return grown_seconds(former_seconds, shortest_seconds)


def grown_seconds(former_seconds: float, shortest_seconds: float) -> float:
    """Return the interval that follows one without changes."""
    return max(shortest_seconds, min(GROWTH * former_seconds, LONGEST_INTERVAL_SECONDS))


def _comparable(verdicts: Iterable[Verdict]) -> list[tuple[object, ...]]:
    return [
        (state.period, state.node, verdict.health, state.parts, len(state.merges), len(state.mutations))
        for verdict in verdicts
        for state in (verdict.state,)
    ]
