"""A long run: `python -m tests.selected --cases 500 --seed 1`.

Loads random tables and files of every format twice: without `select`, and with `select={c: c}` for each column. Both
must publish the same rows, or one must refuse. `--on server` runs it on the oldest supported version; `--first K` goes
on with case K; each difference is a line, and `--refused` shows what only one of both refused.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from tests.support.long_run import narrow_lake, own_airflow, parser_of_cases, told

if TYPE_CHECKING:
    from tests.support.lake import Lake


def main() -> int:
    """Run cases, and tell how they ended."""
    parser = parser_of_cases("python -m tests.selected", __doc__)
    parser.add_argument("--on", choices=("engine", "server"), default="engine", help="the program of the node (engine)")
    parser.add_argument("--refused", action="store_true", help="show what one of both refused, too")
    given = parser.parse_args()
    with own_airflow("selected"):
        from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
        from airflow_provider_chs3.testbed.s3 import S3Server
        from tests.support.narrow_user import WITH_NARROW_USER

        with S3Server.start() as s3, ClickHouseCluster.start(1, program=given.on, **WITH_NARROW_USER) as cluster:
            return _run(narrow_lake("selected", cluster, s3), given)


def _run(lake: Lake, given: argparse.Namespace) -> int:
    from tests.selected.running import DIFFERENT, OF_EITHER, run

    def kind_of(number: int) -> str:
        outcome = run(lake, given.seed, number, is_oldest=given.on == "server")
        if outcome.kind == DIFFERENT or (given.refused and outcome.kind == OF_EITHER):
            print(f"case {number}: {outcome.kind}: {outcome.case[:600]}: {outcome.details[:900]}", flush=True)
        return outcome.kind

    return 1 if told(given, kind_of)[DIFFERENT] else 0


if __name__ == "__main__":
    sys.exit(main())
