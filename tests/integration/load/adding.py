"""Files that come later, to a table that does not merge."""

from __future__ import annotations

from tests.support.several_periods import Periods


def stop_merges(periods: Periods) -> None:
    """A load of new objects waits while the period merges, and asks until that has ended."""
    periods.lake.on_every_node(f"SYSTEM STOP MERGES {periods.lake.database}.{periods.lake.table}")


def add_a_file(periods: Periods) -> None:
    periods.put("2026-10", "c")
