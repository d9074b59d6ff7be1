"""`./dev bench --triggers`: what many deferred sensors take of a triggerer and of the servers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.trips import create_table_sql
from tests.benchmarks.triggerer import Taken, Wait

ROOT = Path(__file__).parents[2]
#: The most sensors of which each asks for itself: a thousand would measure the machine's limits.
_MOST_ALONE = 100
_MOST_MONTHS = 100
_PARTS = 3
_TABLE = "waiting"


@dataclass(frozen=True, kw_only=True)
class Waited:
    """What was measured of so many triggers.

    Args:
        triggers: How many.
        share: Whether they shared one poll.
        taken: By their process.
        queries: That it sent to the servers meanwhile.
    """

    triggers: int
    share: bool
    taken: Taken
    queries: int

    @property
    def per_minute(self) -> float:
        """By which to multiply what was counted."""
        return 60 / (self.taken.ended_at - self.taken.began_at)

    def as_json(self) -> dict[str, Any]:
        """All figures."""
        return {
            "triggers": self.triggers,
            "share": self.share,
            "cpu_seconds_per_minute": self.taken.cpu_seconds * self.per_minute,
            "queries_per_minute": self.queries * self.per_minute,
            **asdict(self.taken),
        }


def bench(console: Console, *, triggers: Sequence[int], seconds: float) -> list[Waited]:
    """Measure each number of triggers, with one poll for all, and where there are not too many, with one for each.

    Args:
        console: Where figures go.
        triggers: How many.
        seconds: How long to measure each.
    """
    console.print(f"{os.cpu_count()} cores; three nodes, a look every {seconds / 6:g} s while things change")
    waited = []
    with ClickHouseCluster.start(3) as cluster, tempfile.TemporaryDirectory(prefix="chs3-bench-") as folder:
        for number in triggers:
            for share in [True, False] if number <= _MOST_ALONE else [True]:
                console.print(f"{number} triggers, {'one poll for all' if share else 'a poll each'}")
                waited.append(_measure(cluster, Path(folder), number, share=share, seconds=seconds))
    _print(console, waited)
    return waited


def _measure(cluster: ClickHouseCluster, folder: Path, triggers: int, *, share: bool, seconds: float) -> Waited:
    months = [f"{2000 + number // 12}-{number % 12 + 1:02}" for number in range(min(triggers, _MOST_MONTHS))]
    _create_table(cluster, len(months))
    conn_ids = ["chs3_default"] if share else [f"chs3_{number}" for number in range(triggers)]
    wait = Wait(
        conn_ids=conn_ids,
        cluster=cluster.name,
        table=_TABLE,
        months=months,
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


def _create_table(cluster: ClickHouseCluster, months: int) -> None:
    """Some parts of each month on the first node, which nothing merges."""
    for node in cluster.nodes:
        with node.client() as client:
            client.execute(f"DROP TABLE IF EXISTS {_TABLE} SYNC")
            client.execute(create_table_sql(_TABLE))
            client.execute(f"SYSTEM STOP MERGES {_TABLE}")
    with cluster.nodes[0].client() as client:
        client.execute(
            f"INSERT INTO {_TABLE} (trip_id, pickup_at) "
            f"SELECT number, toDateTime('2000-01-05 00:00:00', 'UTC') + toIntervalMonth(number % {months}) "
            f"FROM numbers({months * _PARTS})",
            settings={"max_block_size": 1, "min_insert_block_size_rows": 1, "max_threads": 1, "max_insert_threads": 1},
        )


def _queries(cluster: ClickHouseCluster, taken: Taken) -> int:
    """Queries that the triggers' process sent to all nodes in the time that counts."""
    sql = (
        "SELECT count() FROM system.query_log WHERE type = 'QueryFinish' AND is_initial_query "
        "AND client_name LIKE '%airflow-provider-chs3' "
        f"AND toFloat64(event_time_microseconds) BETWEEN {taken.began_at} AND {taken.ended_at}"
    )
    queries = 0
    for node in cluster.nodes:
        with node.client() as client:
            client.execute("SYSTEM FLUSH LOGS")
            queries += client.execute(sql)[0][0]
    return queries


def _print(console: Console, waited: Sequence[Waited]) -> None:
    table = Table(title="Sensors in one triggerer", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for column in ("sensors", "polls"):
        table.add_column(column)
    for column in ("CPU s a minute", "queries a minute", "notice after s", "at most", "loop paused ms at most"):
        table.add_column(column, justify="right")
    for each in waited:
        taken = each.taken
        table.add_row(
            f"{each.triggers:,}",
            "one for all" if each.share else "one each",
            f"{taken.cpu_seconds * each.per_minute:.2f}",
            f"{each.queries * each.per_minute:,.0f}",
            f"{taken.median_delay_seconds:.1f}",
            f"{taken.longest_delay_seconds:.1f}",
            f"{taken.longest_pause_seconds * 1000:.0f}",
        )
    console.print(table)
