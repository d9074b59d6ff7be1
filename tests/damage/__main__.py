"""A long run: `python -m tests.damage --cases 5000 --seed 1`.

Cuts, flips, extends, joins and blanks files of every format and codec at random, as common writers make them, and
loads each, by itself or with one or two whole files. A load must be refused, or publish the rows that another reader
finds: pyarrow, Python's csv and json, the codec's own library. Files that nothing happened to must load. `--first K`
goes on with case K; each fault is a line.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.integration.lake import Lake


def main() -> int:
    """Run cases, and tell how they ended.

    Returns:
        The exit code: 1 where anything was not as it must be.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.damage", description=__doc__)
    parser.add_argument("--cases", type=int, default=100, help="how many cases (100)")
    parser.add_argument("--seed", type=int, default=1, help="of all choices (1)")
    parser.add_argument("--first", type=int, default=0, help="the first case to run (0)")
    given = parser.parse_args()
    # Ends `with` blocks as Ctrl-C does, so that servers and folders are gone.
    signal.signal(signal.SIGTERM, _interrupt)
    with tempfile.TemporaryDirectory(prefix="chs3-damage-") as home, ExitStack() as stack:
        # Before anything imports Airflow: no other Airflow's settings, and no line for each step of each load.
        for name in [name for name in os.environ if name.startswith(("AIRFLOW__", "AIRFLOW_CONN_", "AIRFLOW_VAR_"))]:
            del os.environ[name]
        os.environ.update(AIRFLOW_HOME=home, AIRFLOW__LOGGING__LOGGING_LEVEL="ERROR")
        return _run(_lake(stack), given)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _run(lake: Lake, given: argparse.Namespace) -> int:
    from tests.damage.running import FAULTS, run

    outcomes: Counter[str] = Counter()
    try:
        for number in range(given.first, given.cases):
            outcome = run(lake, given.seed, number)
            outcomes[outcome.kind] += 1
            if outcome.kind in FAULTS:
                print(f"case {number}: {outcome.case}: {outcome.kind}: {outcome.details[:400]}", flush=True)
    finally:
        print(f"{outcomes.total()} cases of seed {given.seed}, from {given.first} on", flush=True)
        print(*(f"  {count:6} {kind}" for kind, count in outcomes.most_common()), sep="\n", flush=True)
    return 1 if any(outcomes[kind] for kind in FAULTS) else 0


def _lake(stack: ExitStack) -> Lake:
    from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
    from airflow_provider_chs3.testbed.pytest_plugin import S3_NAMED_COLLECTION
    from airflow_provider_chs3.testbed.s3 import S3Server
    from tests.integration.lake import Lake
    from tests.narrow_user import WITH_NARROW_USER, narrow_connection

    s3 = stack.enter_context(S3Server.start())
    collections = {S3_NAMED_COLLECTION: s3.named_collection()}
    cluster = stack.enter_context(ClickHouseCluster.start(1, named_collections=collections, **WITH_NARROW_USER))
    os.environ["AIRFLOW_CONN_CHS3_DEFAULT"] = json.dumps(narrow_connection(cluster))
    os.environ["AIRFLOW_CONN_AWS_DEFAULT"] = json.dumps(s3.airflow_connection())
    s3.client().create_bucket(Bucket="damage")
    lake = Lake(cluster, s3.client(), "damage", "test_damage")
    lake.on_every_node(f"CREATE DATABASE {lake.database}")
    return lake


if __name__ == "__main__":
    sys.exit(main())
