"""The same period by the ways that people use, and by this package: what it takes, and what a kill leaves."""

from __future__ import annotations

import importlib.util
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from statistics import median
from typing import Any

from clickhouse_driver import Client

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.s3 import S3Endpoint
from airflow_provider_chs3.testbed.trips import COLUMNS, create_table_sql
from tests.benchmarks.forked import Forked
from tests.benchmarks.lake import BUCKET, Periods
from tests.benchmarks.measure import SECONDS, wait_until
from tests.benchmarks.rounds import Comparison, Figures, Table, Verdict, measure_in_turns
from tests.benchmarks.servers import held_to
from tests.benchmarks.suite import TrialContext
from tests.benchmarks.ways import KILLED_TOO, PACKAGE, TABLE, WAYS, Given, Way

TITLE = "Against what people do"

_CPU = "worker's CPU seconds"
_MEMORY = "worker's MiB above Airflow's"
#: Nodes to the part of a core that each has: beside three there must be some left for the worker.
_CLUSTERS = {1: 1.0, 3: 0.5}
_SMALL, _LARGE = 2_000_000, 24_000_000
_FILES = 12
#: So many are loaded by a way that would take minutes.
_FEW_FILES = 2
_MOST_ROUNDS = 3
_EXACT = "exact"
_NUMBERS = count(1)
#: A checksum of a row, the same in whatever types its values are kept.
_HASH = ", ".join(
    f"toString(toDateTime64({name}, 6, 'UTC'))" if kind.startswith("DateTime") else f"ifNull(toString({name}), 'NULL')"
    for name, kind in COLUMNS.items()
)


@dataclass(frozen=True)
class Contents:
    """The contents of a table, or of files."""

    rows: int
    different: int
    checksum: int

    def beside(self, expected: Contents) -> str:
        """Return what is wrong with them."""
        if self == expected:
            return _EXACT
        missing = expected.different - self.different
        wrong = {"missing": missing, "twice or more": self.rows - expected.rows + missing}
        return ", ".join(f"{rows:,} {how}" for how, rows in wrong.items() if rows) or "as many rows, other values"


