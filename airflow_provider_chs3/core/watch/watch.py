"""Watch the merges of periods from one observation to the next: how fast they go, and when to look again."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider_chs3.core.arguments.merge_arguments import Reactions, Thresholds
from airflow_provider_chs3.core.watch.health import Verdict, is_over, judge
from airflow_provider_chs3.core.watch.merge_observation import MergeState

#: Factor by which each observation without a change extends the interval: a change is noticed after at most half of
#: the time that nothing had changed before it.
GROWTH = 1.5

#: Upper limit of a growing interval.
LONGEST_INTERVAL_SECONDS = 300.0


class MergeWatch:
    """A wait for merges: the verdicts of the last observation, and the time to wait until the next."""

    def __init__(self, thresholds: Thresholds, reactions: Reactions, *, poll_interval_seconds: float) -> None:
        self.verdicts: tuple[Verdict, ...] = ()
        self.interval_seconds = poll_interval_seconds
        self._thresholds = thresholds
        self._reactions = reactions
        self._poll_interval_seconds = poll_interval_seconds

    def judge(self, states: Iterable[MergeState]) -> str:
        """Judge an observation, and return the verdicts as a log line."""
        before = self.verdicts
        earlier = {
            (verdict.state.node, verdict.state.period, verdict.state.partition_id): verdict.state for verdict in before
        }
        self.verdicts = tuple(
            judge(state, self._thresholds, earlier.get((state.node, state.period, state.partition_id)))
            for state in states
        )
        self.interval_seconds = next_interval_seconds(
            self.verdicts,
            before,
            former_seconds=self.interval_seconds,
            shortest_seconds=self._poll_interval_seconds,
        )
        return " | ".join(map(str, self.verdicts))

    def is_over(self) -> bool:
        """Check whether the wait is over."""
        return is_over(self.verdicts, self._reactions)


def next_interval_seconds(
    verdicts: Iterable[Verdict], before: Iterable[Verdict], *, former_seconds: float, shortest_seconds: float
) -> float:
    """Return the time to wait until the next observation: the shortest if anything changed, else a longer one.

    The progress of a merge does not count as a change, or a merge of hours would be polled all the time.
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
