"""Several months that are loaded together."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_chs3.core.values.models import Month


@dataclass(frozen=True, slots=True)
class MonthGroup:
    """Several months, in order.

    Args:
        months: The months; at least one.
    """

    months: tuple[Month, ...]

    def __str__(self) -> str:
        first, last = self.months[0], self.months[-1]
        return str(first) if first == last else f"{first} … {last} ({len(self.months)} months)"
