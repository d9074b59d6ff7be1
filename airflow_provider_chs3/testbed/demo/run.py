"""The whole nightly load on this machine: `./dev demo`."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.demo.airflow import DemoAirflow, DemoError, command
from airflow_provider_chs3.testbed.demo.lake import BUCKET, DATABASE, DISTRIBUTED_TABLE, TABLE, Lake, periods_from
from airflow_provider_chs3.testbed.demo.screen import Screen
from airflow_provider_chs3.testbed.nodes import PLAIN_LOADER
from airflow_provider_chs3.testbed.s3 import S3Server
from airflow_provider_chs3.testbed.trips import Trips

_ROOT = Path(__file__).resolve().parents[3]
_DAG_ID = "chs3_scheduled_load"
_DAG = _ROOT / "dags" / f"{_DAG_ID}.py"
_LOG = _ROOT / ".dev" / "demo.log"
_FIRST_PERIOD = "2026-01"
_NODES = 3
# There must be more files than nodes, or some nodes have nothing to read.
_FILES_PER_PERIOD = 6


def main(arguments: Sequence[str]) -> int:
    """Load periods of trips into a local cluster with a real Airflow, and show and check the results.

    Args:
        arguments: The command line: `--periods`, `--rows-per-period`, `--keep`.

    Returns:
        The exit code: 0 if every period has exactly the rows of its files, else 1.
    """
    parser = argparse.ArgumentParser(prog="./dev demo", description=__doc__)
    parser.add_argument("--periods", type=int, default=6, help="number of periods (%(default)s)")
    parser.add_argument("--rows-per-period", type=int, default=500_000, help="rows of each period (%(default)s)")
    parser.add_argument("--keep", action="store_true", help="keep the servers running at the end, until Ctrl-C")
    given = parser.parse_args(arguments)
    if given.periods < 1 or given.rows_per_period < _FILES_PER_PERIOD:
        parser.error(f"give at least 1 period and {_FILES_PER_PERIOD} rows per period")
    screen = Screen()
    try:
        return _demo(screen, periods=given.periods, rows_per_period=given.rows_per_period, keep=given.keep)
    except RuntimeError as error:
        print(f"./dev demo: {error}", file=sys.stderr)
        return 1


def _demo(screen: Screen, *, periods: int, rows_per_period: int, keep: bool) -> int:
    if not _DAG.exists():
        raise DemoError(f"The demo runs {_DAG}, which does not exist: run it in a clone of the repository.")
    _remove_airflow_settings()
    screen.step(f"Starting {_NODES} ClickHouse nodes, an S3 server and Airflow {version('apache-airflow')} on loopback")
    with (
        tempfile.TemporaryDirectory(prefix="chs3-demo-") as home,
        S3Server.start() as s3,
        ClickHouseCluster.start(_NODES, loader=PLAIN_LOADER) as cluster,
        DemoAirflow(
            home=Path(home),
            dags=_DAG.parent,
            log=_LOG,
            connections={"chs3_default": cluster.airflow_connection(), "aws_default": s3.airflow_connection()},
        ) as airflow,
    ):
        names = periods_from(_FIRST_PERIOD, periods)
        trips = Trips(rows_per_period=rows_per_period, files_per_period=_FILES_PER_PERIOD)
        lake = Lake(cluster, s3, trips, names, late_period=names[periods // 2])
        _prepare(screen, lake, airflow)
        unchanged = _run(screen, lake, airflow)
        exit_code = _last_screen(screen, lake, unchanged)
        if keep:
            _wait(screen, lake, airflow)
    return exit_code


def _remove_airflow_settings() -> None:
    """Remove the settings of the user's own Airflow, which would otherwise apply to the demo, even its database."""
    for name in [name for name in os.environ if name.startswith(("AIRFLOW__", "AIRFLOW_CONN_", "AIRFLOW_VAR_"))]:
        del os.environ[name]


