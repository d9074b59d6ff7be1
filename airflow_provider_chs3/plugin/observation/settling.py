"""How long merges went on after each publication of a partition, from what a node's log tells."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider_chs3.core.merges.health import Thresholds


def settle_seconds(events: Iterable[tuple[float, float, str]]) -> dict[str, float]:
    """Seconds from the publication of each attempt to the end of the last merge that followed from it.

    A merge follows if it began before merges would have counted as settled (`Thresholds.settled_after_seconds`) since
    the publication, or since the merge before it; what comes later, such as an OPTIMIZE of a closed month, was not the
    load's.

    Args:
        events: Of one partition on one node: begin and end, as Unix time, and the attempt that published; empty for a
            merge.

    Returns:
        Attempt → seconds; 0 where nothing was merged.
    """
    quiet_seconds = Thresholds().settled_after_seconds
    found: dict[str, float] = {}
    attempt, published_at, busy_until = "", 0.0, 0.0
    for begun_at, ended_at, published_by in sorted(events, key=lambda event: event[0]):
        if published_by and published_by not in found:
            attempt, published_at, busy_until = published_by, ended_at, ended_at
            found[attempt] = 0.0
        elif attempt and not published_by and begun_at - busy_until <= quiet_seconds:
            busy_until = max(busy_until, ended_at)
            found[attempt] = busy_until - published_at
    return found
