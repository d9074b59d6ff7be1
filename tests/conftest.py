"""Shared by all tests: an Airflow of their own, set up before anything imports Airflow."""

from __future__ import annotations

import fcntl
import gc
import os
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.durations import Durations, SharedFixtures
from tests.lanes import LANES, lane_of, longest_first, together
from tests.tested import Tested

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun
    from airflow.sdk import DAG

    from airflow_provider_chs3.testbed.nodes import Cluster

pytest.register_assert_rewrite("tests.plugin", "tests.support")
#: `narrow_user` has servers whose users have what the documentation grants them, in place of the first's.
pytest_plugins = [
    "airflow_provider_chs3.testbed.pytest_plugin",
    "tests.support.few_nodes",
    "tests.support.narrow_user",
    "tests.support.one_door",
    "tests.sources.servers.fixtures",
]

for _name in [name for name in os.environ if name.startswith(("AIRFLOW__", "AIRFLOW_CONN_", "AIRFLOW_VAR_"))]:
    del os.environ[_name]
_AIRFLOW_HOME = tempfile.mkdtemp(prefix="chs3-airflow-")
# Empty, as each `dag.test()` of Airflow 3.3 reads all DAGs of this folder, and writes them to the database.
_DAGS_FOLDER = Path(_AIRFLOW_HOME, "dags")
_DAGS_FOLDER.mkdir()
os.environ.update(
    AIRFLOW_HOME=_AIRFLOW_HOME,
    AIRFLOW__CORE__LOAD_EXAMPLES="False",
    AIRFLOW__CORE__DAGS_FOLDER=str(_DAGS_FOLDER),
    AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=f"sqlite:///{_AIRFLOW_HOME}/airflow.db",
    AIRFLOW__LOGGING__BASE_LOG_FOLDER=f"{_AIRFLOW_HOME}/logs",
)

# Modules of the tests ask for the servers as they are imported, which may be before pytest has read its options.
if "--chs3-clickhouse=server" in sys.argv:
    os.environ["CHS3_CLICKHOUSE_PROGRAM"] = "server"

# Shells start what runs in the background with Ctrl-C ignored, and children inherit that; those of the tests heed it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--lane", choices=LANES, help="only one lane: see tests.lanes")
    parser.addoption("--all", action="store_true", help="also what is rare and slow: tests that are marked `thorough`")
    parser.addoption(
        "--tested", metavar="FILE", type=Path, help="write which servers the tests ran on, see tests.tested"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Note how long the tests take, and which servers they run on, in every process of a run that is to tell."""
    # Nearly all that collection makes stays to the end: looking for garbage in it takes a quarter of its time.
    gc.disable()
    is_worker = hasattr(config, "workerinput")
    if (folder := config.rootpath / ".dev").is_dir():
        config.pluginmanager.register(SharedFixtures(), "chs3-shared-fixtures")
        if not is_worker:
            config.pluginmanager.register(Durations(folder / "durations.json"), "chs3-durations")
    if path := config.getoption("--tested"):
        config.pluginmanager.register(Tested(None if is_worker else path.absolute()), "chs3-tested")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep the tests of a slow server in one process, too, not only those of a file."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return together(nodeid)

    return Scheduling(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what the oldest servers do not have, with what that is."""
    newer = item.get_closest_marker("newer")
    if newer and os.environ.get("CHS3_CLICKHOUSE_PROGRAM") == "server":
        pytest.skip(f"25.8 has no {newer.args[0]}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out other lanes, and what is thorough, unless it is asked for, by `--all` or by its name."""
    longest_first(items)
    if lane := config.getoption("--lane"):
        _leave_out(config, items, {item for item in items if lane_of(item) != lane})
    if config.getoption("--all") or any("::" in argument for argument in config.invocation_params.args):
        return
    variants: dict[str, list[pytest.Item]] = {}
    never: set[pytest.Item] = set()
    for item in items:
        marks = list(item.iter_markers("thorough"))
        if not all(mark.kwargs.get("but") for mark in marks):
            # A variant of its own, too, such as a server that takes a minute to compile.
            never.add(item)
        elif marks:
            variants.setdefault(item.nodeid.partition("[")[0], []).append(item)
    rare = {item for of_one in variants.values() for item in of_one if item not in _some(of_one)}
    _leave_out(config, items, never | rare)


def _leave_out(config: pytest.Config, items: list[pytest.Item], left_out: set[pytest.Item]) -> None:
    if left_out:
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=list(left_out))


def pytest_collection_finish() -> None:
    """Look for garbage again, but not among the tests, whose objects are most of all."""
    gc.freeze()
    gc.enable()


def _some(variants: list[pytest.Item]) -> list[pytest.Item]:
    """As many variants of one test as always run, from its first, or another one, to its last."""
    marker = variants[0].get_closest_marker("thorough")
    options = marker.kwargs if marker else {}
    count = min(options.get("but", 0), len(variants))
    return [
        variants[(options.get("first", 0) + place * len(variants) // count) % len(variants)] for place in range(count)
    ]


def pytest_unconfigure() -> None:
    shutil.rmtree(_AIRFLOW_HOME, ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def _impatient_dag_test() -> Iterator[None]:
    """`dag.test()` sleeps for a second whenever the next tasks are not ready at once, as behind each mapped one."""
    sleep = time.sleep

    def nap(seconds: float) -> None:
        is_dag_test = sys._getframe(1).f_globals.get("__name__") == "airflow.sdk.definitions.dag"
        sleep(0.02 if is_dag_test else seconds)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "sleep", nap)
        yield


@pytest.fixture
def cluster_of_test(chs3_cluster: Cluster) -> Cluster:
    """Give the cluster of a lake's table; a folder of tests may have it on fewer nodes, which makes loads quicker."""
    return chs3_cluster


@pytest.fixture(scope="session")
def airflow_db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Airflow's metadata database, made with the first test that asks for it: those that run a DAG.

    Processes that run side by side make one, and each has a copy.
    """
    from airflow.utils.db import initdb

    used = Path(_AIRFLOW_HOME, "airflow.db")
    base = tmp_path_factory.getbasetemp()
    empty = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "empty.db"
    with empty.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if empty.exists():
            _copy(empty, used)
        else:
            initdb()
            _copy(used, empty)
    return empty


def _copy(database: Path, copy: Path) -> None:
    with closing(sqlite3.connect(database)) as made, closing(sqlite3.connect(copy)) as copied:
        made.backup(copied)


@pytest.fixture(scope="session")
def run_dag(airflow_db: Path) -> Callable[..., DagRun]:
    """Run a DAG to its end in this process: `run_dag(dag, logical_date=…, run_conf=…)`, as `dag.test()`.

    `dag.test()` finds DAGs of the DAGs folder by itself; any other one must be in the database first.
    """
    from airflow.dag_processing.bundles.manager import DagBundlesManager

    from tests.support.dag_bag import DagBag, sync_bag_to_db

    def run(dag: DAG, **options: Any) -> DagRun:
        DagBundlesManager().sync_bundles_to_db()
        bag = DagBag(os.devnull)
        bag.bag_dag(dag)
        sync_bag_to_db(bag, "dags-folder", None)
        return dag.test(**options)

    return run