def _prepare(screen: Screen, lake: Lake, airflow: DemoAirflow) -> None:
    for node in lake.cluster.nodes:
        screen.detail(f"{node.name} of cluster {lake.cluster.name}: {node.host}:{node.tcp_port}")
    screen.detail(f"S3: {lake.s3.endpoint_url}")
    screen.detail(f"Airflow's full log: {airflow.log}")
    screen.step(f"Creating {DATABASE}.{TABLE} on every node, and {DATABASE}.{DISTRIBUTED_TABLE} (Distributed) over it")
    lake.create_tables()
    screen.step(f"Putting {len(lake.periods)} periods of trips into s3://{BUCKET}/trips/, creating Airflow's database")
    with ThreadPoolExecutor(max_workers=1) as pool:
        uploaded = pool.submit(lake.upload)
        airflow.run("db", "migrate", tell=screen.detail)
        size_bytes = uploaded.result()
    files = len(lake.periods) * lake.trips.files_per_period - 1
    screen.detail(f"{files} Parquet files, {size_bytes / 1024**2:.0f} MiB; one file of {lake.late_period} is late")


def _run(screen: Screen, lake: Lake, airflow: DemoAirflow) -> bool:
    """Run the DAG three times.

    Returns:
        Whether unchanged data was not loaded again: periods without a load in the ledger, and the objects before the
        late one.
    """
    screen.step("Loading every period")
    _run_dag(screen, airflow, lake.periods)
    names = [node.names for node in lake.parts()]

    again = lake.periods[0]
    screen.step(f"Running {again} again: nothing changed, so nothing is loaded")
    _run_dag(screen, airflow, [again])
    is_unchanged = names == [node.names for node in lake.parts()]

    screen.step(f"The late file arrives: s3://{BUCKET}/{lake.upload_late_file()}")
    screen.detail("Running every period again: one of them has a new file, and only that file is loaded")
    _run_dag(screen, airflow, lake.periods)
    loads = lake.loads()
    loaded = Counter(load["period"] for load in loads)
    is_alone = loads[-1]["loaded_objects"] == 1
    return is_unchanged and is_alone and loaded == Counter([*lake.periods, lake.late_period])


def _run_dag(screen: Screen, airflow: DemoAirflow, periods: Sequence[str]) -> None:
    arguments = ("dags", "test", _DAG_ID, "--conf", json.dumps({"periods": list(periods)}))
    screen.detail(f"$ {command(arguments)}")
    airflow.run(*arguments, tell=lambda text: screen.detail(f"  {text}"))


def _last_screen(screen: Screen, lake: Lake, unchanged: bool) -> int:
    screen.line()
    screen.settings(lake.loads()[-1])
    screen.periods(lake)
    node = lake.parts()[0]
    screen.line(
        f"Servers slow inserts down at {node.delay_limit} parts in one partition, and refuse at {node.throw_limit}."
    )
    differences = lake.differences()
    if differences:
        screen.line("WRONG: rows, sums or checksums differ from the files:")
        for line in differences:
            screen.line(f"  {line}")
    else:
        total = len(lake.periods) * lake.trips.rows_per_period
        screen.line(f"Right: {total:,} rows; rows, sums and checksum of every period are those of its files.")
    if unchanged:
        late = lake.loads()[-1]
        screen.line(
            f"Right: for the late file {late['loaded_objects']} of {late['objects']} objects of {lake.late_period} was "
            f"read, {late['loaded_rows']:,} rows in {late['insert_seconds']:.2f} s; no other period was touched."
        )
    else:
        screen.line("WRONG: unchanged objects were loaded again.")
    screen.line(f"Done in {screen.seconds:.0f} s.")
    return 1 if differences or not unchanged else 0


def _wait(screen: Screen, lake: Lake, airflow: DemoAirflow) -> None:
    node = lake.cluster.nodes[0]
    login = shlex.quote(f"{node.credentials.login}:{node.credentials.password}")
    query = f"SELECT count() FROM {DATABASE}.{DISTRIBUTED_TABLE}"
    screen.line("\nThe servers run until Ctrl-C. Query them:")
    screen.line(f'  curl --user {login} http://{node.host}:{node.http_port}/ --data "{query}"')
    screen.line("Run the DAG from another terminal (`./dev run airflow dags test …`) with:")
    for name, value in airflow.environment.items():
        screen.line(f"  export {name}={shlex.quote(value)}")
    threading.Event().wait()
