"""How long to wait until the next look at merges: longer and longer while nothing changes."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider_chs3.core.merges.health import Verdict

#: Each look that finds nothing new makes the interval so many times as long: what changes is noticed at most half as
#: late again as it had stood still.
GROWTH = 1.5

#: No interval grows beyond this.
LONGEST_INTERVAL_SECONDS = 300.0


def next_interval_seconds(
    verdicts: Iterable[Verdict], before: Iterable[Verdict], *, former_seconds: float, shortest_seconds: float
) -> float:
    """How long to wait until the next look.

    Args:
        verdicts: Of this look.
        before: Of the look before it; none for the first.
        former_seconds: The interval between the two.
        shortest_seconds: The interval while things change: what the user gave.

    Returns:
        `shortest_seconds` if anything changed, else `former_seconds` × 1.5; at least `shortest_seconds`, and at most
        300, or `shortest_seconds` where that is more. How far a merge is counts as no change, or hours of one merge
        would be looked at all the time.
    """
    if _what_counts(verdicts) != _what_counts(before):
        return shortest_seconds
    return grown_seconds(former_seconds, shortest_seconds)


def grown_seconds(former_seconds: float, shortest_seconds: float) -> float:
    """The interval after one in which nothing changed.

    Args:
        former_seconds: That interval.
        shortest_seconds: The interval while things change: what the user gave.
    """
    return max(shortest_seconds, min(GROWTH * former_seconds, LONGEST_INTERVAL_SECONDS))


def _what_counts(verdicts: Iterable[Verdict]) -> list[tuple[object, ...]]:
    return [
        (state.month, state.node, verdict.health, state.parts, len(state.merges), len(state.mutations))
        for verdict in verdicts
        for state in (verdict.state,)
    ]