@dataclass(frozen=True, kw_only=True)
class Arena:
    """The servers, and the period to load."""

    cluster: ClickHouseCluster
    s3: S3Endpoint
    periods: Periods

    @contextmanager
    def table(self, files: int | None) -> Iterator[Given]:
        """An empty table in a database of its own, with nothing that an earlier load has left."""
        database = f"bench_{next(_NUMBERS)}"
        self._on_each_node(f"CREATE DATABASE {database}", create_table_sql(f"{database}.{TABLE}"))
        with tempfile.TemporaryDirectory(prefix="chs3-bench-worker-") as folder:
            yield Given(
                folder=folder,
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

    def expected(self, files: int) -> Contents:
        """Return the contents of the first files, this many."""
        return self._expected[files]

    def contents(self, given: Given, table: str) -> Contents:
        """Return the contents of a table on all nodes."""
        found = f"clusterAllReplicas('{self.cluster.name}', system.tables)"
        if not self._clients[0].execute(
            f"SELECT 1 FROM {found} WHERE (database, name) = ('{given.database}', '{table}')"
        ):
            return Contents(0, 0, 0)
        # dlt makes its table on one node.
        place = (
            f"cluster('{self.cluster.name}', {given.database}, {table})"
            if table == TABLE
            else f"{given.database}.{table}"
        )
        return self._contents(place)

    def written_rows(self, given: Given) -> int:
        """Rows of all tables of the load, staging tables too."""
        return self._sum(
            f"SELECT sum(rows) FROM system.parts WHERE active AND database = '{given.database}' "
            "AND NOT match(table, '^chs3_(ledger|loads|objects)$|_dlt_')"
        )

    def has_queries(self) -> bool:
        """Whether any node works for a worker still."""
        return self._sum("SELECT count() - 1 FROM system.processes WHERE user = 'loader'") > 0

    @cached_property
    def _clients(self) -> list[Client]:
        """Open all the time: a busy node takes long to let one in."""
        return [node.client() for node in self.cluster.nodes]

    @cached_property
    def _expected(self) -> dict[int, Contents]:
        """Read from the files themselves, before any clock starts."""
        folder = f"{self.s3.endpoint_url}/{BUCKET}/{self.periods.prefix}/{self.periods.names[0]}"
        keys = f"'{self.s3.access_key}', '{self.s3.secret_key}', 'Parquet'"
        numbers = {files: ",".join(f"{number:03}" for number in range(files)) for files in (1, _FEW_FILES, _FILES)}
        return {files: self._contents(f"s3('{folder}/{{{some}}}.parquet', {keys})") for files, some in numbers.items()}

    def _contents(self, place: str) -> Contents:
        hashes = f"SELECT cityHash64({_HASH}) AS hash FROM {place}"
        return Contents(*self._clients[0].execute(f"SELECT count(), uniqExact(hash), sum(hash) FROM ({hashes})")[0])

    def _sum(self, sql: str) -> int:
        return sum(client.execute(sql)[0][0] for client in self._clients)

    def _on_each_node(self, *statements: str) -> None:
        for node in self.cluster.nodes:
            with node.client() as client:
                for sql in statements:
                    client.execute(sql)


def run(bench: TrialContext) -> Iterator[Comparison | Table]:
    """Measure each way, then kill each, on one node and on three; those that take minutes for a small period only."""
    small, *large = (
        Periods(prefix=f"of-{rows}", names=["2026-10"], rows=bench.sized(full=rows, quick=rows), files=_FILES)
        for rows in (_SMALL, *([] if bench.is_quick else [_LARGE]))
    )
    struck, measured = [], dict[str, Comparison]()
    with bench.s3() as s3:
        s3.endpoint.client().create_bucket(Bucket=BUCKET)
        for periods in (small, *large):
            periods.upload(s3.endpoint)
        for nodes, cores in _CLUSTERS.items():
            ways = [way for way in [*WAYS, KILLED_TOO] if _is_for(way, nodes) and _is_there(bench, way)]
            with ClickHouseCluster.start(nodes) as cluster, held_to(cores, cluster) as size:
                arena = Arena(cluster=cluster, s3=s3.endpoint, periods=small)
                for periods in (small, *large):
                    timed = [way for way in ways if way != KILLED_TOO and not (way.is_slow and periods in large)]
                    found = _measure(bench, replace(arena, periods=periods), timed, size)
                    rows = f"{round(periods.total_rows / 1_000_000)} million rows"
                    measured[f"seconds, {rows}, {nodes} node{'s' * (nodes > 1)}"] = found
                    yield found
                struck += _strike(bench, arena, ways)
    yield _killed(struck)
    yield _chosen_between(measured, struck)


def _is_for(way: Way, nodes: int) -> bool:
    # Ways that take minutes write to one node, however many there are.
    return not (way.is_of_several if nodes == 1 else way.is_slow)


def _is_there(bench: TrialContext, way: Way) -> bool:
    missing = [name for name in way.needs if importlib.util.find_spec(name) is None]
    if missing:
        bench.say(f"Skipped: {way.name}, as {', '.join(missing)} is not installed.")
    return not missing


def _measure(bench: TrialContext, arena: Arena, ways: Sequence[Way], size: str) -> Comparison:
    variants = {_name(way): lambda way=way: _measured(arena, way) for way in ways}
    rows = f"{arena.periods.total_rows:,} rows in {_FILES} files"
    nodes = "one node" if len(arena.cluster.nodes) == 1 else f"{len(arena.cluster.nodes)} nodes"
    return Comparison(
        title=f"One period loaded in {len(ways)} ways: {rows}, {nodes} {size}",
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
    expected = arena.expected(files)
    with arena.table(files) as given:
        taken = arena.start(way, given).taken()
        found = arena.contents(given, way.table).beside(expected)
    if found != _EXACT:
        raise RuntimeError(f"{way.name}: the table is not what the files are: {found}.")
    return {SECONDS: taken.seconds, _CPU: taken.cpu_seconds, _MEMORY: taken.memory_mib}


def _strike(bench: TrialContext, arena: Arena, ways: Sequence[Way]) -> Iterator[dict[str, str | float]]:
    for way in ways:
        bench.say(f"Kill and retry: {way.name}")
        yield _killed_and_retried(arena, way)


def _killed(struck: Sequence[Mapping[str, str | float]]) -> Table:
    of_package = [row["after the retry"] for row in struck if row["load"] == PACKAGE.name]
    return Table(
        title="A worker killed (kill -9) during the load, and a retry by another worker",
        rows=struck,
        verdicts=[
            Verdict(
                claim=f"{PACKAGE.name}: exactly the files' rows and values after the retry, on one node and on three",
                found=", ".join(map(str, of_package)),
                is_met=set(of_package) == {_EXACT},
            )
        ],
    )


def _chosen_between(measured: Mapping[str, Comparison], struck: Sequence[Mapping[str, Any]]) -> Table:
    """Tabulate a reader's choices: a way, its cost, and the table's contents if it is killed and tried again."""

    def seconds(way: Way, found: Comparison) -> str:
        return f"{median(found.values(_name(way), SECONDS)):.1f}" if _name(way) in found.variants else "–"

    def after_kill(way: Way) -> dict[str, str]:
        *_, last = [row for row in struck if row["load"] == way.name]
        left = last["rows after the kill"]
        share = f"{left / last['rows expected']:.0%}" if isinstance(left, int) else left
        return {"killed: rows until the retry": share, "and after it": str(last["after the retry"])}

    return Table(
        title="What to choose between",
        rows=[
            {
                "way": way.name,
                **{title: seconds(way, found) for title, found in measured.items()},
                **after_kill(way),
            }
            for way in WAYS
            if any(_name(way) in each.variants for each in measured.values())
        ],
    )


def _killed_and_retried(arena: Arena, way: Way) -> dict[str, str | float]:
    """Return the contents when all queries of the dead worker have ended, and after the retry."""
    files = _FEW_FILES if way.is_slow else _FILES
    expected = arena.expected(files)
    with arena.table(files) as given, tempfile.TemporaryDirectory(prefix="chs3-bench-worker-") as other:
        worker = arena.start(way, given)
        wait_until(lambda: not worker.process.is_alive() or arena.written_rows(given) > 0, f"{way.name}: to write")
        was_alive = worker.process.is_alive()
        worker.kill()
        wait_until(lambda: not arena.has_queries(), f"{way.name}: its queries to end")
        after_kill = arena.contents(given, way.table).rows if was_alive else "it had already ended"
        arena.start(way, given if way.is_on_same_disk else replace(given, folder=other)).taken()
        found = arena.contents(given, way.table)
        return {
            "nodes": str(len(arena.cluster.nodes)),
            "load": way.name,
            "rows expected": expected.rows,
            "rows after the kill": after_kill,
            "rows after the retry": found.rows,
            "after the retry": found.beside(expected),
        }
