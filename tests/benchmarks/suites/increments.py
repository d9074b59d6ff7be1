"""Nights in which a period gets one file each: new objects alone, the period whole, and plain appends of each file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.trips import COLUMNS, Trips
from tests.benchmarks.lake import BUCKET, TABLE, Lake, Periods
from tests.benchmarks.measure import SECONDS
from tests.benchmarks.rounds import Comparison, Figures, Gate, measure_in_turns
from tests.benchmarks.suite import TrialContext

TITLE = "Increments"

_APPENDS, _PACKAGE, _WHOLE = "plain append of each file", "this package", "this package, incremental=False"
_INSERT = "seconds of inserts"
_WRITTEN = "rows inserted per row of the period"
_NIGHT, _REST = "seconds a night", "of these, all but the insert: seconds"
_NODES_CPU = "all nodes' CPU seconds a night"
#: Between the end of a night and the next one, as a load that began within another's end starts over: it may have
#: listed objects before.
_PAUSE_SECONDS = 1.0
_PERIOD = "2026-01"
_LATE_FILES = 24
_ADDED, _OVERWRITTEN = "its last file, added", "its last file, overwritten, with object_column"


def run(bench: TrialContext) -> Iterator[Comparison]:
    """Load a file a night on three nodes, then one late file into a period that takes long."""
    nights = bench.sized(full=30, quick=8)
    periods = Periods(
        prefix="pool", names=[_PERIOD], rows=nights * bench.sized(full=400_000, quick=50_000), files=nights
    )
    with bench.s3() as s3, ClickHouseCluster.start(3) as three:
        s3.endpoint.client().create_bucket(Bucket=BUCKET)
        periods.upload(s3.endpoint)
        lake = Lake(three, s3.endpoint, "bench_increments")
        yield _nights(bench, lake, periods)
        yield _late_file(bench, lake)


def _nights(bench: TrialContext, lake: Lake, periods: Periods) -> Comparison:
    variants = {
        _APPENDS: _played(lake, periods, "appends", lambda key: _append(lake, periods, key)),
        _PACKAGE: _played(lake, periods, "increments", lambda _: _load(lake, "increments")),
        _WHOLE: _played(lake, periods, "whole", lambda _: _load(lake, "whole", incremental=False)),
    }
    title = f"{periods.files} nights, {periods.rows // periods.files:,} rows each, three nodes"
    rounds = measure_in_turns("nights", variants, rounds=bench.rounds, console=bench.console, warm_up=False)
    return Comparison(
        title=title,
        variants=list(variants),
        figures=[SECONDS, _INSERT, _NIGHT, _NODES_CPU, _WRITTEN],
        rounds=rounds,
        beside={_REST: {name: f"{median(each[name][_REST] for each in rounds):.2f}" for name in variants}},
        aim="rows inserted: at most 1.05 of the period's; inserts: at most 1.1 times the appends",
        gates=[
            Gate(variant=_PACKAGE, figure=_WRITTEN, at_most=1.05, is_ratio=False),
            Gate(variant=_PACKAGE, figure=_INSERT, at_most=1.1),
            Gate(variant=_PACKAGE, figure=_NIGHT, at_most=1.1, is_ratio=False),
            Gate(variant=_PACKAGE, figure=_NODES_CPU, at_most=1.3, is_ratio=False),
        ],
    )


def _played(
    lake: Lake, periods: Periods, prefix: str, load: Callable[[str], tuple[float, int]]
) -> Callable[[], Figures]:
    """Play all nights on an empty table; the time in which files come, and until they do, does not count."""

    def measure() -> Figures:
        lake.start_afresh()
        client = lake.s3.client()
        _empty(client, prefix)
        seconds = insert_seconds = rows = 0.0
        began_at = time.time()
        for night in range(periods.files):
            key = f"{prefix}/{_PERIOD}/{night:03}.parquet"
            source = {"Bucket": BUCKET, "Key": f"{periods.prefix}/{_PERIOD}/{night:03}.parquet"}
            client.copy_object(Bucket=BUCKET, Key=key, CopySource=source)
            time.sleep(_PAUSE_SECONDS)
            start = time.monotonic()
            inserted = load(key)
            seconds += time.monotonic() - start
            insert_seconds, rows = insert_seconds + inserted[0], rows + inserted[1]
        if lake.rows() != periods.total_rows:
            raise RuntimeError(f"The table holds {lake.rows()} rows, the files {periods.total_rows}.")
        return {
            SECONDS: seconds,
            _INSERT: insert_seconds,
            _NIGHT: seconds / periods.files,
            _REST: (seconds - insert_seconds) / periods.files,
            _NODES_CPU: _cpu_seconds(lake, began_at) / periods.files,
            _WRITTEN: rows / periods.total_rows,
        }

    return measure


def _cpu_seconds(lake: Lake, began_at: float) -> float:
    """Return the cost of all queries since then on all nodes; `_played` asks little besides."""
    lake.ask_every_node("SYSTEM FLUSH LOGS")
    used = "ProfileEvents['UserTimeMicroseconds'] + ProfileEvents['SystemTimeMicroseconds']"
    since = f"toFloat64(event_time_microseconds) >= {began_at}"
    return sum(
        lake.ask_every_node(f"SELECT sum({used}) / 1e6 FROM system.query_log WHERE type != 'QueryStart' AND {since}")
    )


def _empty(client: Any, prefix: str) -> None:
    for each in client.list_objects_v2(Bucket=BUCKET, Prefix=f"{prefix}/").get("Contents", ()):
        client.delete_object(Bucket=BUCKET, Key=each["Key"])


def _append(lake: Lake, periods: Periods, key: str) -> tuple[float, int]:
    start = time.monotonic()
    lake.insert_files(key, "Parquet", {})
    return time.monotonic() - start, periods.rows // periods.files


def _load(lake: Lake, prefix: str, **options: Any) -> tuple[float, int]:
    result = lake.load_files(f"{prefix}/{{YYYY-MM}}/*.parquet", _PERIOD, **options)
    return result["insert_seconds"], result["loaded_rows"]


def _late_file(bench: TrialContext, lake: Lake) -> Comparison:
    """A file of 1/24 of a period that takes about a minute to load whole."""
    rows = bench.sized(full=60_000_000, quick=2_400_000)
    periods = Periods(prefix="late", names=[_PERIOD], rows=rows, files=_LATE_FILES, copies=_LATE_FILES)
    periods.upload(lake.s3)
    changes = _Changes(lake, periods)

    def measured(load: Callable[[], Figures]) -> Callable[[], Figures]:
        def measure() -> Figures:
            lake.start_afresh()
            return load()

        return measure

    variants = {
        "the whole period": measured(lambda: _timed(lambda: _load(lake, "late", incremental=False))),
        _ADDED: measured(changes.add),
        _OVERWRITTEN: measured(changes.overwrite),
    }
    rounds = measure_in_turns("late file", variants, rounds=bench.rounds, console=bench.console, warm_up=False)
    return Comparison(
        title=f"A late file of 1/{_LATE_FILES} of a period, {periods.total_rows:,} rows, three nodes",
        variants=list(variants),
        figures=[SECONDS],
        rounds=rounds,
        aim="added: at most 10% of the whole load; overwritten, of merged parts: at most half",
        gates=[
            Gate(variant=_ADDED, figure=SECONDS, at_most=0.1),
            Gate(variant=_OVERWRITTEN, figure=SECONDS, at_most=0.5),
        ],
    )


class _Changes:
    """Loads of a period after its last file changed."""

    def __init__(self, lake: Lake, periods: Periods) -> None:
        self._lake, self._client = lake, lake.s3.client()
        self._last = f"late/{_PERIOD}/{_LATE_FILES - 1:03}.parquet"
        self._body = self._client.get_object(Bucket=BUCKET, Key=self._last)["Body"].read()
        others = Trips(seed=1, rows_per_period=periods.rows // _LATE_FILES, files_per_period=1)
        ((_, self._other_body),) = others.files(_PERIOD)

    def add(self) -> Figures:
        self._client.delete_object(Bucket=BUCKET, Key=self._last)
        _load(self._lake, "late")
        self._put(self._body)
        return _timed(lambda: _load(self._lake, "late"))

    def overwrite(self) -> Figures:
        lake = self._lake
        lake.ask_every_node(f"ALTER TABLE {TABLE} ADD COLUMN source LowCardinality(String)")
        options = {"object_column": "source", "select": {**{name: name for name in COLUMNS}, "source": "_path"}}
        _load(lake, "late", **options)
        lake.ask_every_node(f"OPTIMIZE TABLE {TABLE} FINAL")
        self._put(self._other_body)
        try:
            return _timed(lambda: _load(lake, "late", **options))
        finally:
            self._put(self._body)

    def _put(self, body: bytes) -> None:
        self._client.put_object(Bucket=BUCKET, Key=self._last, Body=body)


def _timed(load: Callable[[], object]) -> Figures:
    start = time.monotonic()
    load()
    return {SECONDS: time.monotonic() - start}
