"""A long run: `python -m tests.parsing --cases 5000 --seed 1`.

Writes files of each text format at random, with quotes, braces, escapes and line ends where they have a meaning and
where they have none. A server reads each with the settings of loads, in the smallest chunks that it takes, and a reader
of Python reads it too: the server must read the same rows, or refuse the file. `--on server` runs it on the oldest
supported version; `--first K` goes on with case K; each fault is a line.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from tests.support.long_run import own_airflow, parser_of_cases


def main() -> int:
    """Run cases, and tell how they ended."""
    parser = parser_of_cases("python -m tests.parsing", __doc__)
    parser.add_argument("--on", choices=("engine", "server"), default="engine", help="the program of the node (engine)")
    given = parser.parse_args()
    with own_airflow("parsing"):
        from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
        from airflow_provider_chs3.testbed.pytest_plugin import S3_NAMED_COLLECTION
        from airflow_provider_chs3.testbed.s3 import S3Server
        from tests.parsing.running import Bed

        with S3Server.start() as s3:
            s3.client().create_bucket(Bucket="parsing")
            collections = {S3_NAMED_COLLECTION: s3.named_collection()}
            with (
                ClickHouseCluster.start(1, program=given.on, named_collections=collections) as cluster,
                cluster.nodes[0].client() as client,
            ):
                return _run(Bed(client, s3.client(), "parsing"), given)


def _run(bed: object, given: argparse.Namespace) -> int:
    from tests.parsing.running import FAULTS, Bed, run

    assert isinstance(bed, Bed)
    outcomes, torn = Counter[tuple[str, str]](), Counter[str]()
    try:
        for number in range(given.first, given.cases):
            outcome = run(bed, given.seed, number)
            outcomes[outcome.file_format, outcome.kind] += 1
            torn[outcome.file_format] += outcome.is_torn
            if outcome.kind in FAULTS:
                print(f"case {number}: {outcome.file_format}: {outcome.kind}: {outcome.details[:600]}", flush=True)
    finally:
        print(f"{outcomes.total()} cases of seed {given.seed}, from {given.first} on", flush=True)
        print(*(f"  {count:6} {' '.join(key)}" for key, count in sorted(outcomes.items())), sep="\n", flush=True)
        print(
            *(f"  {count:6} {name} would be torn in chunks" for name, count in torn.items()),
            sep="\n",
        )
    return 1 if any(kind in FAULTS for _, kind in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
