"""Loads through a load balancer that leads each connection to another server, beside each server at its address."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from airflow_provider_chs3.testbed.balancer import LoadBalancer
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.programs import keeper
from airflow_provider_chs3.testbed.trips import create_table_sql
from tests.benchmarks.lake import BUCKET, TABLE, Lake, Periods
from tests.benchmarks.measure import SECONDS
from tests.benchmarks.rounds import Comparison, Figures, Gate, measure_in_turns
from tests.benchmarks.suite import TrialContext

TITLE = "One door"
#: Three servers, and a ZooKeeper of Debian's.
IN_QUICK = False

_AT_ADDRESSES, _THROUGH_DOOR = "each server at its address", "through a load balancer"
_PERIOD = "2026-01"
_DATABASE = "shop"


@dataclass(frozen=True)
class _ThroughDoor(Lake):
    """The servers of another lake behind a load balancer; the engine makes all tables on all of them."""

    balancer: LoadBalancer | None = None

    def connect(self) -> None:
        """Make Airflow's connections, of which that of ClickHouse leads to the load balancer."""
        connection = (self.balancer or self.cluster).airflow_connection()
        os.environ[f"AIRFLOW_CONN_{self.clickhouse_conn_id.upper()}"] = json.dumps(connection)
        os.environ["AIRFLOW_CONN_AWS_DEFAULT"] = json.dumps(self.s3.airflow_connection())

    def where(self, key: str, period: str) -> dict[str, Any]:
        """The arguments of operators, with the table in the database of the engine Replicated."""
        return {**super().where(key, period), "table": f"{_DATABASE}.{TABLE}"}


def run(bench: TrialContext) -> Iterator[Comparison]:
    """Load one small file, a night of three months, and one month of 24 million rows, into one shard of three."""
    if why := keeper.missing():
        bench.say(why)
        return
    small = Periods(prefix="small", names=[_PERIOD], rows=5_000, files=1)
    night = Periods(prefix="night", names=["2026-01", "2026-02", "2026-03"], rows=500_000, files=10)
    rows = bench.sized(full=24_000_000, quick=1_000_000)
    large = Periods(prefix="large", names=[_PERIOD], rows=rows, files=max(6, rows // 500_000), copies=3)
    with (
        bench.s3() as s3,
        ClickHouseCluster.start(3, replicas=3, program="server", replicated_databases=True) as cluster,
        LoadBalancer.start(cluster) as balancer,
    ):
        s3.endpoint.client().create_bucket(Bucket=BUCKET)
        for periods in (small, night, large):
            periods.upload(s3.endpoint)
        lakes = {
            _AT_ADDRESSES: _ThroughDoor(cluster, s3.endpoint, "bench_addresses"),
            _THROUGH_DOOR: _ThroughDoor(cluster, s3.endpoint, "bench_door", balancer=balancer),
        }
        engine = f"Replicated('/databases/{_DATABASE}', '{{shard}}', '{{replica}}')"
        lakes[_AT_ADDRESSES].ask_every_node(f"CREATE DATABASE {_DATABASE} ENGINE = {engine}")
        compared = partial(_compared, bench, lakes)
        yield compared("a load of 5,000 rows in one file", partial(_load, periods=small), at_most=1.3)
        yield compared("the same, unchanged", partial(_find_unchanged, periods=small))
        yield compared(
            "a night: two months unchanged, and 500,000 rows in ten files",
            partial(_load_night, periods=night),
        )
        yield compared(f"{large.total_rows:,} rows in {large.files} files", partial(_load, periods=large), at_most=1.03)


def _compared(
    bench: TrialContext,
    lakes: dict[str, _ThroughDoor],
    title: str,
    measure: Callable[[Lake], float],
    *,
    at_most: float | None = None,
) -> Comparison:
    def timed(lake: Lake) -> Figures:
        # Variants come in another order in each round.
        lake.connect()
        return {SECONDS: measure(lake)}

    variants = {name: partial(timed, lake) for name, lake in lakes.items()}
    rounds = measure_in_turns(title, variants, rounds=bench.rounds, console=bench.console)
    gates = [] if at_most is None else [Gate(variant=_THROUGH_DOOR, figure=SECONDS, at_most=at_most)]
    return Comparison(title=title, variants=list(variants), figures=[SECONDS], rounds=rounds, gates=gates)


def _load(lake: Lake, periods: Periods) -> float:
    """Load into an empty table that has a ledger."""
    _empty(lake)
    return _seconds(lake, periods, _PERIOD, "published")


def _find_unchanged(lake: Lake, periods: Periods) -> float:
    _load(lake, periods)
    return _seconds(lake, periods, _PERIOD, "unchanged")


def _load_night(lake: Lake, periods: Periods) -> float:
    _empty(lake)
    *unchanged, new = periods.names
    for period in unchanged:
        lake.load(periods, period)
    return sum(_seconds(lake, periods, period, "unchanged") for period in unchanged) + _seconds(
        lake, periods, new, "published"
    )


def _empty(lake: Lake) -> None:
    with lake.cluster.nodes[0].client() as client:
        client.execute(f"DROP TABLE IF EXISTS {_DATABASE}.{TABLE} SYNC")
        client.execute(create_table_sql(f"{_DATABASE}.{TABLE}", engine="ReplicatedMergeTree"))


def _seconds(lake: Lake, periods: Periods, period: str, status: str) -> float:
    start = time.monotonic()
    result = lake.load(periods, period)
    seconds = time.monotonic() - start
    if result["status"] != status:
        raise RuntimeError(f"The period is {result['status']}, not {status}.")
    return seconds
