"""A long run: `python -m tests.nights --nights 1000 --seed 1 --resume docs/tested/nights`.

Plays nights on tables of all engines and lengths of periods, and compares each table after each night with one into
which all rows of all files are inserted. Loads are killed, run twice at once, and lose their nodes; on replicated
servers a replica is away for some nights, and with `--power` the power of a node is cut. `--resume` goes on where the
results of the folder end, as long as a load takes the same steps; `--report` tells what all of them add up to.
`--door` leads all loads through one load balancer, whose connections are cut.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.long_run import SERVERS, narrow_cluster, narrow_lake, own_airflow

if TYPE_CHECKING:
    from tests.nights.engines import Engine
    from tests.nights.servers import Servers
    from tests.nights.spans import Span


def main() -> int:
    """Play nights, and tell how they ended."""
    given = _arguments()
    # Modules of the tests ask for the program when they are imported.
    with own_airflow("nights", CHS3_CLICKHOUSE_PROGRAM=SERVERS[given.on]) as home:
        if given.report:
            from tests.nights.record import Record, table_of

            print(table_of(Record(given.resume).current()))
            return 0
        return _run(given, home)


def _arguments() -> argparse.Namespace:
    from tests.support.power import missing

    parser = argparse.ArgumentParser(prog="python -m tests.nights", description=__doc__)
    parser.add_argument("--nights", type=int, default=100, help="how many nights, over all tables (100)")
    parser.add_argument("--each", type=int, default=15, help="nights of each table (15)")
    parser.add_argument("--seed", type=int, default=1, help="of all choices (1)")
    parser.add_argument("--on", choices=SERVERS, default="engine", help="which servers (engine)")
    parser.add_argument("--nodes", type=int, help="how many of them (1; 2 replicas)")
    parser.add_argument("--replicas", type=int, help="of each shard, where they are replicated (all nodes)")
    parser.add_argument("--door", action="store_true", help="all loads go through one load balancer")
    parser.add_argument("--engine", action="append", default=[], help="an engine; may be repeated (all)")
    parser.add_argument("--span", action="append", default=[], help="a length of periods; may be repeated (all)")
    parser.add_argument("--power", action="store_true", help="cut the power of nodes; needs root")
    parser.add_argument("--resume", type=Path, help="a folder of results: the run goes on where it ends")
    parser.add_argument("--report", action="store_true", help="only tell what the results add up to")
    given = parser.parse_args()
    if given.report and not given.resume:
        parser.error("--report needs --resume with the folder of results")
    if given.power and (why := missing()):
        parser.error(why)
    is_replicated = given.on.startswith("replicated")
    given.nodes = given.nodes or (2 if is_replicated else 1)
    given.replicas = (given.replicas or given.nodes) if is_replicated else 1
    return given


def _run(given: argparse.Namespace, home: Path) -> int:
    from tests.nights.engines import ENGINES
    from tests.nights.record import Record
    from tests.nights.spans import SPANS
    from tests.support.killing import import_hooks

    spans = [each for each in SPANS if not given.span or each.name in given.span]
    engines = [each for each in ENGINES if not given.engine or each.name in given.engine]
    record = Record(given.resume or home / "results")
    of = {"servers": _servers_told(given), "kind": "power" if given.power else "all", "run": given.seed}
    done = record.of(**of)
    played, wrong = sum(line["nights"] for line in done), sum(len(line["wrong"]) for line in done)
    print(f"seed {given.seed}, {of['servers']}: {played} of {given.nights} nights are played", flush=True)
    import_hooks()
    with _servers(given, home) as servers:
        version = servers.lake.on_node(0, "SELECT version()")[0][0]
        seed = given.seed * 1000 + len(done)
        while played < given.nights:
            # Each engine meets each span in turn, however many there are.
            engine, span = engines[seed % len(engines)], spans[(seed + seed // len(engines)) % len(spans)]
            most = min(given.each, given.nights - played)
            number, seen, found = _play(servers, engine, span, seed=seed, most=most, log=home / "worker.log")
            record.add(
                seen=seen,
                wrong=found,
                nights=number,
                server=version,
                engine=engine.name,
                span=span.name,
                seed=seed,
                **of,
            )
            played, wrong, seed = played + number, wrong + len(found), seed + 1
    print(f"seed {given.seed}, {of['servers']}, {of['kind']}: {played} nights, {wrong} different")
    return int(bool(wrong))


def _servers_told(given: argparse.Namespace) -> str:
    is_in_shards = 1 < given.replicas < given.nodes
    nodes = f"{given.nodes // given.replicas} x {given.replicas}" if is_in_shards else given.nodes
    return f"{nodes} {given.on}{' behind a load balancer' * given.door}"


def _play(
    servers: Servers, engine: Engine, span: Span, *, seed: int, most: int, log: Path
) -> tuple[int, Counter[str], list[str]]:
    from tests.nights.play import Nights

    nights = Nights(servers, engine, span, seed=seed, log=log)
    if servers.power:
        # The nodes' setup must be on their disks, whatever comes.
        os.sync()
    for _ in range(most):
        night = nights.play()
        print(f"{engine.name}, {span.name}, seed {seed}, {night}", flush=True)
        if night.wrong:
            return night.number, nights.seen, [f"night {night.number}: {night.wrong}"]
    nights.end()
    return most, nights.seen, []


@contextmanager
def _servers(given: argparse.Namespace, home: Path) -> Iterator[Servers]:
    from airflow_provider_chs3.testbed.balancer import LoadBalancer
    from airflow_provider_chs3.testbed.s3 import S3Server
    from tests.nights.servers import Servers
    from tests.support.power import Power, disks_of

    with ExitStack() as stack:
        disks = stack.enter_context(disks_of(given.nodes, home / "cluster")) if given.power else []
        s3 = stack.enter_context(S3Server.start())
        cluster = narrow_cluster(given.on, given.nodes, home / "cluster", replicas=given.replicas)
        stack.enter_context(cluster)
        door = stack.enter_context(LoadBalancer.start(cluster)) if given.door else None
        further = {"alt_hosts": f"127.0.0.1:{cluster.nodes[1].tcp_port}"} if given.replicas > 1 and not door else {}
        lake = narrow_lake("nights", cluster, s3, through=door, **further)
        power = Power(cluster, disks) if disks else None
        yield Servers(lake, cluster, replicas=given.replicas, power=power, door=door)


if __name__ == "__main__":
    sys.exit(main())
