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
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from airflow_provider_chs3.plugin.constants import NAVIGATION_ROUTE
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.nodes import PLAIN_LOADER
from airflow_provider_chs3.testbed.s3 import S3Server
from airflow_provider_chs3.testbed.trips import Trips
from tests.demo.airflow import DemoAirflow, DemoError, command
from tests.demo.lake import BUCKET, DATABASE, DISTRIBUTED_TABLE, TABLE, Lake, periods_from
from tests.demo.screen import Screen

_ROOT = Path(__file__).resolve().parents[2]
_DAG_ID = "chs3_scheduled_load"
_DAG = _ROOT / "dags" / f"{_DAG_ID}.py"
_LOG = _ROOT / ".dev" / "demo.log"
_FIRST_PERIOD = "2026-01"
_NODES = 3
# There must be more files than nodes, or some nodes have nothing to read.
_FILES_PER_PERIOD = 6


def main(arguments: Sequence[str]) -> int:
    """Load periods of trips into a local cluster with a real Airflow, and show and check the results."""
    parser = argparse.ArgumentParser(prog="./dev demo", description=__doc__)
    parser.add_argument("--periods", type=int, default=6, help="number of periods (%(default)s)")
    parser.add_argument("--rows-per-period", type=int, default=500_000, help="rows of each period (%(default)s)")
    parser.add_argument("--settings", action="store_true", help="show the settings of a load, each with its reason")
    parser.add_argument("--stay", action="store_true", help="at the end, start Airflow's UI, and stay until Ctrl-C")
    given = parser.parse_args(arguments)
    if given.periods < 1 or given.rows_per_period < _FILES_PER_PERIOD:
        parser.error(f"pass at least 1 period and {_FILES_PER_PERIOD} rows per period")
    screen = Screen()
    try:
        return _demo(screen, given)
    except RuntimeError as error:
        print(f"./dev demo: {error}", file=sys.stderr)
        return 1


