"""How fast a month's parts are merged, and how long that may still take: estimates, from one look or two."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_chs3.core.merges.observation import MergeState

_MIB = 1024**2
_MINUTE_SECONDS, _HOUR_SECONDS = 60, 3600


@dataclass(frozen=True, kw_only=True, slots=True)
class MergeRate:
    """How fast merges go.

    Args:
        bytes_per_second: What the merges that run have read of their parts, over the time since each began; None where
            nothing merges.
        parts_per_second: By how many parts the month, and its replication queue, got smaller between two looks; None
            where there was no earlier look, or where it got no smaller.
        seconds_left: Until what runs has ended, and, where `parts_per_second` is known, until the month has no more
            parts than it should have at that speed; None where nothing tells.
        more_follows: Whether merges must follow those that run, and nothing tells how long they take: `seconds_left`
            is the least then.
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
        left = "" if self.seconds_left is None else f"{_rough(self.seconds_left)} left"
        return ", ".join(filter(None, (*speeds, f"at least {left}" if left and self.more_follows else left)))

    def as_json(self) -> dict[str, float | bool | None]:
        """The same as JSON-safe values, whole numbers of bytes and seconds."""
        return {
            "bytes_per_second": _whole(self.bytes_per_second),
            "parts_per_second": None if self.parts_per_second is None else round(self.parts_per_second, 3),
            "seconds_left": _whole(self.seconds_left),
            "more_follows": self.more_follows,
        }


def merge_rate_of(state: MergeState, *, most_parts: int, before: MergeState | None = None) -> MergeRate:
    """How fast the merges of a month go on a node.

    Args:
        state: What was seen there.
        most_parts: With how many parts the month has settled.
        before: What was seen there earlier; None knows of no earlier look.

    Returns:
        The pace; an empty one where nothing moves.
    """
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
    fewer = _to_do(before) - _to_do(state)
    return fewer / seconds if seconds > 0 and fewer > 0 else None


def _to_do(state: MergeState) -> int:
    return state.parts + (state.replica.queue if state.replica else 0)


def _rough(seconds: float) -> str:
    if seconds < 2 * _MINUTE_SECONDS:
        return f"about {seconds:.0f} s"
    if seconds < 2 * _HOUR_SECONDS:
        return f"about {seconds / _MINUTE_SECONDS:.0f} min"
    return f"about {seconds / _HOUR_SECONDS:.1f} h"


def _whole(number: float | None) -> int | None:
    return None if number is None else round(number)
