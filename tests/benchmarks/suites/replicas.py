"""The fixed cost of a load on two shards of two replicas: all of them up, and one of each down."""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.programs import keeper
from airflow_provider_chs3.testbed.trips import create_table_sql
from tests.benchmarks.lake import BUCKET, TABLE, Lake, Periods
from tests.benchmarks.rounds import Table, Verdict
from tests.benchmarks.suite import TrialContext

TITLE = "Replicas"
#: Four servers, and a ZooKeeper of Debian's.
IN_QUICK = False

_MOST_SECONDS = 2.0
_TIMEOUT_SECONDS = 60
_ENGINE = f"ReplicatedMergeTree('/tables/{{shard}}/{TABLE}', '{{replica}}')"


def run(bench: TrialContext) -> Iterator[Table]:
    """Replace one small period by another and back."""
    if why := keeper.missing():
        bench.say(why)
        return
    versions = [Periods(prefix=prefix, names=["2026-01"], rows=5_000, files=8) for prefix in ("one", "other")]
    with bench.s3() as s3, ClickHouseCluster.start(4, replicas=2, program="server") as cluster:
        s3.endpoint.client().create_bucket(Bucket=BUCKET)
        for periods in versions:
            periods.upload(s3.endpoint)
        lake = Lake(cluster, s3.endpoint, "bench_replicas")
        lake.ask_every_node(create_table_sql(f"default.{TABLE}", engine=_ENGINE))
        measured = {"all up": _seconds(bench, lake, versions)}
        for node in (1, 3):
            cluster.kill(node)
        _wait_until_gone(lake)
        measured["one replica of each shard down"] = _seconds(bench, lake, versions)
    rows = [
        {
            "": name,
            "seconds, median": median(seconds),
            "lowest, seconds": min(seconds),
            "highest, seconds": max(seconds),
        }
        for name, seconds in measured.items()
    ]
    verdicts = [
        Verdict(
            claim=f"a load of 5,000 rows, {name}: at most {_MOST_SECONDS:g} seconds",
            found=f"{median(seconds):.2f}",
            is_met=median(seconds) <= _MOST_SECONDS,
        )
        for name, seconds in measured.items()
    ]
    yield Table(title="A load of 5,000 rows, two shards of two replicas", rows=rows, verdicts=verdicts)


def _seconds(bench: TrialContext, lake: Lake, versions: list[Periods]) -> list[float]:
    """Return the seconds of each load but the first two."""
    seconds = []
    for number in range(bench.rounds + 2):
        began = time.monotonic()
        lake.load(versions[number % 2], "2026-01")
        seconds.append(time.monotonic() - began)
    return seconds[2:]


def _wait_until_gone(lake: Lake) -> None:
    """Until Keeper has ended the sessions of the nodes that were killed."""
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    for node in lake.cluster.nodes[::2]:
        with node.client() as client:
            while client.execute("SELECT max(active_replicas) FROM system.replicas") != [(1,)]:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"Keeper takes a dead replica for alive after {_TIMEOUT_SECONDS} s.")
                time.sleep(0.2)
