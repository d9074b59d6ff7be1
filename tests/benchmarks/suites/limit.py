"""One large month: what staging, proof and ledger cost, and what tuning brings."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from tests.benchmarks.lake import BUCKET, Lake, Months
from tests.benchmarks.measure import HEALTHY, PARTS, SECONDS, measured
from tests.benchmarks.rounds import Comparison, Gate, measure_in_turns
from tests.benchmarks.suite import Bench

TITLE = "Against the limit"


def run(bench: Bench) -> Iterator[Comparison]:
    """Compare the package's load with plain INSERT SELECTs, one node.

    Args:
        bench: What suites are given.
    """
    months = Months(prefix="large", names=["2026-01"], rows=bench.sized(full=60_000_000, quick=6_000_000), files=12)
    with bench.s3() as s3, ClickHouseCluster.start(1) as one:
        s3.endpoint.client().create_bucket(Bucket=BUCKET)
        months.upload(s3.endpoint)
        yield from _one_month(bench, Lake(one, s3.endpoint, "bench_one"), months)


def _one_month(bench: Bench, lake: Lake, months: Months) -> Iterator[Comparison]:
    month = months.names[0]
    lake.start_afresh()
    settings = lake.load(months, month)["settings"]
    package, same, defaults = "this package", "plain, the same settings", "plain, the server's defaults"
    rounds = measure_in_turns(
        "One month",
        {
            defaults: measured(lake, months, lambda: lake.insert(months, month, {}), staging=False),
            same: measured(lake, months, lambda: lake.insert(months, month, settings), staging=False),
            package: measured(lake, months, lambda: lake.load(months, month), staging=True),
        },
        rounds=bench.rounds,
        console=bench.console,
    )
    yield Comparison(
        title=f"Staged, verified, published load to the same plain INSERT SELECT: {months.total_rows:,} rows, one node",
        variants=[same, package],
        figures=[SECONDS],
        rounds=rounds,
        gates=[Gate(variant=package, figure=SECONDS, at_most=1.10)],
    )
    yield Comparison(
        title=f"Tuned to the server's defaults: {months.total_rows:,} rows, one node",
        aim="Aim: never slower beside the fixed cost, a third to half of the parts, healthy no later.",
        variants=[defaults, same, package],
        figures=[SECONDS, PARTS, HEALTHY],
        rounds=rounds,
    )
