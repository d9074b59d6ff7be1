"""Hold what the months of a group share: the files of their insert, and the table that they are published from."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_chs3.core.staging.tables import Attempt
from airflow_provider_chs3.core.values.month_group import MonthGroup


@dataclass(frozen=True, slots=True)
class GroupOfFiles:
    """The files of months that one insert reads together.

    Args:
        months: The months.
        is_of_month: Condition that a row belongs to the month of its file.
        largest_bytes: Stored size of the objects of the largest month in bytes.
    """

    months: MonthGroup
    is_of_month: str
    largest_bytes: int


@dataclass(frozen=True, slots=True)
class SharedStaging:
    """A staging table from which several months are published.

    Args:
        attempt: Names it, and the statements of all of them.
        partition_ids: The partitions of all of them.
    """

    attempt: Attempt
    partition_ids: frozenset[str]
