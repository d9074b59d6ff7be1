"""A seeded random run: `python -m tests.faults --strikes 100 --seed 1 --resume docs/tested/faults`.

Loads versions of periods, strikes at random moments, and looks after each strike and one clean run whether all periods
hold exactly their objects' rows and nothing is left. With `--power` all strikes are power cuts. Each strike goes to a
file of the folder as a line of JSON; `--resume` goes on where that ends, as long as a load takes the same steps, and
`--report` tells what all of them add up to.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.long_run import SERVERS, narrow_cluster, narrow_lake, own_airflow

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
    from tests.faults.random_run import Round

#: Lines of each server's log that are shown where a run breaks off.
_LOG_LINES = 40


def main() -> int:
    """Strike, and tell how many strikes were survived."""
    given = _arguments()
    with own_airflow("faults", CHS3_CLICKHOUSE_PROGRAM=SERVERS[given.on]) as home:
        if given.report:
            from tests.faults.record import Record, table_of

            print(table_of(Record(given.resume).current()))
            return 0
        return _strike(given, home)


def _arguments() -> argparse.Namespace:
    from tests.support.power import missing

    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--strikes", type=int, default=20, help="how many strikes of all kinds (20)")
    parser.add_argument("--power", type=int, help="how many power cuts instead; needs root, who mounts file systems")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="of all choices (a random one)")
    parser.add_argument("--on", choices=SERVERS, default="engine", help="which servers (engine)")
    parser.add_argument("--nodes", type=int, default=2, help="how many of them (2)")
    parser.add_argument("--resume", type=Path, help="a folder of results: the run goes on where it ends")
    parser.add_argument("--report", action="store_true", help="only tell what the results add up to")
    given = parser.parse_args()
    if given.report and not given.resume:
        parser.error("--report needs --resume with the folder of results")
    if given.power and (why := missing()):
        parser.error(why)
    return given


def _strike(given: argparse.Namespace, home: Path) -> int:
    from airflow_provider_chs3.testbed.s3 import S3Server
    from tests.faults.random_run import RandomRun, report
    from tests.faults.record import Record
    from tests.support.power import Power, disks_of
    from tests.support.replicas import replicated

    record = Record(given.resume or home / "results")
    of = {"servers": f"{given.nodes} {given.on}", "kind": "power" if given.power else "all", "seed": given.seed}
    done = record.done(**of)
    strikes = max((given.power or given.strikes) - done, 0)
    print(f"seed {given.seed}, {of['servers']}: {done} strikes are done, {strikes} are left", flush=True)
    with ExitStack() as stack:
        # Where the nodes will live.
        disks = stack.enter_context(disks_of(given.nodes, home / "cluster")) if given.power else []
        cluster = stack.enter_context(narrow_cluster(given.on, given.nodes, home / "cluster"))
        lake = narrow_lake("faults", cluster, stack.enter_context(S3Server.start()))
        lake.create_table(**({"engine": replicated(lake)} if given.on == "replicated" else {}))
        power = Power(cluster, disks) if disks else None
        run = RandomRun(lake, cluster, folder=home, seed=given.seed, power=power)
        server = lake.on_node(0, "SELECT version()")[0][0]

        def recorded() -> Iterator[Round]:
            for each in islice(run.rounds(first=done), strikes):
                record.add(each, server=server, **of)
                yield each

        try:
            return report(recorded(), title=f"seed {given.seed}")
        except Exception:
            _tell_what_servers_said(cluster)
            raise


def _tell_what_servers_said(cluster: ClickHouseCluster) -> None:
    """Print the ends of the logs, which go with the cluster."""
    for node in cluster.nodes:
        for log in sorted(node.folder.glob("*.log")) if node.folder else ():
            print(f"--- {log}", *log.read_text("utf-8", "replace").splitlines()[-_LOG_LINES:], sep="\n", flush=True)


if __name__ == "__main__":
    sys.exit(main())
