"""Many small periods: in one load, by the server's defaults one by one, and by one single insert of all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from tests.benchmarks.lake import BUCKET, Lake, Periods, months
from tests.benchmarks.measure import SECONDS
from tests.benchmarks.rounds import Comparison, Figures, Gate, measure_in_turns
from tests.benchmarks.suite import TrialContext

TITLE = "Groups of periods"

_ONE_BY_ONE, _AT_ONCE = "plain, defaults, one by one", "plain, one INSERT of all"
_GROUP, _FURTHER = "this package, in one load", "this package, a further load"
_PERIODS = 60
_PERIODS_IN_QUICK = 12
_FILES = 2
#: A server allows a hundred partitions in one block.
_ALL_PARTITIONS = {"max_partitions_per_insert_block": 0}


def run(bench: TrialContext) -> Iterator[Comparison]:
    """Load periods of two sizes on one node, and small ones on three."""
    count = _PERIODS_IN_QUICK if bench.is_quick else _PERIODS
    names = months(2021, count)
    small = Periods(prefix="small", names=names, rows=bench.sized(full=50_000, quick=10_000), files=_FILES)
    quarter = Periods(prefix="quarter", names=names, rows=bench.sized(full=600_000, quick=50_000), files=_FILES)
    with bench.s3() as s3:
        s3.endpoint.client().create_bucket(Bucket=BUCKET)
        for periods in (small, quarter):
            periods.upload(s3.endpoint)
        for nodes in (1, 3):
            with ClickHouseCluster.start(nodes) as cluster:
                lake = Lake(cluster, s3.endpoint, f"bench_groups_{nodes}")
                for periods in (small, quarter):
                    yield compare(bench, lake, periods, rounds=bench.rounds)


def compare(bench: TrialContext, lake: Lake, periods: Periods, *, rounds: int) -> Comparison:
    """Compare the ways of loading periods."""

    def one_by_one() -> None:
        for period in periods.names:
            lake.insert(periods, period, {})

    def together() -> None:
        arguments = lake.where(f"{periods.prefix}/{{YYYY-MM}}/*.parquet", periods.names[0])
        arguments.pop("period")
        S3ToClickHouseOperator(task_id="load", **arguments, periods=list(periods.names)).execute({})

    variants = {
        _ONE_BY_ONE: _timed(lake, periods, one_by_one),
        _AT_ONCE: _timed(lake, periods, lambda: lake.insert(periods, "*", _ALL_PARTITIONS)),
        _GROUP: _timed(lake, periods, together),
        _FURTHER: _timed(lake, periods, together, is_first=False),
    }
    nodes = len(lake.cluster.nodes)
    title = f"{len(periods.names):,} periods of {periods.rows:,} rows, {nodes} node{'s' if nodes > 1 else ''}"
    return Comparison(
        title=title,
        variants=list(variants),
        figures=[SECONDS],
        rounds=measure_in_turns(title, variants, rounds=rounds, console=bench.console, warm_up=False),
        aim="at most 0.6 of the defaults one by one, and 1.2 times one INSERT of all",
        gates=[Gate(variant=_GROUP, figure=SECONDS, at_most=0.6)],
    )


def _timed(lake: Lake, periods: Periods, load: Callable[[], None], *, is_first: bool = True) -> Callable[[], Figures]:
    def measure() -> Figures:
        lake.start_afresh()
        if not is_first:
            load()
            lake.forget()
        began = time.monotonic()
        load()
        seconds = time.monotonic() - began
        if lake.rows() != periods.total_rows:
            raise RuntimeError(f"The table holds {lake.rows()} rows, the files {periods.total_rows}.")
        return {SECONDS: seconds}

    return measure
