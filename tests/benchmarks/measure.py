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
        _check(lake, months)
        return {SECONDS: seconds, HEALTHY: healthy_seconds, PARTS: lake.written_parts(staging=staging)}

    return measure


def _check(lake: Lake, months: Months) -> None:
    """A load that loses rows may be as quick as it likes."""
    rows = lake.rows()
    if rows != months.total_rows:
        raise RuntimeError(f"The table holds {rows} rows, the files {months.total_rows}.")
