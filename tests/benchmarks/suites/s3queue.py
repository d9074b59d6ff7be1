"""The same files by this package, a plain INSERT and S3Queue, and what each makes of a kill and of other files."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import count

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.programs import keeper
from airflow_provider_chs3.testbed.trips import COLUMNS, Trips
from tests.benchmarks.lake import BUCKET, RECORDS, TABLE, Lake, Periods
from tests.benchmarks.measure import SECONDS, wait_until
from tests.benchmarks.rounds import Comparison, Figures, Table, Verdict, measure_in_turns
from tests.benchmarks.suite import TrialContext

TITLE = "Beside S3Queue"
#: Real servers, and a ZooKeeper of Debian's.
IN_QUICK = False

_PERIOD = "2026-10"
_FILES = 12
_EXACT = "exact"
_NUMBERS = count(1)


@dataclass(frozen=True, kw_only=True)
class Bucket:
    """A lake, and the period that is loaded into it."""

    lake: Lake
    periods: Periods

    @property
    def folder(self) -> str:
        """The folder of the files."""
        return f"{self.periods.prefix}/{_PERIOD}"

    @property
    def source(self) -> str:
        """The arguments of what reads the files."""
        s3 = self.lake.s3
        return f"'{s3.endpoint_url}/{BUCKET}/{self.folder}/*.parquet', '{s3.access_key}', '{s3.secret_key}', 'Parquet'"

    def differences(self) -> str:
        """Compare the table with the files, row by row."""
        structure = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items()).replace("'", "\\'")
        name = self.lake.cluster.name
        sql = (
            "SELECT sum(greatest(in_files - in_table, 0)), sum(greatest(in_table - in_files, 0)) FROM ("
            "SELECT hash, countIf(NOT is_of_file) AS in_table, countIf(is_of_file) AS in_files FROM ("
            f"SELECT cityHash64(tuple(*)) AS hash, true AS is_of_file FROM s3({self.source}, '{structure}') UNION ALL "
            f"SELECT cityHash64(tuple(*)), false FROM cluster('{name}', default, {TABLE})) GROUP BY hash)"
        )
        with self.lake.cluster.nodes[0].client() as client:
            ((missing, surplus),) = client.execute(sql)
        wrong = {"missing": missing, "too many": surplus}
        return ", ".join(f"{rows:,} rows {how}" for how, rows in wrong.items() if rows) or _EXACT


@dataclass(frozen=True, kw_only=True)
class Way:
    """A way of loading: its preparation, which is not timed, the load, and how long it may go on unseen."""

    name: str
    load: Callable[[Bucket], None]
    prepare: Callable[[Bucket], None] = lambda _: None
    unseen_seconds: float = 0.0


def _load_by_package(bucket: Bucket) -> None:
    bucket.lake.load(bucket.periods, _PERIOD)


def _insert(bucket: Bucket) -> None:
    bucket.lake.insert(bucket.periods, _PERIOD, {})


def _create_queue(bucket: Bucket) -> None:
    columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    settings = f"mode = 'unordered', keeper_path = '/queues/{next(_NUMBERS)}'"
    bucket.lake.ask_every_node(f"CREATE TABLE queue ({columns}) ENGINE = S3Queue({bucket.source}) SETTINGS {settings}")


def _feed_from_queue(bucket: Bucket) -> None:
    bucket.lake.ask_every_node(f"CREATE MATERIALIZED VIEW IF NOT EXISTS feed TO {TABLE} AS SELECT * FROM queue")
    wait_until(lambda: bucket.lake.rows() >= bucket.periods.total_rows, "all rows of the queue")


_PACKAGE = Way(name="this package", load=_load_by_package)
_WAYS = (
    _PACKAGE,
    Way(name="plain INSERT", load=_insert),
    # It looks for files every second, and begins anew some seconds after an error.
    Way(name="S3Queue and a view", load=_feed_from_queue, prepare=_create_queue, unseen_seconds=20),
)


def run(bench: TrialContext) -> Iterator[Comparison | Table]:
    """Time each way on one server and on three, and see what each leaves on one."""
    if why := keeper.missing() or ("" if shutil.which("clickhouse-server") else "Needs Debian's clickhouse-server."):
        bench.say(why)
        return
    small, large = (
        Periods(prefix=f"of-{rows}", names=[_PERIOD], rows=bench.sized(full=rows, quick=rows // 10), files=_FILES)
        for rows in (2_000_000, 24_000_000)
    )
    with bench.s3() as s3:
        s3.endpoint.client().create_bucket(Bucket=BUCKET)
        for periods in (small, large):
            periods.upload(s3.endpoint)
        for nodes in (1, 3):
            # Replicated databases are not used, but come with the ZooKeeper that a queue needs.
            with ClickHouseCluster.start(nodes, program="server", replicated_databases=True) as cluster:
                lake = Lake(cluster, s3.endpoint, f"bench_s3queue_{nodes}")
                for periods in (small, large):
                    yield _compared(bench, Bucket(lake=lake, periods=periods))
                if nodes == 1:
                    yield _events(bench, Bucket(lake=lake, periods=small))


def _start_afresh(way: Way, bucket: Bucket) -> None:
    bucket.lake.ask_every_node("DROP TABLE IF EXISTS feed SYNC")
    bucket.lake.ask_every_node("DROP TABLE IF EXISTS queue SYNC")
    bucket.lake.start_afresh()
    way.prepare(bucket)


def _compared(bench: TrialContext, bucket: Bucket) -> Comparison:
    nodes = len(bucket.lake.cluster.nodes)
    title = f"{bucket.periods.total_rows:,} rows in {_FILES} files, {nodes} server{'s' * (nodes > 1)} of 25.8"
    variants = {way.name: lambda way=way: _timed(way, bucket) for way in _WAYS}
    rounds = measure_in_turns(title, variants, rounds=bench.rounds, console=bench.console, warm_up=False)
    return Comparison(title=title, variants=list(variants), figures=[SECONDS], rounds=rounds)


def _timed(way: Way, bucket: Bucket) -> Figures:
    _start_afresh(way, bucket)
    began = time.monotonic()
    way.load(bucket)
    seconds = time.monotonic() - began
    if (found := bucket.differences()) != _EXACT:
        raise RuntimeError(f"{way.name}: {found}.")
    return {SECONDS: seconds}


def _events(bench: TrialContext, bucket: Bucket) -> Table:
    """Each way through a night that fails, and through one with other files."""
    after = {}
    for way in _WAYS:
        bench.say(f"Killed, overwritten, deleted: {way.name}")
        after[way.name] = _struck(way, replace(bucket, periods=_uploaded(bucket, way)))
    of_package = after[_PACKAGE.name].values()
    return Table(
        title="The rows of the table beside those of the files, after each way was run again",
        rows=[{"way": name, **differences} for name, differences in after.items()],
        verdicts=[
            Verdict(
                claim=f"{_PACKAGE.name}: exactly the rows of the files after each of these",
                found=", ".join(of_package),
                is_met=set(of_package) == {_EXACT},
            )
        ],
    )


def _uploaded(bucket: Bucket, way: Way) -> Periods:
    """Upload the same files once more, for one way alone."""
    periods = replace(bucket.periods, prefix=f"struck-{_WAYS.index(way)}")
    periods.upload(bucket.lake.s3)
    return periods


def _struck(way: Way, bucket: Bucket) -> dict[str, str]:
    """Return the differences after each event, and another run."""
    key, s3 = f"{bucket.folder}/000.parquet", bucket.lake.s3.client()
    other = Trips(seed=_FILES, rows_per_period=bucket.periods.rows // _FILES, files_per_period=1)
    ((_, other_rows),) = other.files(_PERIOD)
    _start_afresh(way, bucket)
    _kill_during(way, bucket)
    after = {"the server was killed": _after_run(way, bucket)}
    _start_afresh(way, bucket)
    way.load(bucket)
    s3.put_object(Bucket=BUCKET, Key=key, Body=other_rows)
    after["a file was overwritten"] = _after_run(way, bucket)
    s3.delete_object(Bucket=BUCKET, Key=key)
    after["a file was deleted"] = _after_run(way, bucket)
    return after


def _after_run(way: Way, bucket: Bucket) -> str:
    way.load(bucket)
    time.sleep(way.unseen_seconds)
    return bucket.differences()


def _kill_during(way: Way, bucket: Bucket) -> None:
    """Kill the server when it has written rows, and start it again."""
    written = f"SELECT sum(rows) FROM system.parts WHERE active AND database = 'default' AND table NOT IN {RECORDS}"
    cluster = bucket.lake.cluster
    with ThreadPoolExecutor(1) as pool:
        load = pool.submit(way.load, bucket)
        wait_until(lambda: bucket.lake.ask_every_node(written) > [0], f"{way.name}: to write")
        cluster.kill(0)
        cluster.restart(0)
        # Of a lost connection, if the way does not go on by itself.
        load.exception()
