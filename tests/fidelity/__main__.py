"""A long run: `python -m tests.fidelity --cases 1000 --seed 1 --resume fidelity.jsonl`.

Makes random tables and files, loads them, and compares value by value with what pyarrow, csv and json read. A case that
fails runs again with `--seed S --case K`.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

from airflow_provider_chs3.testbed.nodes import PROGRAM_VARIABLE
from tests.support.long_run import SERVERS, narrow_lake, own_airflow


def main() -> int:
    """Run cases, and tell how they ended."""
    given = _arguments()
    with own_airflow("fidelity", **{PROGRAM_VARIABLE: SERVERS[given.on]}) as home:
        if given.report:
            from tests.fidelity.record import Record

            print(Record(given.resume).report())
            return 0
        return _run(given, home)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fidelity", description=__doc__)
    parser.add_argument("--cases", type=int, default=100, help="how many cases (100)")
    parser.add_argument("--seed", type=int, default=1, help="of all choices (1)")
    parser.add_argument("--case", type=int, help="run this case of the seed alone, and show all of it")
    parser.add_argument("--resume", type=Path, help="a file of results: cases that it has are left out, others added")
    parser.add_argument("--report", action="store_true", help="only tell what the file of results adds up to")
    parser.add_argument("--format", action="append", default=[], help="a format to try; may be repeated (all)")
    parser.add_argument("--nodes", type=int, default=1, help="nodes of the cluster (1)")
    parser.add_argument("--on", choices=("engine", "plain"), default="engine", help="26.9, or a 25.8 server (engine)")
    parser.add_argument("--stop-after", type=int, default=0, help="faults after which it stops (never)")
    given = parser.parse_args()
    if given.report and not given.resume:
        parser.error("--report needs --resume with the file of results")
    return given


def _run(given: argparse.Namespace, home: Path) -> int:
    from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
    from airflow_provider_chs3.testbed.s3 import S3Server
    from tests.fidelity.column_types import ZONES
    from tests.fidelity.formats import formats_read_by
    from tests.fidelity.long_run import LongRun
    from tests.fidelity.record import Record
    from tests.support.narrow_user import WITH_NARROW_USER

    known = formats_read_by(is_oldest=given.on != "engine")
    formats = tuple(name for name in known if not given.format or name in given.format)
    zones = tuple(random.Random(given.seed).choices(ZONES, k=given.nodes))
    with S3Server.start() as s3, ClickHouseCluster.start(len(zones), time_zones=zones, **WITH_NARROW_USER) as cluster:
        lake = narrow_lake("fidelity", cluster, s3)
        record = Record(given.resume or home / "results.jsonl")
        run = LongRun(lake, record, seed=given.seed, formats=formats, server_zones=zones)
        if given.case is not None:
            return run.show(given.case)
        return run.run(given.cases, stop_after=given.stop_after)


if __name__ == "__main__":
    sys.exit(main())
