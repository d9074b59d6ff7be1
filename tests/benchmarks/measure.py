"""One load, and what it does to the servers: parts, merges, memory. The table may be any, partitioned or not."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.benchmarks.lake import STAGING, TABLE, Lake, Periods
from tests.benchmarks.rounds import Figures

SECONDS = "seconds"
HEALTHY = "healthy after seconds"
PARTS = "parts written"
SPEED = "million rows/s"
MERGED = "MB merged"
MEMORY = "peak memory MB"

#: The most parts that a partition has on a node once its merges have settled, by the sensor's defaults.
_MOST_PARTS = 10
_POLL_SECONDS = 0.1
_TIMEOUT_SECONDS = 300


def wait_until(ready: Callable[[], bool], what: str) -> None:
    """Ask until something has happened, often enough for what is timed."""
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while not ready():
        if time.monotonic() > deadline:
            raise TimeoutError(f"Waited too long for {what}.")
        time.sleep(0.02)


def watched(
    lake: Lake,
    rows: int,
    load: Callable[[], object],
    *,
    staging: bool,
    create_sql: str | None = None,
    is_first: bool = True,
) -> Callable[[], Figures]:
    """Return the measurement of one load, on an empty table."""

    def measure() -> Figures:
        lake.start_afresh(create_sql)
        if not is_first:
            load()
            lake.forget()
        began_at, start = time.time(), time.monotonic()
        load()
        seconds = time.monotonic() - start
        _wait_until_healthy(lake)
        healthy_seconds = time.monotonic() - start
        _check_rows(lake, rows)
        return {
            SECONDS: seconds,
            SPEED: rows / seconds / 1e6,
            PARTS: lake.written_parts(staging=staging),
            MERGED: _merged_bytes(lake) / 1e6,
            HEALTHY: healthy_seconds,
            MEMORY: peak_memory_bytes(lake, began_at) / 1e6,
        }

    return measure


def load_of(lake: Lake, periods: Periods) -> Callable[[], Figures]:
    """Return the measurement of this package's load of one period."""
    (period,) = periods.names
    return watched(lake, periods.total_rows, lambda: lake.load(periods, period), staging=True)


def _check_rows(lake: Lake, rows: int) -> None:
    """A load that loses rows may be as quick as it likes."""
    loaded = lake.rows()
    if loaded != rows:
        raise RuntimeError(f"The table holds {loaded} rows, the files {rows}.")


def _wait_until_healthy(lake: Lake) -> None:
    """As the sensor judges, which knows tables partitioned by period only."""
    sql = (
        f"SELECT (SELECT count() FROM system.merges WHERE table = '{TABLE}') = 0 AND (SELECT max(parts) FROM "
        f"(SELECT count() AS parts FROM system.parts WHERE table = '{TABLE}' AND active GROUP BY partition_id)) "
        f"<= {_MOST_PARTS}"
    )
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while not all(lake.ask_every_node(sql)):
        if time.monotonic() > deadline:
            raise TimeoutError(f"The merges of {TABLE} have not settled within {_TIMEOUT_SECONDS} s.")
        time.sleep(_POLL_SECONDS)


def _merged_bytes(lake: Lake) -> int:
    """Bytes of the parts that merges have made, all nodes; `written_parts` has flushed the log."""
    return sum(
        lake.ask_every_node(
            "SELECT sum(size_in_bytes) FROM system.part_log "
            f"WHERE event_type = 'MergeParts' AND (table = '{TABLE}' OR {STAGING})"
        )
    )


def peak_memory_bytes(lake: Lake, began_at: float) -> int:
    """The most that a query since then took of a node's memory."""
    return max(
        lake.ask_every_node(
            "SELECT max(memory_usage) FROM system.query_log WHERE type = 'QueryFinish' "
            f"AND toFloat64(event_time_microseconds) >= {began_at}"
        )
    )
