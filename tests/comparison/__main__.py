"""Kill a load in mid-insert, retry it, and count: the plain operator of airflow-clickhouse-plugin, and this package's.

`python -m tests.comparison`; the plugin must be importable (pip install airflow-clickhouse-plugin).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.s3 import S3Server
from airflow_provider_chs3.testbed.trips import Trips, create_table_sql
from tests.comparison.worker import MONTH, PREFIX

_WAYS = {
    "plain": "`ClickHouseOperator`, `INSERT … SELECT … FROM s3Cluster(…)`",
    "plain_after_drop": "the same, `DROP PARTITION` on every node before it",
    "package": "`S3ToClickHouseOperator`",
}
_BUCKET = "comparison"
_TIMEOUT_SECONDS = 300.0
_INSERTS = "is_initial_query AND query_kind = 'Insert' AND user = 'loader'"


@dataclass(frozen=True)
class Arena:
    """The servers, and what workers need to know."""

    cluster: ClickHouseCluster
    s3: S3Server
    home: Path

    def count(self, sql: str) -> int:
        """The sum of a number that each node tells."""
        total = 0
        for node in self.cluster.nodes:
            with node.client() as client:
                total += client.execute(sql)[0][0]
        return total

    def start(self, way: str, database: str) -> subprocess.Popen[bytes]:
        """Start a worker."""
        given = {
            "database": database,
            "cluster": self.cluster.name,
            "nodes": len(self.cluster.nodes),
            "bucket": _BUCKET,
            "endpoint_url": self.s3.endpoint_url,
            "access_key": self.s3.access_key,
            "secret_key": self.s3.secret_key,
        }
        variables = {
            "AIRFLOW_HOME": str(self.home),
            "CHS3_COMPARISON": json.dumps(given),
            "AIRFLOW_CONN_CHS3_DEFAULT": json.dumps(self.cluster.airflow_connection()),
            "AIRFLOW_CONN_AWS_DEFAULT": json.dumps(self.s3.airflow_connection()),
        }
        for number, node in enumerate(self.cluster.nodes):
            login = {"login": node.credentials.login, "password": node.credentials.password}
            fields = json.dumps({"conn_type": "clickhouse", "host": node.host, "port": node.tcp_port, **login})
            variables[f"AIRFLOW_CONN_CLICKHOUSE_{number}"] = fields
            variables.setdefault("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", fields)
        with (self.home / f"{way}.log").open("ab") as log:
            command = [sys.executable, "-m", "tests.comparison.worker", way]
            return subprocess.Popen(command, env={**os.environ, **variables}, stdout=log, stderr=log)


def until(ready: Callable[[], bool], what: str) -> None:
    """Wait for something.

    Raises:
        TimeoutError: If it takes minutes.
    """
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while not ready():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.02)


def kill_and_retry(arena: Arena, way: str) -> tuple[int, int]:
    """Kill a worker in mid-insert, and run another one to its end.

    Returns:
        Rows of the table when all queries of the dead worker have ended, and after the retry.
    """
    database = f"by_{way}"
    for node in arena.cluster.nodes:
        with node.client() as client:
            client.execute(f"CREATE DATABASE {database}")
            client.execute(create_table_sql(f"{database}.trips"))
    rows = f"SELECT count() FROM {database}.trips"
    written = f"SELECT sum(rows) FROM system.parts WHERE active AND database = '{database}' AND table != 'chs3_ledger'"
    inserts = f"SELECT count() FROM system.processes WHERE {_INSERTS}"
    worker = arena.start(way, database)
    until(lambda: worker.poll() is not None or arena.count(written) > 0, f"{way}: nothing is written")
    if not arena.count(inserts):
        raise RuntimeError(f"{way}: the insert was over before it could be killed: give more --rows.")
    worker.kill()
    worker.wait()
    until(lambda: not arena.count("SELECT count() - 1 FROM system.processes WHERE user = 'loader'"), "queries go on")
    after_kill = arena.count(rows)
    if arena.start(way, database).wait(_TIMEOUT_SECONDS):
        raise RuntimeError(f"{way}: the retry failed:\n{(arena.home / f'{way}.log').read_text()[-3000:]}")
    return after_kill, arena.count(rows)


def main() -> int:
    """Compare, and print a table in Markdown.

    Returns:
        The exit code.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.comparison", description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000, help="rows of the month (4,000,000)")
    rows = parser.parse_args().rows
    if importlib.util.find_spec("airflow_clickhouse_plugin") is None:
        parser.error("the plugin is not there: pip install airflow-clickhouse-plugin")
    trips = Trips(rows_per_month=rows, files_per_month=24)
    with S3Server.start() as s3, ClickHouseCluster.start() as cluster, tempfile.TemporaryDirectory() as home:
        s3.client().create_bucket(Bucket=_BUCKET)
        trips.upload(s3.client(), MONTH, bucket=_BUCKET, prefix=PREFIX)
        print("| load | rows expected | rows after the kill | rows after the retry |\n|---|---|---|---|", flush=True)
        for way, described in _WAYS.items():
            after_kill, after_retry = kill_and_retry(Arena(cluster, s3, Path(home)), way)
            print(f"| {described} | {rows:,} | {after_kill:,} | {after_retry:,} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
