"""A long run: `python -m tests.nights --nights 1000 --seed 1`.

Plays nights on tables of all engines, and compares each table with one that was loaded whole.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
from contextlib import ExitStack
from types import FrameType
from typing import Any


def main() -> int:
    """Play nights, and tell how they ended.

    Returns:
        The exit code: 1 where a table differs.
    """
    given = _arguments()
    # Ends `with` blocks as Ctrl-C does, so that servers and folders are gone.
    signal.signal(signal.SIGTERM, _interrupt)
    with tempfile.TemporaryDirectory(prefix="chs3-nights-") as home:
        # Before anything imports Airflow: no other Airflow's settings, and no line for each step of each load.
        for name in [name for name in os.environ if name.startswith(("AIRFLOW__", "AIRFLOW_CONN_", "AIRFLOW_VAR_"))]:
            del os.environ[name]
        os.environ.update(AIRFLOW_HOME=home, AIRFLOW__LOGGING__LOGGING_LEVEL="ERROR")
        if given.server:
            # Modules of the tests ask for it when they are imported.
            os.environ["CHS3_CLICKHOUSE_PROGRAM"] = "server"
        return _run(given)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.nights", description=__doc__)
    parser.add_argument("--nights", type=int, default=100, help="how many nights, over all tables (100)")
    parser.add_argument("--each", type=int, default=30, help="nights of each table (30)")
    parser.add_argument("--seed", type=int, default=1, help="of all choices (1)")
    parser.add_argument("--nodes", type=int, default=1, help="nodes of the cluster (1)")
    parser.add_argument("--engine", action="append", default=[], help="an engine; may be repeated (all)")
    parser.add_argument("--server", action="store_true", help="real servers instead of the embedded engine")
    return parser.parse_args()


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _run(given: argparse.Namespace) -> int:
    from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
    from airflow_provider_chs3.testbed.s3 import S3Server
    from tests.integration.lake import Lake
    from tests.narrow_user import WITH_NARROW_USER, narrow_connection
    from tests.nights.engines import ENGINES
    from tests.nights.play import Nights

    engines = [each for each in ENGINES if not given.engine or each.name in given.engine]
    with ExitStack() as stack:
        s3 = stack.enter_context(S3Server.start())
        options: dict[str, Any] = WITH_NARROW_USER
        cluster = stack.enter_context(ClickHouseCluster.start(given.nodes, **options))
        os.environ["AIRFLOW_CONN_CHS3_DEFAULT"] = json.dumps(narrow_connection(cluster))
        os.environ["AIRFLOW_CONN_AWS_DEFAULT"] = json.dumps(s3.airflow_connection())
        s3.client().create_bucket(Bucket="nights")
        lake = Lake(cluster, s3.client(), "nights", "test_nights")
        lake.on_every_node(f"CREATE DATABASE {lake.database}")
        played = wrong = 0
        seed = given.seed * 1000
        while played < given.nights:
            engine = engines[seed % len(engines)]
            nights = Nights(lake, engine, seed=seed, restart=lambda: cluster.restart(0))
            for _ in range(min(given.each, given.nights - played)):
                night = nights.play()
                played += 1
                wrong += bool(night.wrong)
                print(f"{engine.name}, seed {seed}, {night}", flush=True)
                if night.wrong:
                    break
            print(f"{engine.name}, seed {seed}: {dict(nights.seen)}; {played} nights, {wrong} different", flush=True)
            seed += 1
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
