"""Small and large periods, on small and large nodes: the server's defaults, this package's settings, this package."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider_chs3.testbed.trips import create_table_sql
from tests.benchmarks.lake import BUCKET, TABLE, Lake, Periods
from tests.benchmarks.measure import HEALTHY, MEMORY, MERGED, PARTS, SECONDS, load_of, watched
from tests.benchmarks.node_size import NodeSize
from tests.benchmarks.rounds import Comparison, Gate, measure_in_turns
from tests.benchmarks.suite import TrialContext

TITLE = "Sizes of periods and of nodes"

_SIZES = (
    NodeSize(cores=1, memory_gib=4, held_to_cores=1),
    NodeSize(cores=2, memory_gib=16, held_to_cores=2),
)
_DEFAULTS, _TUNED, _PACKAGE = "plain, the server's defaults", "plain, this package's settings", "this package"
#: "Never slower", beside the noise of a machine that is not quiet.
_NEVER_SLOWER = Gate(variant=_TUNED, figure=SECONDS, at_most=1.05)
#: A load of seconds has its fixed cost; the suite `limit` measures that.
_LARGE = (
    Gate(variant=_PACKAGE, figure=SECONDS, at_most=1.1),
    Gate(variant=_PACKAGE, figure=PARTS, at_most=0.5),
    Gate(variant=_PACKAGE, figure=HEALTHY, at_most=0.77),
)


def run(bench: TrialContext) -> Iterator[Comparison]:
    """Compare at every size."""
    small = _period("small", bench.sized(full=1_000_000, quick=500_000))
    large = _period("large", bench.sized(full=24_000_000, quick=4_000_000))
    with bench.s3() as s3:
        s3.endpoint.client().create_bucket(Bucket=BUCKET)
        for periods in (small, large):
            periods.upload(s3.endpoint)
        for size in _SIZES:
            with size.lake(s3) as lake:
                yield _compared(bench, str(size), lake, small, [_NEVER_SLOWER])
                # A quick run's large period takes seconds, too.
                yield _compared(bench, str(size), lake, large, [_NEVER_SLOWER, *([] if bench.is_quick else _LARGE)])


def _period(prefix: str, rows: int) -> Periods:
    return Periods(prefix=prefix, names=["2026-01"], rows=rows, files=24, copies=4)


def _compared(bench: TrialContext, size: str, lake: Lake, periods: Periods, gates: list[Gate]) -> Comparison:
    (period,), create_sql = periods.names, create_table_sql(f"default.{TABLE}")
    lake.start_afresh()
    settings = lake.load(periods, period)["settings"]
    variants = {
        name: watched(
            lake,
            periods.total_rows,
            lambda settings=settings: lake.insert(periods, period, settings),
            create_sql=create_sql,
            staging=False,
        )
        for name, settings in {_DEFAULTS: {}, _TUNED: settings}.items()
    }
    variants[_PACKAGE] = load_of(lake, periods)
    title = f"A node of {size}: {periods.total_rows:,} rows"
    return Comparison(
        title=title,
        variants=list(variants),
        figures=[SECONDS, PARTS, MERGED, HEALTHY, MEMORY],
        rounds=measure_in_turns(title, variants, rounds=bench.rounds, console=bench.console, warm_up=False),
        gates=gates,
    )
