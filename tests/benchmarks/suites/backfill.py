"""Years of periods: by the server's defaults one after another, and by the operator so many at a time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.nodes import RunningNode
from tests.benchmarks.lake import BUCKET, Lake, Periods, months
from tests.benchmarks.measure import HEALTHY, PARTS, SECONDS, watched
from tests.benchmarks.rounds import Comparison, Figures, Gate, measure_in_turns
from tests.benchmarks.suite import TrialContext

TITLE = "Backfill"

_QUERIES = "queries' MiB at the same time"
_PROCESS = "process's MiB above its start"
_PERIODS = 60
_PERIODS_IN_QUICK = 12
_FILES = 4
_MOST_ROUNDS = 2
_PARALLEL = (1, 2, 4)
_MEMORY_GIB = 2
_MEMORY_SHARE = 0.5
_MIB = 1024**2


def run(bench: TrialContext) -> Iterator[Comparison]:
    """Compare periods side by side with periods one after another, one node."""
    most = _PERIODS_IN_QUICK if bench.is_quick else _PERIODS
    count = max(2, min(most, round(most * bench.scale)))
    names = months(2021, count)
    periods = Periods(prefix="backfill", names=names, rows=bench.sized(full=600_000, quick=600_000), files=_FILES)
    with bench.s3() as s3, ClickHouseCluster.start(1) as one:
        s3.endpoint.client().create_bucket(Bucket=BUCKET)
        periods.upload(s3.endpoint)
        yield _side_by_side(bench, Lake(one, s3.endpoint, "bench_one"), periods)


def _side_by_side(bench: TrialContext, lake: Lake, periods: Periods) -> Comparison:
    def by_defaults() -> None:
        for period in periods.names:
            lake.insert(periods, period, {})

    specs = {"default": {"cores": os.cpu_count(), "memory": f"{_MEMORY_GIB}GiB"}}
    declared = {"node_specs": specs, "memory_share": _MEMORY_SHARE}
    rows = periods.total_rows
    variants = {"plain, defaults, one by one": _with_memory(lake, watched(lake, rows, by_defaults, staging=False))}
    for parallel in _PARALLEL:
        variants[_name(parallel)] = _with_memory(
            lake,
            watched(
                lake,
                rows,
                lambda parallel=parallel: lake.load_side_by_side(periods, parallel, **declared),
                staging=True,
            ),
        )
    share_mib = _MEMORY_GIB * 1024 * _MEMORY_SHARE
    return Comparison(
        title=f"{len(periods.names)} periods of {periods.rows:,} rows, one node",
        aim=f"All loads together may use a share of {_MEMORY_SHARE:g} of the declared {_MEMORY_GIB} GiB.",
        variants=list(variants),
        figures=[SECONDS, HEALTHY, PARTS, _QUERIES, _PROCESS],
        rounds=measure_in_turns(
            "Side by side",
            variants,
            rounds=1 if bench.is_quick else min(bench.rounds, _MOST_ROUNDS),
            console=bench.console,
            # A round takes minutes, of which what is done but once has no part.
            warm_up=False,
        ),
        gates=[
            Gate(variant=_name(parallel), figure=figure, at_most=share_mib, is_ratio=False)
            for parallel in _PARALLEL
            for figure in (_QUERIES, _PROCESS)
        ],
    )


def _name(parallel: int) -> str:
    return f"parallel_loads={parallel}"


def _with_memory(lake: Lake, measure: Callable[[], Figures]) -> Callable[[], Figures]:
    (node,) = lake.cluster.nodes

    def measure_both() -> Figures:
        # From here on VmHWM is what the process holds from here on.
        Path(f"/proc/{node.pid}/clear_refs").write_text("5")
        began_at, held_bytes = time.time(), _process_bytes(node, "VmRSS")
        figures = measure()
        process_mib = (_process_bytes(node, "VmHWM") - held_bytes) / _MIB
        return {**figures, _QUERIES: _most_at_once(_queries(node, began_at)) / _MIB, _PROCESS: process_mib}

    return measure_both


def _process_bytes(node: RunningNode, name: str) -> int:
    lines = Path(f"/proc/{node.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def _queries(node: RunningNode, began_at: float) -> list[tuple[float, float, int]]:
    """Start and end of each query since then, and the most memory that it took."""
    with node.client() as client:
        client.execute("SYSTEM FLUSH LOGS")
        return client.execute(
            "SELECT toFloat64(query_start_time_microseconds), toFloat64(event_time_microseconds), memory_usage "
            f"FROM system.query_log WHERE type = 'QueryFinish' AND toFloat64(event_time_microseconds) >= {began_at}"
        )


def _most_at_once(queries: Sequence[tuple[float, float, int]]) -> int:
    """The most that queries which ran at the same time have taken together, if each took its most throughout."""
    held = most = 0
    changes = [(start, size) for start, _, size in queries] + [(end, -size) for _, end, size in queries]
    for _, change in sorted(changes):
        held += change
        most = max(most, held)
    return most
