"""The same period by the ways that people use, and by this package: what it takes, and what a kill leaves."""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import count

from clickhouse_driver import Client

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.s3 import S3Endpoint
from airflow_provider_chs3.testbed.trips import create_table_sql
from tests.benchmarks.forked import Forked
from tests.benchmarks.lake import BUCKET, Periods
from tests.benchmarks.measure import SECONDS
from tests.benchmarks.rounds import Comparison, Figures, Table, Verdict, measure_in_turns
from tests.benchmarks.servers import held_to
from tests.benchmarks.suite import TrialContext
from tests.benchmarks.ways import AFTER_DROP, PACKAGE, TABLE, WAYS, Given, Way

TITLE = "Against what people do"

_CPU = "worker's CPU seconds"
_MEMORY = "worker's MiB above Airflow's"
_NODES = 3
_CORES = 0.5
_FILES = 12
#: So many are loaded by a way that would take minutes.
_FEW_FILES = 2
_MOST_ROUNDS = 3
#: From the first rows in a table until the worker is killed: what goes file by file is in the midst of the next one.
_KILLED_AFTER_SECONDS = 0.3
_TIMEOUT_SECONDS = 300.0
_NUMBERS = count(1)


@dataclass(frozen=True, kw_only=True)
class Arena:
    """The servers, and the period to load.

    Args:
        cluster: The cluster.
        s3: Where the files are.
        periods: The period.
    """

    cluster: ClickHouseCluster
    s3: S3Endpoint
    periods: Periods

    @contextmanager
    def table(self, files: int) -> Iterator[Given]:
        """An empty table in a database of its own, with nothing that an earlier load has left."""
        database = f"bench_{next(_NUMBERS)}"
        self._on_each_node(f"CREATE DATABASE {database}", create_table_sql(f"{database}.{TABLE}"))
        try:
            yield Given(
                nodes=self.cluster.nodes,
                cluster=self.cluster.name,
                database=database,
                # A server of moto is a process, and does not go into another one.
                s3=S3Endpoint(self.s3.endpoint_url, self.s3.access_key, self.s3.secret_key, self.s3.region),
                bucket=BUCKET,
                prefix=self.periods.prefix,
                period=self.periods.names[0],
                files=files,
            )
        finally:
            self._on_each_node(f"DROP DATABASE {database} SYNC")

    def start(self, way: Way, given: Given) -> Forked:
        """Start a worker."""
        variables = {
            "AIRFLOW_CONN_CHS3_DEFAULT": self.cluster.airflow_connection(),
            "AIRFLOW_CONN_AWS_DEFAULT": self.s3.airflow_connection(),
        }
        for number, node in enumerate(self.cluster.nodes):
            login = {"login": node.credentials.login, "password": node.credentials.password}
            fields = {"conn_type": "clickhouse", "host": node.host, "port": node.tcp_port, **login}
            variables[f"AIRFLOW_CONN_CLICKHOUSE_{number}"] = fields
        return Forked(way.run, given, {name: json.dumps(value) for name, value in variables.items()})

    def expected_rows(self, files: int) -> int:
        """Rows of the first so many files."""
        return self.periods.total_rows // _FILES * files

    def rows(self, given: Given) -> int:
        """Rows of the table on all nodes."""
        return self._sum(f"SELECT count() FROM {given.table}")

    def written_rows(self, given: Given) -> int:
        """Rows of all tables of the load, staging tables too."""
        return self._sum(
            f"SELECT sum(rows) FROM system.parts WHERE active AND database = '{given.database}' "
            "AND table NOT IN ('chs3_ledger', 'chs3_loads', 'chs3_objects')"
        )

    def has_queries(self) -> bool:
        """Whether any node works for a worker still."""
        return self._sum("SELECT count() - 1 FROM system.processes WHERE user = 'loader'") > 0

    @cached_property
    def _clients(self) -> list[Client]:
        """Open all the time: a busy node takes long to let one in."""
        return [node.client() for node in self.cluster.nodes]

    def _sum(self, sql: str) -> int:
        return sum(client.execute(sql)[0][0] for client in self._clients)

    def _on_each_node(self, *statements: str) -> None:
        for node in self.cluster.nodes:
            with node.client() as client:
                for sql in statements:
                    client.execute(sql)


