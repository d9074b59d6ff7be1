"""Several months: by the server's defaults one after another, and by the operator so many at a time."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from tests.benchmarks.lake import BUCKET, Lake, Months
from tests.benchmarks.measure import HEALTHY, PARTS, SECONDS, measured
from tests.benchmarks.rounds import Comparison, measure_in_turns
from tests.benchmarks.suite import Bench

TITLE = "Backfill"


def run(bench: Bench) -> Iterator[Comparison]:
    """Compare months side by side with months one after another, one node.

    Args:
        bench: What suites are given.
    """
    names = [f"2026-{month:02}" for month in range(1, 7)]
    months = Months(prefix="several", names=names, rows=bench.sized(full=10_000_000, quick=1_000_000), files=12)
    with bench.s3() as s3, ClickHouseCluster.start(1) as one:
        s3.endpoint.client().create_bucket(Bucket=BUCKET)
        months.upload(s3.endpoint)
        yield _side_by_side(bench, Lake(one, s3.endpoint, "bench_one"), months)


def _side_by_side(bench: Bench, lake: Lake, months: Months) -> Comparison:
    def by_defaults() -> None:
        for month in months.names:
            lake.insert(months, month, {})

    variants = {"plain, defaults, one by one": measured(lake, months, by_defaults, staging=False)}
    for parallel in (1, 2, 3):
        variants[f"parallel_months={parallel}"] = measured(
            lake, months, lambda parallel=parallel: lake.load_side_by_side(months, parallel), staging=True
        )
    return Comparison(
        title=f"Months side by side: {len(months.names)} months of {months.rows:,} rows, one node",
        aim="Aim: no slower than the defaults beside the fixed cost of each month, with half of the parts.",
        variants=list(variants),
        figures=[SECONDS, PARTS, HEALTHY],
        rounds=measure_in_turns("Side by side", variants, rounds=bench.rounds, console=bench.console),
    )
