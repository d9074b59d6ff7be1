"""The cost of many deferred sensors for a triggerer and the servers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.trips import create_table_sql
from tests.benchmarks.lake import months
from tests.benchmarks.rounds import Table
from tests.benchmarks.suite import ROOT, TrialContext
from tests.benchmarks.triggerer import Taken, Wait

TITLE = "Deferred sensors in one triggerer"
#: It takes ten minutes by itself.
IN_QUICK = False

_SENSORS = (10, 100, 1000)
#: The most sensors of which each asks for itself: a thousand would measure the machine's limits.
_MOST_ALONE = 100
_MOST_PERIODS = 100
_PARTS = 3
_TABLE = "waiting"


@dataclass(frozen=True, kw_only=True)
class Waited:
    """Figures for a number of triggers."""

    triggers: int
    share: bool
    taken: Taken
    queries: int

    def row(self) -> dict[str, str | float]:
        """All figures."""
        per_minute = 60 / (self.taken.ended_at - self.taken.began_at)
        return {
            "sensors": f"{self.triggers:,}",
            "polls": "one for all" if self.share else "one each",
            "CPU seconds a minute": self.taken.cpu_seconds * per_minute,
            "queries a minute, three nodes": round(self.queries * per_minute),
            "notice after seconds, median": self.taken.median_delay_seconds,
            "at most, seconds": self.taken.longest_delay_seconds,
            "event loop paused, ms at most": round(self.taken.longest_pause_seconds * 1000),
        }


def run(bench: TrialContext) -> Iterator[Table]:
    """Measure numbers of triggers, with one poll for all, and where there are not too many, with one for each."""
    seconds, waited = max(2.0, 60 * min(1.0, bench.scale)), []
    with ClickHouseCluster.start(3) as cluster, tempfile.TemporaryDirectory(prefix="chs3-bench-") as folder:
        for number in sorted({bench.sized(full=sensor, quick=sensor) for sensor in _SENSORS}):
            for share in [True, False] if number <= _MOST_ALONE else [True]:
                bench.say(f"{number} triggers, {'one poll for all' if share else 'a poll each'}")
                waited.append(_measure(cluster, Path(folder), number, share=share, seconds=seconds))
    yield Table(
        title=f"Sensors in one triggerer: a table of three nodes, a poll every {seconds / 6:g} s while things change",
        rows=[each.row() for each in waited],
    )


def _measure(cluster: ClickHouseCluster, folder: Path, triggers: int, *, share: bool, seconds: float) -> Waited:
    periods = months(2000, min(triggers, _MOST_PERIODS))
    _create_table(cluster, len(periods))
    conn_ids = ["chs3_default"] if share else [f"chs3_{number}" for number in range(triggers)]
    wait = Wait(
        conn_ids=conn_ids,
        cluster=cluster.name,
        table=_TABLE,
        periods=periods,
        triggers=triggers,
        seconds=seconds,
        result_file=str(folder / "taken.json"),
    )
    connection = json.dumps(cluster.airflow_connection())
    environment = {f"AIRFLOW_CONN_{conn_id.upper()}": connection for conn_id in conn_ids}
    with (folder / "log").open("wb") as log:
        subprocess.run(
            [sys.executable, "-m", "tests.benchmarks.triggerer", json.dumps(asdict(wait))],
            cwd=ROOT,
            # As in production, each look is a line in the task's log.
            env={**os.environ, **environment, "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO"},
            stdout=log,
            check=True,
        )
    taken = Taken(**json.loads(Path(wait.result_file).read_text(encoding="utf-8")))
    return Waited(triggers=triggers, share=share, taken=taken, queries=_queries(cluster, taken))


def _create_table(cluster: ClickHouseCluster, periods: int) -> None:
    """Some parts of each period on the first node, which nothing merges."""
    for node in cluster.nodes:
        with node.client() as client:
            client.execute(f"DROP TABLE IF EXISTS {_TABLE} SYNC")
            client.execute(create_table_sql(_TABLE))
            client.execute(f"SYSTEM STOP MERGES {_TABLE}")
    with cluster.nodes[0].client() as client:
        client.execute(
            f"INSERT INTO {_TABLE} (trip_id, pickup_at) "
            f"SELECT number, toDateTime('2000-01-05 00:00:00', 'UTC') + toIntervalMonth(number % {periods}) "
            f"FROM numbers({periods * _PARTS})",
            settings={"max_block_size": 1, "min_insert_block_size_rows": 1, "max_threads": 1, "max_insert_threads": 1},
        )


def _queries(cluster: ClickHouseCluster, taken: Taken) -> int:
    """Queries that the triggers' process sent to all nodes in the time that counts."""
    sql = (
        "SELECT count() FROM system.query_log WHERE type = 'QueryFinish' AND is_initial_query "
        "AND client_name LIKE '%airflow-provider-chs3/%' "
        f"AND toFloat64(event_time_microseconds) BETWEEN {taken.began_at} AND {taken.ended_at}"
    )
    queries = 0
    for node in cluster.nodes:
        with node.client() as client:
            client.execute("SYSTEM FLUSH LOGS")
            queries += client.execute(sql)[0][0]
    return queries
