"""How long merges went on after each publication."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider_chs3.core.values.merge_arguments import Thresholds
from airflow_provider_chs3.plugin.observation.speed.logs import Log


def merge_seconds_of(merges: Log) -> dict[str, float]:
    """Return the seconds from each publication to the end of its merges: of the slowest node, as all merge in parallel.

    Args:
        merges: The answers of all nodes to `throughput_queries.merges`.

    Returns:
        Attempt → seconds.
    """
    found: dict[str, float] = {}
    for rows in merges.values():
        for *_, events in () if isinstance(rows, str) else rows:
            for attempt, seconds in settle_seconds(events).items():
                found[attempt] = max(seconds, found.get(attempt, 0.0))
    return found


def settle_seconds(events: Iterable[tuple[float, float, str]]) -> dict[str, float]:
    """Return the seconds from each publication to the end of the last merge that followed from it.

    A merge follows if it began before merges would have counted as settled (`Thresholds.settled_after_seconds`) since
    the publication, or since the merge before it; later ones, such as an OPTIMIZE of a closed period, do not belong to
    the load.

    Args:
        events: The events of one partition on one node: begin and end, as Unix time, and the attempt that published;
            empty for a merge.

    Returns:
        Attempt → seconds; 0 if nothing was merged.
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
