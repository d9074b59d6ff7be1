"""A long run: `python -m tests.damage --cases 5000 --seed 1`.

Cuts, flips, extends, joins and blanks files of every format and codec at random, as common writers make them, and
loads each, by itself or with one or two whole files. A load must be refused, or publish the rows that another reader
finds: pyarrow, Python's csv and json, the codec's own library. Files that nothing happened to must load. `--first K`
goes on with case K; each fault is a line.
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
    parser = parser_of_cases("python -m tests.damage", __doc__)
    given = parser.parse_args()
    with own_airflow("damage"):
        from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
        from airflow_provider_chs3.testbed.pytest_plugin import S3_NAMED_COLLECTION
        from airflow_provider_chs3.testbed.s3 import S3Server
        from tests.support.narrow_user import WITH_NARROW_USER

        with S3Server.start() as s3:
            collections = {S3_NAMED_COLLECTION: s3.named_collection()}
            with ClickHouseCluster.start(1, named_collections=collections, **WITH_NARROW_USER) as cluster:
                return _run(narrow_lake("damage", cluster, s3), given)


def _run(lake: Lake, given: argparse.Namespace) -> int:
    from tests.damage.running import FAULTS, run

    def kind_of(number: int) -> str:
        outcome = run(lake, given.seed, number)
        if outcome.kind in FAULTS:
            print(f"case {number}: {outcome.case}: {outcome.kind}: {outcome.details[:400]}", flush=True)
        return outcome.kind

    outcomes = told(given, kind_of)
    return 1 if any(outcomes[kind] for kind in FAULTS) else 0


if __name__ == "__main__":
    sys.exit(main())
