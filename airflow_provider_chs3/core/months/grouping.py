"""Which months are loaded by one task."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_chs3.core.months.plan import PlannedMonth
from airflow_provider_chs3.core.values.models import Month

#: Objects of one task: with more, what a task of its own costs a month is lost in what its rows take, and a failure of
#: the insert costs more than it saves.
_MOST_BYTES = 1024**3


def group_months(planned: Sequence[PlannedMonth], *, most_months: int) -> list[list[Month]]:
    """Group months to load, in their order, so that each group is small.

    Args:
        planned: The months of a plan.
        most_months: The most months of a group.

    Returns:
        The groups; a large month is one by itself.
    """
    groups: list[list[Month]] = []
    size_bytes = 0
    for each in sorted((each for each in planned if each.is_to_load), key=lambda each: each.month):
        size_bytes += each.objects.size_bytes
        if not groups or len(groups[-1]) == most_months or size_bytes > _MOST_BYTES:
            groups.append([])
            size_bytes = each.objects.size_bytes
        groups[-1].append(each.month)
    return groups
