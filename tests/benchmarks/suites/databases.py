"""A large period of each database: what people write, and this package."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.programs.packages import ProgramMissingError
from tests.benchmarks.places import DATABASES
from tests.benchmarks.rounds import Table
from tests.benchmarks.suite import TrialContext
from tests.benchmarks.suites.sources import measure_place

TITLE = "Large periods of databases"
IN_QUICK = False

_ROWS, _COPIES = 10_000_000, 10


def run(bench: TrialContext) -> Iterator[Table]:
    """Load a period of each database whose server can be started here into one node."""
    rows = []
    with bench.s3() as s3, ClickHouseCluster.start(1) as one:
        for kind in DATABASES:
            try:
                rows.append(measure_place(bench, replace(kind, rows=_ROWS, copies=_COPIES), s3, one))
            except ProgramMissingError as error:
                bench.say(f"{kind.title} is left out: {error}")
    yield Table(
        title="A large period of each database, into one node",
        rows=rows,
        aim="The ratio is that of this package to a plain INSERT … SELECT from the same table function, in each round.",
    )
