"""The fixed cost of a load: a period of a few rows, with S3 near by and far away, on one node and on many."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from statistics import median

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from tests.benchmarks.kinds import AMAZON
from tests.benchmarks.lake import BUCKET, Lake, Periods
from tests.benchmarks.measure import SECONDS
from tests.benchmarks.rounds import Comparison, Figures, measure_in_turns
from tests.benchmarks.servers import BenchS3, far_away
from tests.benchmarks.suite import TrialContext

TITLE = "Fixed cost of a load"

_PERIOD = "2026-01"
_ROWS = 5_000
_WORKER = "worker's CPU seconds"
_STEPS = ("list", "inspect", "plan", "stage", "insert", "verify", "publish")
_OTHER = "recorded and cleaned up"
#: As a server does by default. Those of the test bed write their logs each second: of twenty, a third of a core.
_LOGS = {
    name: {"database": "system", "table": name, "flush_interval_milliseconds": 7_500}
    for name in ("query_log", "part_log")
}


def run(bench: TrialContext) -> Iterator[Comparison]:
    """Load a small period into one, three and twenty nodes, and find it unchanged."""
    periods = Periods(prefix="fixed", names=[_PERIOD], rows=_ROWS, files=1)
    with bench.s3() as s3:
        s3.endpoint.client().create_bucket(Bucket=BUCKET)
        periods.upload(s3.endpoint)
        for nodes in (1, 3) if bench.is_quick else (1, 3, 20):
            yield _compared(bench, s3, periods, nodes)


def _compared(bench: TrialContext, s3: BenchS3, periods: Periods, nodes: int) -> Comparison:
    with ExitStack() as stack:
        cluster = stack.enter_context(ClickHouseCluster.start(nodes, server_settings=_LOGS))
        places = {"S3 on loopback": s3.endpoint}
        if bench.can_be_far:
            places[f"S3 {AMAZON.first_byte_ms} ms away"] = stack.enter_context(far_away(s3.endpoint, AMAZON))
        lakes = {
            place: Lake(cluster, endpoint, f"bench_fixed_{at}") for at, (place, endpoint) in enumerate(places.items())
        }
        next(iter(lakes.values())).start_afresh()
        variants: dict[str, Callable[[], Figures]] = {}
        for place, lake in lakes.items():
            variants[f"first load, {place}"] = _loading(lake, periods, is_first=True)
            variants[f"load, {place}"] = _loading(lake, periods, is_first=False)
            variants[f"unchanged, {place}"] = _finding_unchanged(lake, periods)
        title = f"{nodes} node{'s' if nodes > 1 else ''}: {periods.total_rows:,} rows in one Parquet file"
        rounds = measure_in_turns(title, variants, rounds=bench.rounds, console=bench.console, warm_up=True)
    measured = Comparison(title=title, variants=list(variants), figures=[SECONDS, _WORKER], rounds=rounds)
    steps = (*_STEPS, _OTHER)
    return replace(
        measured,
        beside={
            step: {name: f"{median(each[name][step] for each in rounds):.2f}" for name in variants} for step in steps
        },
    )


def _loading(lake: Lake, periods: Periods, *, is_first: bool) -> Callable[[], Figures]:
    load = _timed(lake, periods, "published")

    def measure() -> Figures:
        # The ledger stays: loads make it once.
        lake.forget()
        if is_first:
            lake.ask_every_node("TRUNCATE TABLE IF EXISTS chs3_loads")
        return load()

    return measure


def _finding_unchanged(lake: Lake, periods: Periods) -> Callable[[], Figures]:
    find = _timed(lake, periods, "unchanged")

    def measure() -> Figures:
        # Variants come in another order in each round.
        lake.connect()
        lake.load(periods, _PERIOD)
        return find()

    return measure


def _timed(lake: Lake, periods: Periods, status: str) -> Callable[[], Figures]:
    def measure() -> Figures:
        lake.connect()
        before, start = os.times(), time.monotonic()
        result = lake.load(periods, _PERIOD)
        seconds, after = time.monotonic() - start, os.times()
        if result["status"] != status:
            raise RuntimeError(f"The period is {result['status']}, not {status}.")
        steps = {step: result["seconds_by_step"].get(step, 0.0) for step in _STEPS}
        cpu_seconds = after.user + after.system - before.user - before.system
        return {SECONDS: seconds, _WORKER: cpu_seconds, **steps, _OTHER: seconds - sum(steps.values())}

    return measure