def run(bench: TrialContext) -> Iterator[Comparison | Table]:
    """Measure each way, then kill each, three nodes.

    Args:
        bench: What suites are given.
    """
    rows = bench.sized(full=6_000_000, quick=2_000_000)
    periods = Periods(prefix="alternatives", names=["2026-10"], rows=rows, files=_FILES)
    ways = [way for way in WAYS if _is_there(bench, way)]
    with bench.s3() as s3, ClickHouseCluster.start(_NODES) as cluster:
        s3.endpoint.client().create_bucket(Bucket=BUCKET)
        periods.upload(s3.endpoint)
        arena = Arena(cluster=cluster, s3=s3.endpoint, periods=periods)
        with held_to(_CORES, cluster) as size:
            yield _measure(bench, arena, ways, size)
            yield _strike(bench, arena, [*ways, *([AFTER_DROP] if _is_there(bench, AFTER_DROP) else [])])


def _is_there(bench: TrialContext, way: Way) -> bool:
    missing = [name for name in way.needs if importlib.util.find_spec(name) is None]
    if missing:
        bench.say(f"Skipped: {way.name}, as {', '.join(missing)} is not installed.")
    return not missing


def _measure(bench: TrialContext, arena: Arena, ways: Sequence[Way], size: str) -> Comparison:
    variants = {_name(way): lambda way=way: _measured(arena, way) for way in ways}
    rows = f"{arena.periods.total_rows:,} rows in {_FILES} files"
    return Comparison(
        title=f"One period loaded in {len(ways)} ways: {rows}, {_NODES} nodes {size}",
        variants=list(variants),
        figures=[SECONDS, _CPU, _MEMORY],
        rounds=measure_in_turns(
            "Ways",
            variants,
            rounds=1 if bench.is_quick else min(bench.rounds, _MOST_ROUNDS),
            console=bench.console,
            # Each worker is a new process, and would take minutes.
            warm_up=False,
        ),
    )


def _name(way: Way) -> str:
    return f"{way.name} (from {_FEW_FILES} files)" if way.is_slow else way.name


def _measured(arena: Arena, way: Way) -> Figures:
    if not way.is_slow:
        return _load(arena, way, _FILES)
    one, few = _load(arena, way, 1), _load(arena, way, _FEW_FILES)
    # Imports and connections take their time once, and each file its own.
    times = (_FILES - _FEW_FILES) / (_FEW_FILES - 1)
    grown = {figure: few[figure] + times * (few[figure] - one[figure]) for figure in (SECONDS, _CPU)}
    return {**grown, _MEMORY: few[_MEMORY]}


def _load(arena: Arena, way: Way, files: int) -> Figures:
    with arena.table(files) as given:
        taken = arena.start(way, given).taken()
        rows, expected = arena.rows(given), arena.expected_rows(files)
    if rows != expected:
        raise RuntimeError(f"{way.name}: the table holds {rows} rows, the files {expected}.")
    return {SECONDS: taken.seconds, _CPU: taken.cpu_seconds, _MEMORY: taken.memory_mib}


def _strike(bench: TrialContext, arena: Arena, ways: Sequence[Way]) -> Table:
    struck = []
    for way in ways:
        bench.say(f"Kill and retry: {way.name}")
        struck.append(_killed_and_retried(arena, way))
    of_package = next(row for row in struck if row["load"] == PACKAGE.name)
    expected, found = of_package["rows expected"], of_package["rows after the retry"]
    claim = f"{PACKAGE.name}: as many rows after the retry as expected"
    return Table(
        title="A worker killed (kill -9) during the load, and a retry by another worker",
        rows=struck,
        verdicts=[Verdict(claim=claim, found=f"{found:,} of {expected:,}", is_met=found == expected)],
    )


def _killed_and_retried(arena: Arena, way: Way) -> dict[str, str | float]:
    """Rows when all queries of the dead worker have ended, and after the retry."""
    files = _FEW_FILES if way.is_slow else _FILES
    expected = arena.expected_rows(files)
    with arena.table(files) as given:
        worker = arena.start(way, given)
        _until(lambda: not worker.process.is_alive() or arena.written_rows(given) > 0, f"{way.name}: to write")
        time.sleep(_KILLED_AFTER_SECONDS)
        was_alive = worker.process.is_alive()
        worker.kill()
        _until(lambda: not arena.has_queries(), f"{way.name}: its queries to end")
        after_kill = arena.rows(given) if was_alive else "it had already ended"
        arena.start(way, given).taken()
        return {
            "load": way.name,
            "rows expected": expected,
            "rows after the kill": after_kill,
            "rows after the retry": arena.rows(given),
        }


def _until(ready: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while not ready():
        if time.monotonic() > deadline:
            raise TimeoutError(f"Waited too long for {what}.")
        time.sleep(0.02)
