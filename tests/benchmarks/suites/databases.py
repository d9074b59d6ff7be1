"""A large period of each database: what people write, and this package."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.benchmarks.places import DATABASES
from tests.benchmarks.rounds import Table
from tests.benchmarks.suite import TrialContext
from tests.benchmarks.suites.sources import place_table

TITLE = "Large periods of databases"
IN_QUICK = False

_ROWS, _COPIES = 10_000_000, 10


def run(bench: TrialContext) -> Iterator[Table]:
    """Load a period of each database whose server can be started here into one node."""
    large = [replace(kind, rows=_ROWS, copies=_COPIES) for kind in DATABASES]
    # Loads of minutes need no warm-up.
    yield place_table(bench, large, title="A large period of each database, into one node", warm_up=False)
