"""A day's file whose late rows belong to sixty old partitions: by arrival, and by the plain INSERT."""

from __future__ import annotations

import io
import shutil
import time
from collections.abc import Callable, Iterator
from statistics import median

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.trips import Trips
from tests.benchmarks.lake import BUCKET, TABLE, Lake, months
from tests.benchmarks.measure import SECONDS
from tests.benchmarks.rounds import Comparison, Figures, measure_in_turns
from tests.benchmarks.suite import TrialContext

TITLE = "Files by arrival"

_PLAIN, _PACKAGE = "plain INSERT", "this package, by arrival"
_OLD = months(2021, 60)
_NEWEST = "2026-01"
_LATE_SHARE = 0.01
_MS_OF_A_PARTITION = 15
_KEY = "arrived/{YYYY-MM-DD}/*.parquet"


def run(bench: TrialContext) -> Iterator[Comparison]:
    """Add a day's file to a table that holds sixty months: on one node, on a server of Debian's, and on three nodes."""
    rows = bench.sized(full=1_000_000, quick=200_000)
    with bench.s3() as s3:
        s3.endpoint.client().create_bucket(Bucket=BUCKET)
        for day, late, newest in (("01", rows, rows), ("02", int(rows * _LATE_SHARE), int(rows * (1 - _LATE_SHARE)))):
            content = _file_of(int(day), late // len(_OLD), newest)
            s3.endpoint.client().put_object(Bucket=BUCKET, Key=f"arrived/2026-01-{day}/0.parquet", Body=content)
        server = "server" if shutil.which("clickhouse-server") else ""
        for nodes, program in ((1, ""), *([(1, server)] if server else []), (3, "")):
            with ClickHouseCluster.start(nodes, program=program) as cluster:
                lake = Lake(cluster, s3.endpoint, f"bench_arrivals_{nodes}")
                where = f"{nodes} node{'s' if nodes > 1 else ''}{', a server of 25.8' if program else ''}"
                yield _compared(bench, lake, where)


def _file_of(seed: int, rows_of_old: int, rows_of_newest: int) -> bytes:
    """A Parquet file with rows of all months."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = [Trips(seed=seed, rows_per_period=rows_of_old, files_per_period=1).table(period) for period in _OLD]
    tables.append(Trips(seed=seed, rows_per_period=rows_of_newest, files_per_period=1).table(_NEWEST))
    content = io.BytesIO()
    pq.write_table(pa.concat_tables(tables), content)
    return content.getvalue()


def _compared(bench: TrialContext, lake: Lake, where: str) -> Comparison:
    def plain() -> None:
        lake.insert_files("arrived/2026-01-02/*.parquet", "Parquet", {})

    def by_arrival() -> None:
        lake.load_files(_KEY, "2026-01-02", on_other_periods="spread", on_deleted_objects="remove")

    found: dict[str, tuple[int, int]] = {}
    variants = {
        _PLAIN: _timed(lake, _PLAIN, plain, found),
        _PACKAGE: _timed(lake, _PACKAGE, by_arrival, found),
    }
    title = f"a file with 1 % of its rows in {len(_OLD)} old months, {where}"
    rounds = measure_in_turns(title, variants, rounds=bench.rounds, console=bench.console)
    partitions = (len(_OLD) + 1) * len(lake.cluster.nodes)
    rest = median(
        (of[_PACKAGE][SECONDS] - partitions * _MS_OF_A_PARTITION / 1000) / of[_PLAIN][SECONDS] for of in rounds
    )
    aim = f"at most 1.5 times the plain INSERT and {_MS_OF_A_PARTITION} ms for each of {partitions} partitions of nodes"
    return Comparison(
        title=title,
        variants=list(variants),
        figures=[SECONDS],
        rounds=rounds,
        aim=f"{aim}; without these, it takes {rest:.2f} times the plain INSERT",
    )


def _timed(
    lake: Lake, variant: str, load: Callable[[], None], found: dict[str, tuple[int, int]]
) -> Callable[[], Figures]:
    def measure() -> Figures:
        lake.start_afresh()
        lake.load_files(_KEY, "2026-01-01", on_other_periods="spread")
        began = time.monotonic()
        load()
        seconds = time.monotonic() - began
        hashes = lake.ask_every_node(f"SELECT toUInt64(coalesce(sum(cityHash64(tuple(*))), 0)) FROM {TABLE}")
        found[variant] = (lake.rows(), sum(hashes) % 2**64)
        if len(set(found.values())) > 1:
            raise RuntimeError(f"The tables differ: {found}.")
        return {SECONDS: seconds}

    return measure
