"""Which of two hundred periods are to be loaded: none, and how long it takes to find that out of their objects."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from urllib.parse import urlsplit

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from tests.benchmarks.forked import Forked, Taken
from tests.benchmarks.lake import months
from tests.benchmarks.made_up import MadeUp, made_up_server
from tests.benchmarks.planner import Plan, plan
from tests.benchmarks.published import TABLE, create_table, publish
from tests.benchmarks.rounds import Table, Verdict
from tests.benchmarks.suite import TrialContext

TITLE = "Planning"

_PERIODS = months(2010, 200)
#: Objects → how often a plan over them is measured.
_SIZES = {10_000: 5, 100_000: 3, 1_000_000: 1}
_NODES = 3
_MOST_IN_QUICK = 100_000
_BUCKET = "made-up"
_GATE_SECONDS = {100_000: 10.0}
#: Below that, imports and queries count for more than objects.
_GATE_CPU_US = {1_000_000: 20.0}
#: A page of a listing, and what Python does not give back, are no growth.
_FLAT_MIB = 16.0
_IS_OF_PLAN = "type = 'QueryFinish' AND is_initial_query AND user = 'loader'"


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Plans over so many objects."""

    objects: MadeUp
    taken: list[Taken]
    server_cpu_seconds: float
    queries: int
    lookups: int

    @property
    def seconds(self) -> float:
        """The median."""
        return median(each.seconds for each in self.taken)

    @property
    def cpu_seconds(self) -> float:
        """The median, of the worker."""
        return median(each.cpu_seconds for each in self.taken)

    @property
    def cpu_us(self) -> float:
        """The same for each object."""
        return self.cpu_seconds / self.objects.count * 1e6

    @property
    def memory_mib(self) -> float:
        """The median."""
        return median(each.memory_mib for each in self.taken)

    def row(self) -> dict[str, str | float]:
        """All figures."""
        seconds = [each.seconds for each in self.taken]
        return {
            "objects": f"{self.objects.count:,}",
            "seconds": self.seconds,
            "lowest–highest": f"{min(seconds):.2f}–{max(seconds):.2f}",
            "worker's CPU seconds": self.cpu_seconds,
            "worker's CPU µs an object": f"{self.cpu_us:.1f}",
            "worker's MiB above Airflow's": self.memory_mib,
            "requests to S3": self.taken[-1].result.requests,
            "queries to ClickHouse": self.queries,
            "of these for periods": self.lookups,
            "S3 server's CPU seconds": self.server_cpu_seconds,
        }


def run(bench: TrialContext) -> Iterator[Table]:
    """Plan over more and more objects, all of them published, three nodes."""
    measured = {}
    with ClickHouseCluster.start(_NODES) as cluster:
        create_table(cluster, _PERIODS)
        for full, rounds in _SIZES.items():
            if bench.is_quick and full > _MOST_IN_QUICK:
                continue
            objects = MadeUp(periods=_PERIODS, of_each=max(1, bench.sized(full=full, quick=full) // len(_PERIODS)))
            bench.say(f"Plan over {objects.count:,} objects")
            publish(cluster, objects, _BUCKET)
            measured[objects.count] = _measure(cluster, objects, rounds=1 if bench.is_quick else rounds)
    yield Table(
        title=f"A plan over {len(_PERIODS)} unchanged periods; {_NODES} nodes, an S3 server that makes up its objects",
        rows=[each.row() for each in measured.values()],
        verdicts=list(_verdicts(measured)),
    )


def _measure(cluster: ClickHouseCluster, objects: MadeUp, *, rounds: int) -> Measured:
    with made_up_server(objects) as server:
        connections = {
            "AIRFLOW_CONN_CHS3_DEFAULT": json.dumps(cluster.airflow_connection()),
            "AIRFLOW_CONN_AWS_DEFAULT": json.dumps(server.endpoint.airflow_connection()),
        }
        port = urlsplit(server.endpoint.endpoint_url).port or 80
        given, before = Plan(bucket=_BUCKET, key=objects.key, table=TABLE, s3_port=port), server.cpu_seconds()
        taken = [Forked(plan, given, connections).taken() for _ in range(rounds)]
        server_cpu_seconds = (server.cpu_seconds() - before) / rounds
    planned = taken[-1].result
    if planned.periods:
        raise RuntimeError(f"{planned.periods} periods are to be loaded, and all are as published.")
    between = f"{_IS_OF_PLAN} AND toFloat64(event_time_microseconds) BETWEEN {planned.began_at} AND {planned.ended_at}"
    return Measured(
        objects=objects,
        taken=taken,
        server_cpu_seconds=server_cpu_seconds,
        queries=_count(cluster, between),
        lookups=_count(cluster, f"{between} AND has(tables, 'default.chs3_ledger')"),
    )


def _count(cluster: ClickHouseCluster, condition: str) -> int:
    """Queries to all nodes."""
    queries = 0
    for node in cluster.nodes:
        with node.client() as client:
            client.execute("SYSTEM FLUSH LOGS")
            queries += client.execute(f"SELECT count() FROM system.query_log WHERE {condition}")[0][0]
    return queries


def _verdicts(measured: Mapping[int, Measured]) -> Iterator[Verdict]:
    for objects, each in measured.items():
        if most := _GATE_SECONDS.get(objects):
            claim, found, is_met = f"in {most:g} seconds", f"{each.seconds:.2f}", each.seconds <= most
            yield Verdict(claim=f"{objects:,} objects {claim}", found=found, is_met=is_met)
        if most := _GATE_CPU_US.get(objects):
            claim, found, is_met = (
                f"the worker's CPU µs an object: at most {most:g}",
                f"{each.cpu_us:.1f}",
                each.cpu_us <= most,
            )
            yield Verdict(claim=f"{objects:,} objects, {claim}", found=found, is_met=is_met)
    memory_mib = [each.memory_mib for each in measured.values()]
    grown = memory_mib[-1] - memory_mib[0]
    yield Verdict(
        claim=f"memory is flat: the most objects take at most {_FLAT_MIB:g} MiB more than the fewest",
        found=f"{grown:.1f} MiB",
        is_met=grown <= _FLAT_MIB,
    )
    lookups = {each.lookups for each in measured.values()}
    yield Verdict(
        claim="unchanged periods are found with one query to each node, however many",
        found=", ".join(map(str, sorted(lookups))),
        is_met=lookups == {_NODES},
    )
