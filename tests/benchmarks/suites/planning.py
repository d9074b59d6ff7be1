"""Which of two hundred periods are to be loaded: none, and how long it takes to find that out of their objects."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from urllib.parse import urlsplit

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from tests.benchmarks.forked import Forked, Taken
from tests.benchmarks.lake import BUCKET
from tests.benchmarks.planner import Plan, plan
from tests.benchmarks.published import TABLE, Objects, create_table, publish
from tests.benchmarks.rounds import Table, Verdict
from tests.benchmarks.servers import BenchS3
from tests.benchmarks.suite import TrialContext

TITLE = "Planning"

_PERIODS = [f"{2010 + number // 12}-{number % 12 + 1:02}" for number in range(200)]
#: Objects → how often a plan over them is measured.
_SIZES = {10_000: 5, 100_000: 3, 1_000_000: 1}
_MOST_IN_QUICK = 100_000
#: Those that are not files are put one by one.
_MOST_BY_REQUESTS = 1_000
_GATE_OBJECTS, _GATE_SECONDS = 100_000, 10.0
#: A page of a listing, and what Python does not give back, are no growth.
_FLAT_MIB = 16.0
_IS_OF_PLAN = "type = 'QueryFinish' AND is_initial_query AND user = 'loader'"


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Plans over so many objects.

    Args:
        taken: By each.
        queries: That the last one sent to ClickHouse.
        lookups: Those among them that read the ledger.
    """

    taken: list[Taken]
    queries: int
    lookups: int

    @property
    def seconds(self) -> float:
        """The median."""
        return median(each.seconds for each in self.taken)

    @property
    def memory_mib(self) -> float:
        """The median."""
        return median(each.memory_mib for each in self.taken)

    def row(self, objects: int) -> dict[str, str | float]:
        """All figures."""
        seconds = [each.seconds for each in self.taken]
        return {
            "objects": f"{objects:,}",
            "seconds": self.seconds,
            "lowest–highest": f"{min(seconds):.2f}–{max(seconds):.2f}",
            "worker's CPU seconds": median(each.cpu_seconds for each in self.taken),
            "worker's MiB above Airflow's": self.memory_mib,
            "requests to S3": self.taken[-1].result.requests,
            "queries to ClickHouse": self.queries,
            "of these for periods": self.lookups,
        }


def run(bench: TrialContext) -> Iterator[Table]:
    """Plan over more and more objects, all of them published, three nodes.

    Args:
        bench: What suites are given.
    """
    with bench.s3() as s3, ClickHouseCluster.start(3) as cluster:
        s3.endpoint.client().create_bucket(Bucket=BUCKET)
        create_table(cluster, _PERIODS)
        measured = {}
        for size, rounds in _sizes(bench, s3).items():
            bench.say(f"Plan over {size:,} objects")
            objects = Objects(bucket=BUCKET, prefix=f"planning-{size}", periods=_PERIODS, count=size)
            objects.put(s3)
            publish(cluster, objects)
            measured[size] = _measure(cluster, s3, objects, rounds=rounds)
    yield Table(
        title=f"A plan over {len(_PERIODS)} unchanged periods; a table on three nodes, {s3.described}",
        rows=[each.row(size) for size, each in measured.items()],
        verdicts=list(_verdicts(measured)),
    )


def _sizes(bench: TrialContext, s3: BenchS3) -> dict[int, int]:
    scaled = {bench.sized(full=size, quick=size): often for size, often in _SIZES.items()}
    sizes = {max(1, size // len(_PERIODS)) * len(_PERIODS): often for size, often in scaled.items()}
    if s3.folder is None:
        bench.say(
            f"Skipped: more than {_MOST_BY_REQUESTS:,} objects, as {s3.described.partition(',')[0]} is not a folder."
        )
        return {size: 1 for size in sizes if size <= _MOST_BY_REQUESTS} or {_MOST_BY_REQUESTS: 1}
    if bench.is_quick:
        return {size: 1 for size in sizes if size <= _MOST_IN_QUICK}
    return sizes


def _measure(cluster: ClickHouseCluster, s3: BenchS3, objects: Objects, *, rounds: int) -> Measured:
    connections = {
        "AIRFLOW_CONN_CHS3_DEFAULT": json.dumps(cluster.airflow_connection()),
        "AIRFLOW_CONN_AWS_DEFAULT": json.dumps(s3.endpoint.airflow_connection()),
    }
    given = Plan(bucket=BUCKET, key=objects.key, table=TABLE, s3_port=urlsplit(s3.endpoint.endpoint_url).port or 80)
    taken = [Forked(plan, given, connections).taken() for _ in range(rounds)]
    planned = taken[-1].result
    if planned.periods:
        raise RuntimeError(f"{planned.periods} periods are to be loaded, and all are as published.")
    between = f"{_IS_OF_PLAN} AND toFloat64(event_time_microseconds) BETWEEN {planned.began_at} AND {planned.ended_at}"
    return Measured(
        taken=taken,
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
    if gated := measured.get(_GATE_OBJECTS):
        yield Verdict(
            claim=f"{_GATE_OBJECTS:,} objects in {_GATE_SECONDS:g} seconds",
            found=f"{gated.seconds:.2f}",
            is_met=gated.seconds <= _GATE_SECONDS,
        )
    memory_mib = [each.memory_mib for each in measured.values()]
    grown = memory_mib[-1] - memory_mib[0]
    yield Verdict(
        claim=f"memory is flat: the most objects take at most {_FLAT_MIB:g} MiB more than the fewest",
        found=f"{grown:.1f} MiB",
        is_met=grown <= _FLAT_MIB,
    )
    lookups = {each.lookups for each in measured.values()}
    yield Verdict(
        claim="unchanged periods are found with one query to ClickHouse, however many",
        found=", ".join(map(str, sorted(lookups))),
        is_met=lookups == {1},
    )
