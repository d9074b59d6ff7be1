"""One load, measured from its start until its merges have settled."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.benchmarks.lake import Lake, Months
from tests.benchmarks.rounds import Figures

SECONDS = "seconds"
HEALTHY = "healthy after seconds"
PARTS = "parts written"


def measured(lake: Lake, months: Months, load: Callable[[], object], *, staging: bool) -> Callable[[], Figures]:
    """What measures a load once, on an empty table.

    Args:
        lake: Where it takes place.
        months: What it loads.
        load: The load.
        staging: Whether it writes into staging tables, or into the table itself.
    """

    def measure() -> Figures:
        lake.start_afresh()
        start = time.monotonic()
        load()
        seconds = time.monotonic() - start
        lake.wait_until_healthy(months.names)
        healthy_seconds = time.monotonic() - start
        check_rows(lake, months.total_rows)
        return {SECONDS: seconds, HEALTHY: healthy_seconds, PARTS: lake.written_parts(staging=staging)}

    return measure


def check_rows(lake: Lake, rows: int) -> None:
    """A load that loses rows may be as quick as it likes.

    Args:
        lake: Where it took place.
        rows: How many there must be.
    """
    loaded = lake.rows()
    if loaded != rows:
        raise RuntimeError(f"The table holds {loaded} rows, the files {rows}.")
