"""Many small months: in one load, by the server's defaults one by one, and by one single insert of all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from tests.benchmarks.lake import BUCKET, Lake, Months
from tests.benchmarks.measure import SECONDS
from tests.benchmarks.rounds import Comparison, Figures, Gate, measure_in_turns
from tests.benchmarks.suite import TrialContext

TITLE = "Groups of months"

_ONE_BY_ONE, _AT_ONCE = "plain, defaults, one by one", "plain, one INSERT of all"
_GROUP = "this package, in one load"
_MONTHS = 60
_MONTHS_IN_QUICK = 12
_FILES = 2


def run(bench: TrialContext) -> Iterator[Comparison]:
    """Load months of two sizes on one node, and small ones on three.

    Args:
        bench: What suites are given.
    """
    count = _MONTHS_IN_QUICK if bench.is_quick else _MONTHS
    names = [f"{2021 + number // 12}-{number % 12 + 1:02}" for number in range(count)]
    small = Months(prefix="small", names=names, rows=bench.sized(full=50_000, quick=10_000), files=_FILES)
    quarter = Months(prefix="quarter", names=names, rows=bench.sized(full=600_000, quick=50_000), files=_FILES)
    with bench.s3() as s3:
        s3.endpoint.client().create_bucket(Bucket=BUCKET)
        for months in (small, quarter):
            months.upload(s3.endpoint)
        for nodes in (1, 3):
            with ClickHouseCluster.start(nodes) as cluster:
                lake = Lake(cluster, s3.endpoint, f"bench_groups_{nodes}")
                for months in (small, quarter):
                    yield _compared(bench, lake, months, nodes=nodes)


def _compared(bench: TrialContext, lake: Lake, months: Months, *, nodes: int) -> Comparison:
    def one_by_one() -> None:
        for month in months.names:
            lake.insert(months, month, {})

    def together() -> None:
        arguments = lake.where(f"{months.prefix}/{{YYYY-MM}}/*.parquet", months.names[0])
        arguments.pop("month")
        S3ToClickHouseOperator(task_id="load", **arguments, months=list(months.names)).execute({})

    variants = {
        _ONE_BY_ONE: _timed(lake, months, one_by_one),
        _AT_ONCE: _timed(lake, months, lambda: lake.insert(months, "*", {})),
        _GROUP: _timed(lake, months, together),
    }
    title = f"{len(months.names)} months of {months.rows:,} rows, {nodes} node{'s' if nodes > 1 else ''}"
    return Comparison(
        title=title,
        variants=list(variants),
        figures=[SECONDS],
        rounds=measure_in_turns(title, variants, rounds=bench.rounds, console=bench.console, warm_up=False),
        aim="at most 0.6 of the defaults one by one, and 1.2 times one INSERT of all",
        gates=[Gate(variant=_GROUP, figure=SECONDS, at_most=0.6)],
    )


def _timed(lake: Lake, months: Months, load: Callable[[], None]) -> Callable[[], Figures]:
    def measure() -> Figures:
        lake.start_afresh()
        began = time.monotonic()
        load()
        seconds = time.monotonic() - began
        if lake.rows() != months.total_rows:
            raise RuntimeError(f"The table holds {lake.rows()} rows, the files {months.total_rows}.")
        return {SECONDS: seconds}

    return measure
