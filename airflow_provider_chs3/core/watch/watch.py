"""Watch the merges of periods: each observation is compared with the previous one, to estimate the merge rate."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider_chs3.core.arguments.merge_arguments import Reactions, Thresholds
from airflow_provider_chs3.core.watch.health import Verdict, is_over, judge
from airflow_provider_chs3.core.watch.observation import MergeState
from airflow_provider_chs3.core.watch.poll_interval import next_interval_seconds


class MergeWatch:
    """A wait for merges over several observations.

    Attributes:
        verdicts: Verdicts of the last observation, on each period and node; empty before the first.
        interval_seconds: Time to wait until the next observation.
    """

    def __init__(self, thresholds: Thresholds, reactions: Reactions, *, poll_interval_seconds: float) -> None:
        self.verdicts: tuple[Verdict, ...] = ()
        self.interval_seconds = poll_interval_seconds
        self._thresholds = thresholds
        self._reactions = reactions
        self._poll_interval_seconds = poll_interval_seconds

    def judge(self, states: Iterable[MergeState]) -> str:
        """Judge an observation.

        Returns:
            The verdicts as a log line.
        """
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
        """Check whether the wait is over.

        Raises:
            MergeHealthError: If a person must act.
        """
        return is_over(self.verdicts, self._reactions)
