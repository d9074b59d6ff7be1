"""Rows lost on the way from text in S3 into staging are found, as the insert counts them itself."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.exceptions import TransientError
from airflow_provider_chs3.testbed.trips import Trips
from tests.faults.interposing import storage
from tests.support.lake import PERIOD, Lake
from tests.support.outcome import assert_exact, assert_untouched
from tests.support.proxies import Answer, Fault, StorageProxy, slow, truncated
from tests.support.slow import wait_for_insert
from tests.support.strikes import Strikes

pytestmark = pytest.mark.three_nodes

__all__ = ["storage"]

OLD, NEW = Trips(rows_per_period=600, files_per_period=6), Trips(seed=2, rows_per_period=660, files_per_period=6)


def on_staging(lake: Lake, sql: str) -> None:
    """Run a statement on the staging of one node that has rows."""
    like = f"database = '{lake.database}' AND match(name, '^chs3_[0-9a-f]{{16}}_') AND total_rows > 0"
    for number in range(len(lake.cluster.nodes)):
        for (name,) in lake.on_node(number, f"SELECT name FROM system.tables WHERE {like}"):
            lake.on_node(number, sql.format(staging=f"{lake.database}.{name}"))
            return
    raise AssertionError("nothing is staged")


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    "sql",
    [
        pytest.param(
            "ALTER TABLE {staging} DELETE WHERE trip_id % 2 = 0 SETTINGS mutations_sync = 2", id="some are gone"
        ),
        pytest.param("TRUNCATE TABLE {staging}", id="all of a node are gone"),
        pytest.param("INSERT INTO {staging} SELECT * FROM {staging} LIMIT 1", id="one more"),
    ],
)
def test_other_rows_in_the_staging_of_a_node_than_it_read(trips_lake: Lake, strikes: Strikes, sql: str) -> None:
    trips_lake.upload(OLD, file_format="jsonl")
    strikes.after("Insert", lambda: on_staging(trips_lake, sql))
    with pytest.raises(AirflowFailException, match=r"hold 600 rows, but (?!600)\d+ were staged"):
        trips_lake.load()
    assert_untouched(trips_lake, None)


def during_the_insert(lake: Lake, storage: StorageProxy, strikes: Strikes, act: Callable[[], object]) -> object:
    """Load from a slow storage, and act while the insert runs; gives the result."""
    strikes.before("Insert", lambda: setattr(storage, "fault", slow(0.7)))
    with ThreadPoolExecutor() as pool:
        load = pool.submit(lake.operator(endpoint_url=storage.endpoint_url).execute, {})
        wait_for_insert(lake)
        act()
        storage.fault = None
        return load.result(timeout=300)


@pytest.mark.thorough
def test_staging_that_is_dropped_under_the_insert(trips_lake: Lake, storage: StorageProxy, strikes: Strikes) -> None:
    trips_lake.upload(OLD, file_format="jsonl")

    def drop() -> None:
        like = f"database = '{trips_lake.database}' AND match(name, '^chs3_[0-9a-f]{{16}}_')"
        for number in range(3):
            for (name,) in trips_lake.on_node(number, f"SELECT name FROM system.tables WHERE {like}"):
                trips_lake.on_node(number, f"DROP TABLE {trips_lake.database}.{name}")

    with pytest.raises(AirflowFailException, match=r"started later and took over|hold 600 rows, but 0 were staged"):
        during_the_insert(trips_lake, storage, strikes, drop)
    assert_untouched(trips_lake, None)


def test_objects_that_are_overwritten_during_the_insert(
    trips_lake: Lake, storage: StorageProxy, strikes: Strikes
) -> None:
    trips_lake.upload(OLD, file_format="jsonl")
    during_the_insert(trips_lake, storage, strikes, lambda: trips_lake.upload(NEW, file_format="jsonl"))
    assert_exact(trips_lake, NEW)


def without_the_last_line() -> Fault:
    """Objects that end with their last line but one, as if that were all."""

    def answer(method: str, path: str, true: Answer) -> Answer:
        if method != "GET" or not path.endswith(".jsonl"):
            return true
        return Answer(true.status, true.body[: true.body.rstrip().rindex(b"\n") + 1])

    return answer


def test_objects_of_which_the_storage_sends_less_than_all(
    trips_lake: Lake, storage: StorageProxy, strikes: Strikes
) -> None:
    trips_lake.upload(OLD, file_format="jsonl")
    strikes.before("Insert", lambda: setattr(storage, "fault", without_the_last_line()))
    with pytest.raises(TransientError, match=rf"read \d+ bytes of the 6 objects of {PERIOD}, which have \d+"):
        trips_lake.load(endpoint_url=storage.endpoint_url)
    assert_untouched(trips_lake, None)


@pytest.mark.thorough
def test_a_connection_to_the_storage_that_breaks_is_no_reason_to_read_twice(
    trips_lake: Lake, storage: StorageProxy, strikes: Strikes
) -> None:
    trips_lake.upload(OLD, file_format="jsonl")
    strikes.before("Insert", lambda: setattr(storage, "fault", truncated(is_announced=True, times=2)))
    assert trips_lake.load(endpoint_url=storage.endpoint_url)["counted_by"] == "insert"
    assert storage.struck == 2
    assert_exact(trips_lake, OLD)
