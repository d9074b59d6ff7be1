"""A long run: `python -m tests.fidelity --cases 1000 --seed 1 --resume fidelity.jsonl`.

Makes random tables and files, loads them, and compares value by value with what pyarrow, csv and json read. A case that
fails runs again with `--seed S --case K`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.integration.lake import Lake


def main() -> int:
    """Run cases, and tell how they ended.

    Returns:
        The exit code: 1 where anything was not as it must be.
    """
    given = _arguments()
    # Ends `with` blocks as Ctrl-C does, so that servers and folders are gone.
    signal.signal(signal.SIGTERM, _interrupt)
    with tempfile.TemporaryDirectory(prefix="chs3-fidelity-") as home:
        # Before anything imports Airflow: no other Airflow's settings, and no line for each step of each load.
        for name in [name for name in os.environ if name.startswith(("AIRFLOW__", "AIRFLOW_CONN_", "AIRFLOW_VAR_"))]:
            del os.environ[name]
        os.environ.update(AIRFLOW_HOME=home, AIRFLOW__LOGGING__LOGGING_LEVEL="ERROR")
        if given.report:
            from tests.fidelity.record import Record

            print(Record(given.resume).report())
            return 0
        return _run(given, Path(home))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fidelity", description=__doc__)
    parser.add_argument("--cases", type=int, default=100, help="how many cases (100)")
    parser.add_argument("--seed", type=int, default=1, help="of all choices (1)")
    parser.add_argument("--case", type=int, help="run this case of the seed alone, and show all of it")
    parser.add_argument("--resume", type=Path, help="a file of results: cases that it has are left out, others added")
    parser.add_argument("--report", action="store_true", help="only tell what the file of results adds up to")
    parser.add_argument("--format", action="append", default=[], help="a format to try; may be repeated (all)")
    parser.add_argument("--nodes", type=int, default=1, help="nodes of the cluster (1)")
    parser.add_argument("--stop-after", type=int, default=0, help="faults after which it stops (never)")
    given = parser.parse_args()
    if given.report and not given.resume:
        parser.error("--report needs --resume with the file of results")
    return given


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _run(given: argparse.Namespace, home: Path) -> int:
    from tests.fidelity.column_types import ZONES
    from tests.fidelity.formats import FORMATS
    from tests.fidelity.long_run import LongRun
    from tests.fidelity.record import Record

    formats = tuple(name for name in FORMATS if not given.format or name in given.format)
    with ExitStack() as stack:
        zones = tuple(random.Random(given.seed).choices(ZONES, k=given.nodes))
        lake = _lake(stack, zones=zones)
        record = Record(given.resume or home / "results.jsonl")
        run = LongRun(lake, record, seed=given.seed, formats=formats, server_zones=zones)
        if given.case is not None:
            return run.show(given.case)
        return run.run(given.cases, stop_after=given.stop_after)


def _lake(stack: ExitStack, *, zones: Sequence[str]) -> Lake:
    from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
    from airflow_provider_chs3.testbed.s3 import S3Server
    from tests.integration.lake import Lake
    from tests.narrow_user import WITH_NARROW_USER, narrow_connection

    s3 = stack.enter_context(S3Server.start())
    options: dict[str, Any] = WITH_NARROW_USER
    cluster = stack.enter_context(ClickHouseCluster.start(len(zones), time_zones=zones, **options))
    os.environ["AIRFLOW_CONN_CHS3_DEFAULT"] = json.dumps(narrow_connection(cluster))
    os.environ["AIRFLOW_CONN_AWS_DEFAULT"] = json.dumps(s3.airflow_connection())
    s3.client().create_bucket(Bucket="fidelity")
    lake = Lake(cluster, s3.client(), "fidelity", "test_fidelity")
    lake.on_every_node(f"CREATE DATABASE {lake.database}")
    return lake


if __name__ == "__main__":
    sys.exit(main())
