"""Wait for the merges of months: each look is judged beside the one before it, which tells how fast they go."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider_chs3.core.merges.health import Reactions, Thresholds, Verdict, is_over, judge
from airflow_provider_chs3.core.merges.observation import MergeState
from airflow_provider_chs3.core.merges.poll_interval import next_interval_seconds


class MergeWatch:
    """A wait for merges, from look to look.

    Args:
        thresholds: What counts as few, many and long.
        reactions: What to do where merges are stuck, or leave too many parts.
        poll_interval_seconds: Time between two looks while things change; it grows while they don't.

    Attributes:
        verdicts: Those of the last look, on each month and node; none before the first.
        interval_seconds: How long to wait until the next look.
    """

    def __init__(self, thresholds: Thresholds, reactions: Reactions, *, poll_interval_seconds: float) -> None:
        self.verdicts: tuple[Verdict, ...] = ()
        self.interval_seconds = poll_interval_seconds
        self._thresholds = thresholds
        self._reactions = reactions
        self._poll_interval_seconds = poll_interval_seconds

    def judge(self, states: Iterable[MergeState]) -> str:
        """Judge a look.

        Args:
            states: What it found of each month on each node.

        Returns:
            The verdicts, as a line for the log.
        """
        before, earlier = self.verdicts, {(each.state.node, each.state.month): each.state for each in self.verdicts}
        self.verdicts = tuple(
            judge(state, self._thresholds, earlier.get((state.node, state.month))) for state in states
        )
        self.interval_seconds = next_interval_seconds(
            self.verdicts,
            before,
            former_seconds=self.interval_seconds,
            shortest_seconds=self._poll_interval_seconds,
        )
        return " | ".join(map(str, self.verdicts))

    def is_over(self) -> bool:
        """Whether nothing is left to wait for.

        Raises:
            MergeHealthError: If a person must act.
        """
        return is_over(self.verdicts, self._reactions)
