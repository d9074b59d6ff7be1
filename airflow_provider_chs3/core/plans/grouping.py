"""Which periods are loaded by one task."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_chs3.core.plans.plan import PlannedPeriod
from airflow_provider_chs3.core.values.period import Period

#: Objects of one task: with more, what a task of its own costs a period is lost in what its rows take, and a failure of
#: the insert costs more than it saves.
_MOST_BYTES = 1024**3


def group_periods(planned: Sequence[PlannedPeriod], *, most_periods: int, most_groups: int) -> list[list[Period]]:
    """Group periods to load, in their order, so that each group is small.

    Args:
        planned: The periods of a plan.
        most_periods: The most periods of a group.
        most_groups: The most groups, as far as their number of periods allows it: they are larger then.

    Returns:
        The groups; a large period is one by itself, if there are not too many.
    """
    to_load = sorted((each for each in planned if each.is_to_load), key=lambda each: each.period)
    most_bytes, all_bytes = _MOST_BYTES, sum(each.objects.size_bytes for each in to_load)
    while len(groups := _groups(to_load, most_periods, most_bytes)) > most_groups and most_bytes < all_bytes:
        most_bytes *= 2
    return groups


def _groups(to_load: Sequence[PlannedPeriod], most_periods: int, most_bytes: int) -> list[list[Period]]:
    groups: list[list[Period]] = []
    size_bytes = 0
    for each in to_load:
        size_bytes += each.objects.size_bytes
        if not groups or len(groups[-1]) == most_periods or size_bytes > most_bytes:
            groups.append([])
            size_bytes = each.objects.size_bytes
        groups[-1].append(each.period)
    return groups
