"""Out: the same load by one, two and three nodes of half a core each. Up: by a node, and by one twice its size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from statistics import median

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from tests.benchmarks.lake import BUCKET, Lake, Periods
from tests.benchmarks.measure import MEMORY, PARTS, SECONDS, SPEED, load_of
from tests.benchmarks.node_size import NodeSize
from tests.benchmarks.rounds import Comparison, Gate, measure_in_turns
from tests.benchmarks.servers import BenchS3, held_to
from tests.benchmarks.suite import TrialContext

TITLE = "Scaling out and up"

_HELD_TO_CORES = 0.5
_SMALL = NodeSize(cores=1, memory_gib=2, held_to_cores=0.5)
_TWICE = NodeSize(cores=2, memory_gib=4, held_to_cores=1)
_GATES = [Gate(variant="3 nodes", figure=SPEED, at_least=2.7)]


def run(bench: TrialContext) -> Iterator[Comparison]:
    """Compare more nodes with one, then a larger node with a smaller one."""
    with bench.s3() as s3:
        s3.endpoint.client().create_bucket(Bucket=BUCKET)
        out = _period("out", bench.sized(full=15_000_000, quick=3_000_000), bench)
        up = _period("up", bench.sized(full=8_000_000, quick=2_000_000), bench)
        for periods in (out, up):
            periods.upload(s3.endpoint)
        yield _out(bench, s3, out)
        yield _up(bench, s3, up)


def _period(prefix: str, rows: int, bench: TrialContext) -> Periods:
    # Files are the units that nodes share out: many of them, as in most buckets, leave nobody idle at the end.
    files, copies = (24, 4) if bench.is_quick else (60, 5)
    return Periods(prefix=prefix, names=["2026-01"], rows=rows, files=files, copies=copies)


def _out(bench: TrialContext, s3: BenchS3, periods: Periods) -> Comparison:
    counts = {f"{count} node{'s' if count > 1 else ''}": count for count in ((1, 3) if bench.is_quick else (1, 2, 3))}
    with ExitStack() as stack:
        clusters = [stack.enter_context(ClickHouseCluster.start(count)) for count in counts.values()]
        size = stack.enter_context(held_to(_HELD_TO_CORES, *clusters))
        lakes = {
            name: Lake(cluster, s3.endpoint, f"bench_out_{len(cluster.nodes)}")
            for name, cluster in zip(counts, clusters, strict=True)
        }
        title = f"Out: {periods.total_rows:,} rows in {periods.files} files, nodes {size}"
        return _compared(bench, title, lakes, periods, counts=counts, gates=_GATES)


def _up(bench: TrialContext, s3: BenchS3, periods: Periods) -> Comparison:
    counts = {str(_SMALL): 1, str(_TWICE): 2}
    with _SMALL.lake(s3) as small, _TWICE.lake(s3) as twice:
        lakes = {str(_SMALL): small, str(_TWICE): twice}
        title = f"Up: {periods.total_rows:,} rows in {periods.files} files, one node"
        return _compared(bench, title, lakes, periods, counts=counts)


def _compared(
    bench: TrialContext,
    title: str,
    lakes: Mapping[str, Lake],
    periods: Periods,
    *,
    counts: Mapping[str, int],
    gates: Sequence[Gate] = (),
) -> Comparison:
    variants = {name: load_of(lake, periods) for name, lake in lakes.items()}
    rounds = measure_in_turns(title.partition(":")[0], variants, rounds=bench.rounds, console=bench.console)
    measured = Comparison(
        title=title, variants=list(variants), figures=[SECONDS, SPEED, PARTS, MEMORY], rounds=rounds, gates=gates
    )
    faster = {name: 1 / median(measured.ratios(name, SECONDS)) for name in variants}
    return replace(
        measured,
        beside={
            "times as fast": {name: f"{times:.2f}" for name, times in faster.items()},
            "ideal": {name: f"{count:.2f}" for name, count in counts.items()},
            "efficiency": {name: f"{times / counts[name]:.0%}" for name, times in faster.items()},
        },
    )
