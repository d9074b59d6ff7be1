"""What a plan found of a month."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_chs3.core.values.models import Month, TableName


@dataclass(frozen=True, slots=True)
class MonthObjects:
    """A month's objects, as much of them as a comparison needs."""

    count: int
    size_bytes: int
    fingerprint: str


@dataclass(frozen=True, slots=True)
class PlannedMonth:
    """What was found of a month.

    Args:
        month: The month.
        objects: Its objects.
        reason: Why it is loaded, or not, in words.
        is_to_load: Whether it is.
        target: The local table that it belongs into.
        has_changed_objects: Whether that is because its objects changed since it was published.
        attempts: The attempts that published what is compared with, on any node.
    """

    month: Month
    objects: MonthObjects
    reason: str
    is_to_load: bool
    target: TableName
    has_changed_objects: bool = False
    attempts: tuple[str, ...] = ()

    def __str__(self) -> str:
        verdict = "to load" if self.is_to_load else "nothing to load"
        sizes = f"{self.objects.count} objects, {self.objects.size_bytes:,} bytes"
        return f"{self.month} {verdict}: {self.reason} ({sizes})"
