"""Which periods share a task."""

from __future__ import annotations

from datetime import datetime

import pytest

from airflow_provider_chs3.core.plans.grouping import group_periods
from airflow_provider_chs3.core.plans.plan import PlannedPeriod
from airflow_provider_chs3.core.values.models import TableName
from airflow_provider_chs3.core.values.period import Grain, Period
from airflow_provider_chs3.core.values.period_objects import PeriodObjects

GIB = 1024**3
FIRST = Period(datetime(2022, 10, 1), Grain.DAY)


def sizes(days: int, size_bytes: int, *, most_periods: int = 60, most_groups: int = 1_024) -> list[int]:
    """Group days of a size, none of which is lost or moved, and return the number of days in each group."""
    planned = [
        PlannedPeriod(
            FIRST.shifted(day), PeriodObjects(1, size_bytes, ""), "new", is_to_load=True, target=TableName("d", "t")
        )
        for day in range(days)
    ]
    groups = group_periods(planned, most_periods=most_periods, most_groups=most_groups)
    assert [each for group in groups for each in group] == [each.period for each in planned]
    return [len(group) for group in groups]


def test_small_days_share_tasks() -> None:
    assert sizes(1_500, 1_000) == [60] * 25


def test_large_days_have_tasks_of_their_own() -> None:
    assert sizes(100, 2 * GIB) == [1] * 100


@pytest.mark.parametrize("size_bytes", [GIB, 2 * GIB, 100 * GIB])
def test_more_large_days_than_tasks_share_them(size_bytes: int) -> None:
    assert sizes(1_500, size_bytes) == [2] * 750


def test_of_some_days_in_a_task_there_may_be_more_tasks() -> None:
    assert sizes(10, GIB, most_periods=2, most_groups=3) == [2] * 5
    assert sizes(0, GIB) == []
