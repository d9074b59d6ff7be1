"""Group the periods of a plan, so that one task loads several small ones."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.periods.plan import PlannedPeriod

#: Objects of one task: with more, what a task of its own costs a period is lost in what its rows take, and a failure of
#: the insert costs more than it saves.
_MOST_BYTES = 1024**3


def group_periods(planned: Sequence[PlannedPeriod], *, most_periods: int, most_groups: int) -> list[list[Period]]:
    """Group periods to load, in their order, so that each group is small.

    Returns:
        The groups; a large period is one by itself, if there are not too many.
    """
    to_load = sorted((period for period in planned if period.is_to_load), key=lambda period: period.period)
    most_bytes, all_bytes = _MOST_BYTES, sum(period.objects.size_bytes for period in to_load)
    while len(groups := _groups(to_load, most_periods, most_bytes)) > most_groups and most_bytes < all_bytes:
        most_bytes *= 2
    return groups


def _groups(to_load: Sequence[PlannedPeriod], most_periods: int, most_bytes: int) -> list[list[Period]]:
    groups: list[list[Period]] = []
    size_bytes = 0
    for period in to_load:
        size_bytes += period.objects.size_bytes
        if not groups or len(groups[-1]) == most_periods or size_bytes > most_bytes:
            groups.append([])
            size_bytes = period.objects.size_bytes
        groups[-1].append(period.period)
    return groups
