"""Which periods are loaded by one task."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_chs3.core.plans.plan import PlannedPeriod
from airflow_provider_chs3.core.values.period import Period

#: Objects of one task: with more, what a task of its own costs a period is lost in what its rows take, and a failure of
#: the insert costs more than it saves.
_MOST_BYTES = 1024**3


def group_periods(planned: Sequence[PlannedPeriod], *, most_periods: int) -> list[list[Period]]:
    """Group periods to load, in their order, so that each group is small.

    Args:
        planned: The periods of a plan.
        most_periods: The most periods of a group.

    Returns:
        The groups; a large period is one by itself.
    """
    groups: list[list[Period]] = []
    size_bytes = 0
    for each in sorted((each for each in planned if each.is_to_load), key=lambda each: each.period):
        size_bytes += each.objects.size_bytes
        if not groups or len(groups[-1]) == most_periods or size_bytes > _MOST_BYTES:
            groups.append([])
            size_bytes = each.objects.size_bytes
        groups[-1].append(each.period)
    return groups
