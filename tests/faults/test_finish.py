"""Loads that die while they publish: the next run completes what they had staged, if it is there as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from clickhouse_driver.errors import Error as ClickHouseError

from airflow_provider_chs3.core.steps.operations import Step
from airflow_provider_chs3.testbed.trips import Trips
from tests.support.killing import (
    ALL,
    ALL_BUT_THE_FIRST,
    NONE,
    ONLY_THE_FIRST,
    Strike,
    steps_of,
    strikes_after,
    strikes_amid,
)
from tests.support.lake import PERIOD, Lake
from tests.support.outcome import assert_exact
from tests.support.several_periods import Periods, periods

#: Fixtures.
__all__ = ["periods"]

pytestmark = pytest.mark.three_nodes

VERSIONS = tuple(Trips(seed=seed, rows_per_period=600, files_per_period=3) for seed in (1, 2))
#: The same first files, and one more.
GROWN = Trips(rows_per_period=800, files_per_period=4)
FIRST = Trips(rows_per_period=600, files_per_period=3)

#: Where a worker dies: the step, and which of its nodes were told.
STRIKES = [
    (f"Publish {PERIOD}", NONE),
    (f"Publish {PERIOD}", ONLY_THE_FIRST),
    (f"Publish {PERIOD}", ALL_BUT_THE_FIRST),
    (f"Publish {PERIOD}", ALL),
    (f"Record {PERIOD} as published", ONLY_THE_FIRST),
]
Strikes = Callable[[list[Step]], Iterator[Strike]]
HALF_PUBLISHED = Strike(0, ONLY_THE_FIRST, f"Publish {PERIOD}")


def inserts(lake: Lake, **options: Any) -> int:
    """Load, and return how many inserts that took."""
    load = lake.operator(**options)
    load.execute({})
    return len(load.inserts)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(("name", "told"), STRIKES)
@pytest.mark.parametrize("begin", [False, True])
def test_a_publication_that_was_broken_off_is_completed(trips_lake: Lake, name: str, told: slice, begin: bool) -> None:
    if begin:
        trips_lake.upload(VERSIONS[0])
        trips_lake.load()
    trips_lake.upload(VERSIONS[1])
    Strike(0, told, name).kill_in(trips_lake.load)
    staged = staging(trips_lake)
    assert inserts(trips_lake) == 0
    assert_exact(trips_lake, VERSIONS[1])
    # A worker that comes back finds no staging.
    with pytest.raises(ClickHouseError, match="does not exist"):
        trips_lake.on_node(1, f"ALTER TABLE {trips_lake.database}.trips REPLACE PARTITION ID '202610' FROM {staged}")
    assert trips_lake.load()["status"] == "unchanged"


@pytest.mark.thorough
@pytest.mark.parametrize("strikes", [strikes_after, strikes_amid])
def test_whoever_completes_it_may_die_at_any_step(trips_lake: Lake, strikes: Strikes) -> None:
    trips_lake.upload(VERSIONS[0])
    HALF_PUBLISHED.kill_in(trips_lake.load)
    points = list(strikes(steps_of(trips_lake.load)))
    for number, strike in enumerate(points):
        trips = VERSIONS[1 - number % 2]
        trips_lake.upload(trips)
        print(f"Killed at {strike}")  # shown where it fails
        HALF_PUBLISHED.kill_in(trips_lake.load)
        strike.kill_in(trips_lake.load)
        assert inserts(trips_lake) <= 1
        assert_exact(trips_lake, trips)
        assert trips_lake.load()["status"] == "unchanged"
    assert len(points) > 2


@pytest.mark.thorough
@pytest.mark.parametrize("told", [ONLY_THE_FIRST, ALL])
def test_so_is_an_increment_and_the_next_one_adds_to_it(periods: Periods, told: slice) -> None:
    periods.load()
    periods.put(PERIOD, "c")
    Strike(0, told, f"Publish {PERIOD}").kill_in(lambda: periods.load(PERIOD))
    assert reads(periods, PERIOD) == []
    assert periods.found() == periods.expected()
    periods.put(PERIOD, "d")
    assert reads(periods, PERIOD) == [1]
    assert periods.found() == periods.expected()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Publish 2026-07 and 3 more", ONLY_THE_FIRST),
        ("Publish 2026-07 and 3 more", ALL_BUT_THE_FIRST),
        ("Publish 2026-07 and 3 more", ALL),
        ("Record 2026-07 and 3 more as published", ONLY_THE_FIRST),
    ],
)
def test_so_is_one_of_several_periods(periods: Periods, name: str, told: slice) -> None:
    Strike(0, told, name).kill_in(periods.load)
    assert reads(periods) == []
    assert periods.found() == periods.expected()
    assert periods.lake.left_behind() == []


@pytest.mark.thorough
def test_a_load_of_one_of_them_completes_that_one_alone(periods: Periods) -> None:
    Strike(0, ONLY_THE_FIRST, "Publish 2026-07 and 3 more").kill_in(periods.load)
    assert reads(periods, PERIOD) == []
    assert reads(periods) == [6]
    assert periods.found() == periods.expected()
    assert reads(periods) == []
    assert periods.lake.left_behind() == []


def reads(periods: Periods, *some: str) -> list[int]:
    """Load, and return how many objects each insert read."""
    load = periods.operator(*some)
    load.execute({})
    return [len(insert.paths) for insert in load.inserts]


def staging(lake: Lake) -> str:
    (name,) = set(lake.staging_tables())
    return f"{lake.database}.{name}"


def drop_staged(lake: Lake) -> None:
    name = staging(lake)
    holding = [bool(rows[0][0]) for rows in lake.on_every_node(f"SELECT count() FROM {name}")]
    lake.on_node(holding.index(True), f"ALTER TABLE {name} DROP PARTITION ID '202610'")


def drop_staging(lake: Lake) -> None:
    lake.on_node(2, f"DROP TABLE {staging(lake)} SYNC")


def write_to_staging(lake: Lake) -> None:
    lake.on_node(2, f"INSERT INTO {staging(lake)} (trip_id, pickup_at) SELECT 1, '2026-10-05 00:00:00'")


def lose_objects(lake: Lake) -> None:
    lake.on_node(2, f"DELETE FROM {lake.database}.chs3_objects WHERE path LIKE '%002.parquet'")


def lose_records(lake: Lake) -> None:
    # A node on which nothing was replaced: where the records of rows are lost, a load would stop.
    lake.on_node(2, f"TRUNCATE TABLE {lake.database}.chs3_ledger")


def add_an_object(lake: Lake) -> None:
    lake.upload(GROWN)


def add_a_default(lake: Lake) -> None:
    lake.on_every_node(f"ALTER TABLE {lake.database}.{lake.table} MODIFY COLUMN zone DEFAULT 'x'")


BREAKS = [drop_staged, drop_staging, write_to_staging, lose_objects, lose_records, add_an_object, add_a_default]


@pytest.mark.thorough
@pytest.mark.parametrize("spoil", BREAKS)
def test_if_anything_is_not_as_it_was_the_period_is_loaded(trips_lake: Lake, spoil: Callable[[Lake], None]) -> None:
    trips_lake.upload(FIRST)
    HALF_PUBLISHED.kill_in(trips_lake.load)
    spoil(trips_lake)
    assert inserts(trips_lake) == 1
    assert_exact(trips_lake, GROWN if spoil is add_an_object else FIRST)
    assert trips_lake.load()["status"] == "unchanged"


@pytest.mark.thorough
def test_so_is_one_of_another_definition(trips_lake: Lake) -> None:
    trips_lake.upload(FIRST)
    HALF_PUBLISHED.kill_in(trips_lake.load)
    assert inserts(trips_lake, null_as_default=True) == 1
    assert_exact(trips_lake, FIRST)


def test_rows_that_somebody_wrote_since_are_not_replaced(trips_lake: Lake) -> None:
    trips_lake.upload(FIRST)
    HALF_PUBLISHED.kill_in(trips_lake.load)
    trips_lake.on_node(1, f"INSERT INTO {trips_lake.database}.trips (trip_id, pickup_at) SELECT 1, '2026-10-05'")
    with pytest.raises(AirflowFailException, match="was changed since it was published"):
        trips_lake.load()
    trips_lake.load(on_target_changed="reload")
    assert_exact(trips_lake, FIRST)