def _demo(screen: Screen, given: argparse.Namespace) -> int:
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
            dags=_folder_of_the_dag(Path(home)),
            log=_LOG,
            connections={"chs3_default": cluster.airflow_connection(), "aws_default": s3.airflow_connection()},
        ) as airflow,
    ):
        names = periods_from(_FIRST_PERIOD, given.periods)
        trips = Trips(rows_per_period=given.rows_per_period, files_per_period=_FILES_PER_PERIOD)
        lake = Lake(cluster, s3, trips, names, late_period=names[given.periods // 2])
        _prepare(screen, lake, airflow)
        is_right = all(step(screen, lake, airflow) for step in _STEPS)
        screen.line()
        if given.settings:
            screen.settings(lake.loads()[-1])
        screen.periods(lake)
        screen.line(
            f"{'Every step was right' if is_right else 'WRONG, as the last step says'}. Done in {screen.seconds:.0f} s."
        )
        if given.stay:
            _stay(screen, lake, airflow)
        else:
            screen.line(
                "`./dev demo --stay` ends with all of this on the page in Airflow's UI, `--settings` explains a load."
            )
    return 0 if is_right else 1


def _folder_of_the_dag(home: Path) -> Path:
    """Make a folder of one DAG, as each command parses all of its folder twice."""
    folder = home / "dags"
    folder.mkdir()
    (folder / _DAG.name).symlink_to(_DAG)
    return folder


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
        airflow.create_database(tell=screen.detail)
        size_bytes = uploaded.result()
    files = len(lake.periods) * lake.trips.files_per_period - 1
    screen.detail(f"{files} Parquet files, {size_bytes / 1024**2:.0f} MiB; one file of {lake.late_period} is late")


def _load(screen: Screen, lake: Lake, airflow: DemoAirflow) -> bool:
    screen.step("Loading every period")
    _run_dag(screen, airflow, lake.periods)
    return _check(screen, lake, f"{lake.late_period} waits for a file", but=lake.late_period)


def _load_again(screen: Screen, lake: Lake, airflow: DemoAirflow) -> bool:
    screen.step("Running it again: nothing changed, so nothing is loaded")
    names = [node.names for node in lake.parts()]
    _run_dag(screen, airflow, lake.periods[:1])
    is_unchanged = names == [node.names for node in lake.parts()]
    return _check(screen, lake, "the table has the same parts", is_unchanged, but=lake.late_period)


def _load_a_late_file(screen: Screen, lake: Lake, airflow: DemoAirflow) -> bool:
    screen.step(f"A file arrives late: s3://{BUCKET}/{lake.upload_late_file()}")
    _run_dag(screen, airflow, lake.periods)
    load = lake.loads()[-1]
    loaded = Counter(each["period"] for each in lake.loads())
    is_alone = load["loaded_objects"] == 1 and loaded == Counter([*lake.periods, lake.late_period])
    return _check(screen, lake, f"only that file was read, {load['loaded_rows']:,} rows", is_alone)


def _kill_a_load(screen: Screen, lake: Lake, airflow: DemoAirflow) -> bool:
    period, others = lake.periods[0], replace(lake.trips, seed=lake.trips.seed + 1)
    screen.step(f"The files of {period} are overwritten, and the worker that loads them is killed (kill -9)")
    lake.rewrite(period, others)
    screen.detail(f"$ {command(_dag_test([period]))}")
    airflow.kill_in(*_dag_test([period]), at="INSERT INTO")
    rows = f"{period} still has its {lake.rows(period):,} rows of before"
    if lake.differences():
        # Where this process had to wait for its turn, the load may have ended.
        lake.rewritten[period], rows = others, f"{period} has its new rows, as the kill came too late"
    is_right = _check(screen, lake, rows)
    screen.step("Airflow runs the task again")
    _run_dag(screen, airflow, [period])
    lake.rewritten[period] = others
    return _check(screen, lake, f"{period} has the rows of the files that overwrote the others") and is_right


def _undo(screen: Screen, lake: Lake, airflow: DemoAirflow) -> bool:
    period = lake.periods[0]
    screen.step("The new files were wrong. Undo: the rows of before are still there")
    for name in ("versions", "restore"):
        arguments = ("chs3", name, "--table", f"{DATABASE}.{TABLE}", "--period", period)
        screen.detail(f"$ {command(arguments)}")
        airflow.run(*arguments, tell=lambda text: screen.detail(f"  {text}"), is_whole=True)
    screen.detail("The next night does not undo the undo:")
    _run_dag(screen, airflow, [period])
    del lake.rewritten[period]
    return _check(screen, lake, f"{period} has the rows of before")


#: The scenes of the demo after its preparation, in this order; each returns whether it was right.
_STEPS = (_load, _load_again, _load_a_late_file, _kill_a_load, _undo)


def _check(screen: Screen, lake: Lake, what: str, is_so: bool = True, *, but: str = "") -> bool:
    """Show whether a step was right, and every period but one holds what it must."""
    differences = lake.differences(but=but)
    total = sum(lake.rows(period) for period in lake.periods)
    which = "every other period" if but else "every period"
    exact = f"{total:,} rows; rows, sums and checksum of {which} are as computed without ClickHouse"
    screen.detail(f"{'WRONG' if differences or not is_so else 'Right'}: {what}. {exact}.")
    for line in differences:
        screen.detail(f"  {line}")
    return is_so and not differences


def _dag_test(periods: Sequence[str]) -> tuple[str, ...]:
    return ("dags", "test", _DAG_ID, "--conf", json.dumps({"periods": list(periods)}))


def _run_dag(screen: Screen, airflow: DemoAirflow, periods: Sequence[str]) -> None:
    screen.detail(f"$ {command(_dag_test(periods))}")
    airflow.run(*_dag_test(periods), tell=lambda text: screen.detail(f"  {text}"))


def _stay(screen: Screen, lake: Lake, airflow: DemoAirflow) -> None:
    node = lake.cluster.nodes[0]
    login = shlex.quote(f"{node.credentials.login}:{node.credentials.password}")
    query = f"SELECT count() FROM {DATABASE}.{DISTRIBUTED_TABLE}"
    screen.step("Starting Airflow with its UI")
    screen.line(f"\nThe page: {airflow.serve()}/plugin/{NAVIGATION_ROUTE} stays up until Ctrl-C. So do the servers:")
    screen.line(f'  curl --user {login} http://{node.host}:{node.http_port}/ --data "{query}"')
    screen.line("To run `./dev run airflow dags test …` or `./dev run chs3 …` in another terminal:")
    for name, value in airflow.environment.items():
        screen.line(f"  export {name}={shlex.quote(value)}")
    threading.Event().wait()
