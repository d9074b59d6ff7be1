"""The cost of staging, proof and ledger: beside the plain insert of the same settings, and beside reading alone."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from statistics import median
from typing import Any

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from tests.benchmarks.lake import BUCKET, TABLE, Lake, Periods
from tests.benchmarks.measure import MEMORY, SECONDS, SPEED, load_of, peak_memory_bytes, watched
from tests.benchmarks.rounds import Comparison, Figures, Gate, Table, Verdict, measure_in_turns
from tests.benchmarks.suite import TrialContext

TITLE = "Against the limit"

_READ, _PLAIN, _PACKAGE = "read only, into a Null table", "plain, this package's settings", "this package"
_GATE = Gate(variant=_PACKAGE, figure=SECONDS, at_most=1.10)
#: It holds for loads that take longer.
_GATE_FROM_SECONDS = 60
_MOST_FIXED_SECONDS = 1.5
#: Rows to the file: a period has as many files as it takes.
_FILE_ROWS = 500_000
_SMALL_ROUNDS = 2


def run(bench: TrialContext) -> Iterator[Comparison | Table]:
    """Load a period that takes a while, and one that takes no time, into one node."""
    rows = bench.sized(full=110_000_000, quick=6_000_000)
    files = max(12, rows // _FILE_ROWS)
    large = Periods(prefix="large", names=["2026-01"], rows=rows, files=files, copies=max(3, files // 12))
    small = Periods(prefix="small", names=["2026-01"], rows=5_000, files=4)
    with bench.s3() as s3, ClickHouseCluster.start(1) as one:
        s3.endpoint.client().create_bucket(Bucket=BUCKET)
        for periods in (large, small):
            periods.upload(s3.endpoint)
        lake = Lake(one, s3.endpoint, "bench_limit")
        yield from _small(bench, lake, small)
        yield _large(bench, lake, large)


def _small(bench: TrialContext, lake: Lake, periods: Periods) -> Iterator[Comparison | Table]:
    (period,) = periods.names
    variants = {
        _PLAIN: watched(
            lake,
            periods.total_rows,
            lambda: lake.insert(periods, period, {}),
            staging=False,
        ),
        _PACKAGE: load_of(lake, periods),
    }
    measured = Comparison(
        title=f"A small period: {periods.total_rows:,} rows, one node",
        variants=list(variants),
        figures=[SECONDS],
        rounds=measure_in_turns("Small period", variants, rounds=_SMALL_ROUNDS * bench.rounds, console=bench.console),
    )
    yield measured
    pairs = zip(measured.values(_PACKAGE, SECONDS), measured.values(_PLAIN, SECONDS), strict=True)
    fixed = [package - plain for package, plain in pairs]
    verdict = Verdict(
        claim=f"the fixed cost of a load: at most {_MOST_FIXED_SECONDS} seconds",
        found=f"{median(fixed):.2f}",
        is_met=median(fixed) <= _MOST_FIXED_SECONDS,
    )
    row = {
        "fixed cost in seconds, median": median(fixed),
        "lowest, seconds": min(fixed),
        "highest, seconds": max(fixed),
    }
    yield Table(title="The fixed cost of a load", rows=[row], verdicts=[verdict])


def _large(bench: TrialContext, lake: Lake, periods: Periods) -> Comparison:
    (period,) = periods.names
    lake.start_afresh()
    # It warms the servers up, too.
    settings = lake.load(periods, period)["settings"]
    variants = {
        _PLAIN: watched(
            lake,
            periods.total_rows,
            lambda: lake.insert(periods, period, settings),
            staging=False,
        ),
        _PACKAGE: load_of(lake, periods),
        _READ: lambda: _read(lake, periods, settings),
    }
    measured = Comparison(
        title=f"A large period: {periods.total_rows:,} rows in {periods.files} files, one node",
        variants=list(variants),
        figures=[SECONDS, SPEED, MEMORY],
        rounds=measure_in_turns("Large period", variants, rounds=bench.rounds, console=bench.console, warm_up=False),
        aim="Aim: 1.03 for loads of more than a minute.",
    )
    is_long = median(measured.values(_PLAIN, SECONDS)) > _GATE_FROM_SECONDS
    return replace(measured, gates=[_GATE] if is_long else [])


def _read(lake: Lake, periods: Periods, settings: Mapping[str, Any]) -> Figures:
    """Read what a load reads, and write nothing: no load can be faster."""
    lake.start_afresh()
    lake.ask_every_node(f"CREATE OR REPLACE TABLE nothing AS {TABLE} ENGINE = Null")
    began_at, start = time.time(), time.monotonic()
    lake.insert(periods, periods.names[0], settings, into=f"FUNCTION cluster('{lake.cluster.name}', default, nothing)")
    seconds = time.monotonic() - start
    lake.ask_every_node("SYSTEM FLUSH LOGS")
    return {
        SECONDS: seconds,
        SPEED: periods.total_rows / seconds / 1e6,
        MEMORY: peak_memory_bytes(lake, began_at) / 1e6,
    }
