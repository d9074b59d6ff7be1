"""Estimate how fast a period's parts merge, and the time left, from one observation or two."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_chs3.core.model.quantities import duration_text
from airflow_provider_chs3.core.watch.merge_observation import MergeState

_MIB = 1024**2


@dataclass(frozen=True, kw_only=True, slots=True)
class MergeRate:
    """Speed of a period's merges, as far as one observation, or two, show it.

    If more merges must follow, of unknown duration, `seconds_left` is a lower bound.
    """

    bytes_per_second: float | None = None
    parts_per_second: float | None = None
    seconds_left: float | None = None
    more_follows: bool = False

    def __str__(self) -> str:
        speeds = [
            f"{self.bytes_per_second / _MIB:,.1f} MiB/s" if self.bytes_per_second else "",
            f"{self.parts_per_second:.2g} parts/s fewer" if self.parts_per_second else "",
        ]
        left = "" if self.seconds_left is None else f"about {duration_text(self.seconds_left)} left"
        return ", ".join(filter(None, (*speeds, f"at least {left}" if left and self.more_follows else left)))

    def as_json(self) -> dict[str, float | bool | None]:
        """Convert to JSON-safe values, with bytes and seconds as whole numbers."""
        return {
            "bytes_per_second": _whole(self.bytes_per_second),
            "parts_per_second": None if self.parts_per_second is None else round(self.parts_per_second, 3),
            "seconds_left": _whole(self.seconds_left),
            "more_follows": self.more_follows,
        }


def merge_rate_of(state: MergeState, *, most_parts: int, before: MergeState | None = None) -> MergeRate:
    """Estimate the merge rate of a period on a node; it is empty if nothing progresses."""
    running = [merge for merge in state.merges if merge.seconds > 0 and merge.progress > 0]
    bytes_per_second = sum(merge.size_bytes * merge.progress / merge.seconds for merge in running)
    of_merges = [merge.seconds * (1 - merge.progress) / merge.progress for merge in running]
    parts_per_second = _fewer_per_second(state, before) if before else None
    queued = state.replica.queue if state.replica else 0
    after_merges = state.parts - sum(merge.parts - 1 for merge in state.merges if merge.parts > 1)
    of_parts = [(max(0, state.parts - most_parts) + queued) / parts_per_second] if parts_per_second else []
    return MergeRate(
        bytes_per_second=bytes_per_second or None,
        parts_per_second=parts_per_second,
        seconds_left=max(of_merges + of_parts, default=None),
        more_follows=not of_parts and (after_merges > most_parts or queued > len(running)),
    )


def _fewer_per_second(state: MergeState, before: MergeState) -> float | None:
    seconds = state.at_seconds - before.at_seconds
    fewer = _remaining_parts(before) - _remaining_parts(state)
    return fewer / seconds if seconds > 0 and fewer > 0 else None


def _remaining_parts(state: MergeState) -> int:
    return state.parts + (state.replica.queue if state.replica else 0)


def _whole(number: float | None) -> int | None:
    return None if number is None else round(number)
