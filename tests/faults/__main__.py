"""A seeded random run: `python -m tests.faults --minutes 5 --seed 1`.

Loads versions of months, strikes at random moments, and looks after each strike and one clean run whether all months
hold exactly their objects' rows and nothing is left.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from itertools import chain, takewhile
from pathlib import Path
from types import FrameType


def main() -> int:
    """Strike until the time is over, and tell how many strikes were survived.

    Returns:
        The exit code: 1 where anything was not as it must be.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5, help="how long to strike (5)")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="of all choices (a random one)")
    given = parser.parse_args()
    # Ends `with` blocks as Ctrl-C does, so that servers and folders are gone.
    signal.signal(signal.SIGTERM, _interrupt)
    with tempfile.TemporaryDirectory(prefix="chs3-faults-") as home:
        # Before anything imports Airflow: no other Airflow's settings.
        for name in [name for name in os.environ if name.startswith(("AIRFLOW__", "AIRFLOW_CONN_", "AIRFLOW_VAR_"))]:
            del os.environ[name]
        os.environ["AIRFLOW_HOME"] = home
        return _strike(Path(home), minutes=given.minutes, seed=given.seed)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _strike(home: Path, *, minutes: float, seed: int) -> int:
    from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
    from airflow_provider_chs3.testbed.s3 import S3Server
    from tests.faults.random_run import RandomRun, report
    from tests.integration.lake import Lake
    from tests.narrow_user import WITH_NARROW_USER, narrow_connection

    print(f"seed {seed}, {minutes:g} minutes", flush=True)
    with S3Server.start() as s3, ClickHouseCluster.start(**WITH_NARROW_USER) as cluster:
        os.environ["AIRFLOW_CONN_CHS3_DEFAULT"] = json.dumps(narrow_connection(cluster))
        os.environ["AIRFLOW_CONN_AWS_DEFAULT"] = json.dumps(s3.airflow_connection())
        s3.client().create_bucket(Bucket="faults")
        lake = Lake(cluster, s3.client(), "faults", "test_faults")
        lake.on_every_node("CREATE DATABASE test_faults")
        lake.create_table()
        deadline = time.monotonic() + 60 * minutes
        rounds = RandomRun(lake, cluster, folder=home, seed=seed).rounds()
        # At least one round, whatever the time.
        return report(
            chain([next(rounds)], takewhile(lambda _: time.monotonic() < deadline, rounds)), title=f"seed {seed}"
        )


if __name__ == "__main__":
    sys.exit(main())
