"""Attempts that are killed, and attempts at the same time. For workers that die see `tests/faults`."""

from __future__ import annotations

import re
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk.exceptions import AirflowTaskTerminated

from airflow_provider_chs3.exceptions import Chs3Error
from airflow_provider_chs3.testbed.trips import Trips
from tests.support.lake import PERIOD, Lake
from tests.support.slow import SLOW, SLOW_SETTINGS, wait_for_insert

pytestmark = pytest.mark.three_nodes

TRIPS = Trips(rows_per_period=6_000, files_per_period=6)
#: A server notices at the end of a block that the insert is killed.
IN_SMALL_BLOCKS = SLOW_SETTINGS | {"max_block_size": 20}


def start(pool: ThreadPoolExecutor, operator: Any) -> Future[Any]:
    return pool.submit(operator.execute, {})


def test_on_kill_ends_the_queries_and_drops_staging(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    operator = trips_lake.operator(select=SLOW, settings=IN_SMALL_BLOCKS)
    with ThreadPoolExecutor() as pool:
        load = start(pool, operator)
        wait_for_insert(trips_lake)
        operator.on_kill()
        assert trips_lake.left_behind() == []
        with pytest.raises(AirflowTaskTerminated):
            load.result(timeout=300)
    assert not any(trips_lake.rows_per_node())


def test_a_newer_attempt_takes_over_from_one_that_runs(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    with ThreadPoolExecutor() as pool:
        older = start(pool, trips_lake.operator(select=SLOW, settings=IN_SMALL_BLOCKS))
        wait_for_insert(trips_lake)
        assert trips_lake.load()["status"] == "published"
        with pytest.raises(AirflowFailException, match="started later and took over"):
            older.result(timeout=300)
    assert trips_lake.facts() == TRIPS.facts(PERIOD)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("round_", range(3))
def test_of_loads_at_the_same_time_the_rows_are_those_of_one(trips_lake: Lake, round_: int) -> None:
    trips_lake.upload(TRIPS)
    barrier = threading.Barrier(3)

    def load() -> str:
        barrier.wait()
        try:
            return str(trips_lake.load()["status"])
        except (AirflowFailException, Chs3Error) as error:
            return str(error)

    with ThreadPoolExecutor() as pool:
        outcomes = [future.result() for future in [pool.submit(load) for _ in range(3)]]
    published = [outcome for outcome in outcomes if outcome in ("published", "unchanged")]
    assert published, outcomes
    assert all("took over" in outcome for outcome in outcomes if outcome not in published), outcomes
    assert trips_lake.facts() == TRIPS.facts(PERIOD)


@pytest.mark.thorough
def test_progress_tells_rows_share_speed_and_nodes(trips_lake: Lake, capfd: pytest.CaptureFixture[str]) -> None:
    trips_lake.upload(TRIPS)
    slow = {"pickup_at": "pickup_at", "trip_id": "trip_id + sleepEachRow(0.001)"}
    trips_lake.load(select=slow, settings=SLOW_SETTINGS, progress_interval_seconds=0.5)
    log = capfd.readouterr().out
    assert "% of 6,000 rows, " in log
    # Which nodes are still at it when it looks, shard 1 among them or not, is theirs to decide.
    left = r"(, about \d+ s left to read|, [\d,]+ of them written)?"
    assert re.search(rf" rows/s{left} \(reading: shard [123]: ", log)
    assert "published (never loaded): 6,000 rows from 6 objects" in log


def left_of(log: str) -> list[tuple[str, int]]:
    """Lines of progress, with the seconds that they say are left."""
    return [(line, int(left)) for line, left in re.findall(r"(.*about (\d+) s left to read.*)", log)]


@pytest.mark.thorough
def test_progress_never_goes_back_where_shards_are_done_at_different_times(
    trips_lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    trips_lake.upload(Trips(rows_per_period=1_000, files_per_period=5))
    large = Trips(seed=2, rows_per_period=4_000, files_per_period=1)
    large.upload(trips_lake.s3, PERIOD, bucket=trips_lake.bucket, prefix=f"trips/{PERIOD}/large-")
    slow = {"pickup_at": "pickup_at", "trip_id": "trip_id + sleepEachRow(0.001)"}
    trips_lake.load(select=slow, settings=SLOW_SETTINGS, progress_interval_seconds=0.2)
    log = capfd.readouterr().out
    lines = re.findall(r"([0-9]+)% of 5,000 rows, .*\(reading: (.*?)\)", log)
    shares = [int(share) for share, _ in lines]
    shards = [reading.count("shard ") for _, reading in lines]
    # The shard with the large file reads on after the others.
    assert max(shards) > shards[-1], lines
    assert shares == sorted(shares), lines
    # The time left becomes less, or the line says why it does not.
    for (_, before), (line, after) in pairwise(left_of(log)):
        assert after <= before or "more than before: " in line, log
