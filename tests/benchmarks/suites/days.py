"""Years of days: 1,500 small periods in one load, by the server's defaults one by one, and by one insert of all."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from tests.benchmarks.lake import BUCKET, Lake, Periods, months
from tests.benchmarks.rounds import Comparison
from tests.benchmarks.suite import TrialContext
from tests.benchmarks.suites.groups import compare

TITLE = "Years of days"
IN_QUICK = False

#: As months: so many fit in a DateTime.
_PERIODS, _PERIODS_IN_QUICK, _FIRST_YEAR = 1_500, 120, 1971


def run(bench: TrialContext) -> Iterator[Comparison]:
    """Load them on one node and on three, once: some take minutes."""
    periods = Periods(
        prefix="days",
        names=months(_FIRST_YEAR, _PERIODS_IN_QUICK if bench.is_quick else _PERIODS),
        rows=bench.sized(full=20_000, quick=2_000),
        files=1,
    )
    with bench.s3() as s3:
        s3.endpoint.client().create_bucket(Bucket=BUCKET)
        periods.upload(s3.endpoint)
        for nodes in (1, 3):
            with ClickHouseCluster.start(nodes) as cluster:
                yield compare(bench, Lake(cluster, s3.endpoint, f"bench_days_{nodes}"), periods, rounds=1)
