"""The same load by one node and by three, each held to the same part of a core."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from tests.benchmarks.lake import BUCKET, Lake, Months
from tests.benchmarks.measure import SECONDS, measured
from tests.benchmarks.rounds import Comparison, Gate, measure_in_turns
from tests.benchmarks.servers import can_limit_cores, limited_to
from tests.benchmarks.suite import Bench

TITLE = "Scaling out"


def run(bench: Bench) -> Iterator[Comparison]:
    """Compare three nodes with one.

    Args:
        bench: What suites are given.
    """
    if not can_limit_cores():
        bench.say("Left out: three nodes to one, as it takes root and cgroups of version 1.")
        return
    months = Months(prefix="scaling", names=["2026-01"], rows=bench.sized(full=20_000_000, quick=4_000_000), files=12)
    with bench.s3() as s3, ClickHouseCluster.start(1) as one, ClickHouseCluster.start(3) as three:
        s3.endpoint.client().create_bucket(Bucket=BUCKET)
        months.upload(s3.endpoint)
        with limited_to(0.5, one), limited_to(0.5, three):
            lakes = {"one node": Lake(one, s3.endpoint, "bench_one")}
            lakes["three nodes"] = Lake(three, s3.endpoint, "bench_three")
            yield _nodes(bench, lakes, months)


def _nodes(bench: Bench, lakes: dict[str, Lake], months: Months) -> Comparison:
    month = months.names[0]
    variants = {
        name: measured(lake, months, lambda lake=lake: lake.load(months, month), staging=True)
        for name, lake in lakes.items()
    }
    return Comparison(
        title=f"Three nodes of half a core to one: {months.total_rows:,} rows",
        aim="2.7 times as fast is 0.37; ideal is 0.33.",
        variants=list(variants),
        figures=[SECONDS],
        rounds=measure_in_turns("Three nodes to one", variants, rounds=bench.rounds, console=bench.console),
        gates=[Gate(variant="three nodes", figure=SECONDS, at_most=0.37)],
    )
