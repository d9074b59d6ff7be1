"""`./dev bench`: ratios, measured side by side in one run on this machine."""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.s3 import S3Endpoint
    from tests.benchmarks.lake import Months
    from tests.benchmarks.rounds import Comparison
    from tests.benchmarks.waiting import Waited

_MONTHS = 6
_FILES = 12
_TRIGGERS = [10, 100, 1000]


def main() -> int:
    """Run the comparisons, print them, and write them as JSON if asked to.

    Returns:
        The exit code.
    """
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few minutes: smaller months, fewer rounds")
    parser.add_argument("--rows", type=int, help="rows of the large month (60,000,000; quick: 20,000,000)")
    parser.add_argument("--rounds", type=int, help="how often each variant is measured (7; quick: 3)")
    parser.add_argument("--s3", choices=["versitygw", "moto"], help="S3 server (versitygw where it is, or Go is)")
    parser.add_argument(
        "--triggers", type=int, nargs="*", help="instead: so many sensors in one triggerer (10 100 1000)"
    )
    parser.add_argument("--seconds", type=float, default=60, help="how long to measure each number of sensors (60)")
    parser.add_argument("--json", type=Path, help="file for all figures")
    given = parser.parse_args()
    rows = given.rows or (20_000_000 if given.quick else 60_000_000)
    rounds = given.rounds or (3 if given.quick else 7)
    # Ends `with` blocks as Ctrl-C does, so that servers and folders are gone.
    signal.signal(signal.SIGTERM, _interrupt)
    console = Console(highlight=False, width=None if os.isatty(1) else 140)
    with tempfile.TemporaryDirectory(prefix="chs3-bench-airflow-") as home:
        _use_airflow_home(home)
        if given.triggers is not None:
            return _bench_triggers(console, given.triggers or _TRIGGERS, seconds=given.seconds, json_file=given.json)
        return _bench(console, rows=rows, rounds=rounds, s3_name=given.s3, json_file=given.json)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _use_airflow_home(home: str) -> None:
    """Before anything imports Airflow: no other Airflow's settings, and no log lines between the figures."""
    for name in [name for name in os.environ if name.startswith(("AIRFLOW__", "AIRFLOW_CONN_", "AIRFLOW_VAR_"))]:
        del os.environ[name]
    os.environ.update(AIRFLOW_HOME=home, AIRFLOW__LOGGING__LOGGING_LEVEL="ERROR")


def _bench(console: Console, *, rows: int, rounds: int, s3_name: str | None, json_file: Path | None) -> int:
    from tests.benchmarks.lake import BUCKET, Months
    from tests.benchmarks.servers import s3_server

    large = Months(prefix="large", names=["2026-01"], rows=rows, files=_FILES)
    names = [f"2026-{month:02}" for month in range(1, _MONTHS + 1)]
    several = Months(prefix="several", names=names, rows=rows // 6, files=_FILES)
    scaling = Months(prefix="scaling", names=["2026-01"], rows=rows // 3, files=_FILES)
    with s3_server(s3_name) as (s3, described):
        console.print(f"{os.cpu_count()} cores, {platform.machine()}; S3: {described}; uploading months of trips")
        s3.client().create_bucket(Bucket=BUCKET)
        for months in (large, several, scaling):
            months.upload(s3)
        done = list(_comparisons(console, s3, rounds=rounds, large=large, several=several, scaling=scaling))
    for comparison in done:
        console.print()
        comparison.print(console)
    _write(json_file, done)
    return 0


def _bench_triggers(console: Console, triggers: list[int], *, seconds: float, json_file: Path | None) -> int:
    from tests.benchmarks.waiting import bench

    _write(json_file, bench(console, triggers=triggers, seconds=seconds))
    return 0


def _write(json_file: Path | None, measured: Sequence[Comparison | Waited]) -> None:
    if json_file:
        json_file.write_text(json.dumps([each.as_json() for each in measured], indent=2) + "\n", encoding="utf-8")


def _comparisons(
    console: Console, s3: S3Endpoint, *, rounds: int, large: Months, several: Months, scaling: Months
) -> Iterator[Comparison]:
    from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
    from tests.benchmarks import comparisons
    from tests.benchmarks.lake import Lake
    from tests.benchmarks.servers import can_limit_cores, limited_to

    with ClickHouseCluster.start(1) as one:
        bench = comparisons.Bench(lake=Lake(one, s3, "bench_one"), rounds=rounds, console=console)
        yield from comparisons.one_month(bench, large)
        yield from comparisons.side_by_side(bench, several)
        if not can_limit_cores():
            console.print("Left out: three nodes to one, as it takes root and cgroups of version 1.")
            return
        with ClickHouseCluster.start(3) as three, limited_to(0.5, one), limited_to(0.5, three):
            yield from comparisons.three_nodes_to_one(bench, Lake(three, s3, "bench_three"), scaling)


if __name__ == "__main__":
    raise SystemExit(main())
