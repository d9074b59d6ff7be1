"""ClickHouse's own guide, step by step, on today's engine; then the server's defaults, and this package.

The guide is "Optimizing for S3 insert and read performance": its nodes have 8 vCPU and 32 GiB, its 59.82 million rows
lie in 189 monthly files. Here a node is half a core, and is said to have 1 GiB, as there are fewer data, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from airflow_provider_chs3.core.model.models import SettingValues
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.trips import create_table_sql
from tests.benchmarks.lake import BUCKET, TABLE, Lake, Periods
from tests.benchmarks.measure import HEALTHY, MEMORY, MERGED, PARTS, SECONDS, SPEED, watched
from tests.benchmarks.rounds import Comparison, Figures, measure_in_turns
from tests.benchmarks.servers import held_to
from tests.benchmarks.suite import TrialContext

TITLE = "The guide's ladder"

_HELD_TO_CORES = 0.5
_CORES = 2
_MEMORY_BYTES = 1024**3
_PERIODS = ["2026-01", "2026-02", "2026-03"]

#: The defaults of the guide's servers.
_THEN: SettingValues = {
    "max_insert_threads": 1,
    "max_insert_threads_min_free_memory_per_thread": 0,
    "min_insert_block_size_rows": 1_048_449,
    "min_insert_block_size_bytes": 268_402_944,
    "parallel_distributed_insert_select": 0,
    "deduplicate_insert": "enable",
    # By default today's servers do not deduplicate what a SELECT may give in another order the next time.
    "deduplicate_insert_select": "enable_even_for_bad_queries",
    "optimize_on_insert": 1,
    "distributed_foreground_insert": 1,
}
_RULE: SettingValues = {
    **_THEN,
    "max_insert_threads": _CORES // 2,
    "min_insert_block_size_bytes": _MEMORY_BYTES // (3 * (_CORES // 2)),
    "min_insert_block_size_rows": 0,
}
_EACH_WRITES: SettingValues = {**_RULE, "parallel_distributed_insert_select": 2}
_NO_DEDUPLICATION: SettingValues = {
    **_EACH_WRITES,
    "deduplicate_insert": "disable",
    "deduplicate_insert_select": "disable",
}
_ONE, _ROUTED, _EACH = TABLE, f"FUNCTION cluster('chs3', default, {TABLE}, rand())", None


@dataclass(frozen=True, kw_only=True)
class _Step:
    """One rung."""

    name: str
    into: str | None = _EACH
    settings: SettingValues = field(default_factory=dict)
    guide_seconds: float | None = None


_STEPS = (
    _Step(name="s3, one node, the guide's defaults", into=_ONE, settings=_THEN, guide_seconds=191.7),
    _Step(name="the same, today's defaults", into=_ONE),
    _Step(name="the guide's rule", into=_ONE, settings=_RULE, guide_seconds=128.6),
    _Step(name="s3Cluster, rows through one node", into=_ROUTED, settings=_RULE, guide_seconds=171.2),
    _Step(name="+ each node writes what it reads", settings=_EACH_WRITES, guide_seconds=54.6),
    _Step(name="+ no deduplication", settings=_NO_DEDUPLICATION, guide_seconds=53.0),
    _Step(name="+ optimize_on_insert=0", settings={**_NO_DEDUPLICATION, "optimize_on_insert": 0}, guide_seconds=49.7),
    _Step(name="s3Cluster, today's defaults"),
)


def run(bench: TrialContext) -> Iterator[Comparison]:
    """Climb it on three nodes, into a table partitioned by period, and into one that is not."""
    rows = bench.sized(full=2_000_000, quick=500_000)
    periods = Periods(prefix="ladder", names=_PERIODS, rows=rows, files=12)
    specs = {"default": {"cores": _CORES, "memory": str(_MEMORY_BYTES)}}
    with bench.s3() as s3, ClickHouseCluster.start(3) as three, held_to(_HELD_TO_CORES, three) as size:
        s3.endpoint.client().create_bucket(Bucket=BUCKET)
        bench.say(f"{periods.total_rows:,} rows; three nodes {size}; S3: {s3.described}")
        periods.upload(s3.endpoint)
        lake = Lake(three, s3.endpoint, "bench_ladder", specs)
        about = f"{periods.total_rows:,} rows of {len(_PERIODS)} periods, three nodes {size}"
        yield from _by_period(bench, lake, periods, about)
        yield from _not_partitioned(bench, lake, periods, about)


def _by_period(bench: TrialContext, lake: Lake, periods: Periods, about: str) -> Iterator[Comparison]:
    create_sql = create_table_sql(f"default.{TABLE}") + _DEDUPLICATES
    variants = _variants(lake, periods, create_sql)
    variants["this package"] = watched(
        lake,
        periods.total_rows,
        lambda: lake.load_side_by_side(periods, parallel_loads=2, memory_share=1),
        create_sql=create_sql,
        staging=True,
    )
    yield from _climb(bench, f"Partitioned by period: {about}", variants)


def _not_partitioned(bench: TrialContext, lake: Lake, periods: Periods, about: str) -> Iterator[Comparison]:
    partitioned = create_table_sql(f"default.{TABLE}")
    create_sql = partitioned.replace(" PARTITION BY toYYYYMM(pickup_at)", "") + _DEDUPLICATES
    assert "PARTITION" not in create_sql, "the test bed's table has another partition key now"
    yield from _climb(bench, f"Not partitioned: {about}", _variants(lake, periods, create_sql))


#: Without Keeper there are no replicated tables, the only ones that deduplicate by default.
_DEDUPLICATES = " SETTINGS non_replicated_deduplication_window = 1000"


def _variants(lake: Lake, periods: Periods, create_sql: str) -> dict[str, Callable[[], Figures]]:
    return {
        step.name: watched(
            lake,
            periods.total_rows,
            lambda step=step: lake.insert(periods, "*", step.settings, into=step.into),
            create_sql=create_sql,
            staging=False,
        )
        for step in _STEPS
    }


def _climb(bench: TrialContext, title: str, variants: dict[str, Callable[[], Figures]]) -> Iterator[Comparison]:
    # One insert by one node and one by all are enough to warm the servers up.
    for step in (_STEPS[1], _STEPS[-1]):
        variants[step.name]()
    rounds = measure_in_turns(
        title.partition(":")[0], variants, rounds=bench.rounds, console=bench.console, warm_up=False
    )
    guide = {step.name: step.guide_seconds for step in _STEPS if step.guide_seconds}
    first = next(iter(guide.values()))
    yield Comparison(
        title=f"{title}, speed",
        variants=list(variants),
        figures=[SECONDS, SPEED],
        rounds=rounds,
        beside={
            "the guide's seconds": {name: f"{seconds:.1f}" for name, seconds in guide.items()},
            "its ratio": {name: f"{seconds / first:.2f}" for name, seconds in guide.items()},
        },
    )
    yield Comparison(
        title=f"{title}; parts, merges and memory",
        variants=list(variants),
        figures=[PARTS, MERGED, HEALTHY, MEMORY],
        rounds=rounds,
    )
