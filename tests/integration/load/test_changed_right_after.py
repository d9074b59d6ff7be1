"""Changes between REPLACE PARTITION and the record of it are somebody's, but merges of staged parts are not."""

from __future__ import annotations

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.testbed.trips import Trips
from tests.support.lake import PERIOD, Lake
from tests.support.strikes import Strikes, strikes

__all__ = ["strikes"]

TRIPS = Trips(rows_per_period=900, files_per_period=6)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    "statements",
    [
        ["ALTER TABLE {t} UPDATE fare = 99 WHERE trip_id % 7 = 1 SETTINGS mutations_sync = 2"],
        ["DELETE FROM {t} WHERE trip_id % 7 = 1"],
        ["ALTER TABLE {t} CLEAR COLUMN fare IN PARTITION 202610 SETTINGS mutations_sync = 2"],
        [
            "INSERT INTO {t} SELECT * FROM {t} WHERE trip_id % 7 = 1",
            "ALTER TABLE {t} DELETE WHERE trip_id % 7 = 2 SETTINGS mutations_sync = 2",
        ],
    ],
    ids=["update", "lightweight delete", "clear column", "insert and delete"],
)
def test_a_period_that_is_changed_right_after_it_was_replaced_is_not_published(
    trips_lake: Lake, strikes: Strikes, statements: list[str]
) -> None:
    trips_lake.upload(TRIPS)

    def change() -> None:
        for sql in statements:
            trips_lake.on_every_node(sql.format(t=f"{trips_lake.database}.{trips_lake.table}"))

    strikes.after(f"Publish {PERIOD}", change)
    with pytest.raises(AirflowFailException, match=r"right after .* (was published|publishing)"):
        trips_lake.load()
    strikes.reset()
    with pytest.raises(AirflowFailException, match=r"policies={'on_target_changed': 'reload'}"):
        trips_lake.load()
    trips_lake.load(on_target_changed="reload")
    assert trips_lake.facts() == TRIPS.facts(PERIOD)


@pytest.mark.thorough
def test_a_period_that_somebody_replaces_after_its_load_died_is_somebodys(trips_lake: Lake, strikes: Strikes) -> None:
    trips_lake.upload(TRIPS)

    strikes.die("after", f"Publish {PERIOD}", lambda: trips_lake.load())
    table = f"{trips_lake.database}.{trips_lake.table}"
    for sql in (
        f"CREATE TABLE {trips_lake.database}.other AS {table}",
        f"INSERT INTO {trips_lake.database}.other SELECT * REPLACE (fare + 1 AS fare) FROM {table}",
        f"ALTER TABLE {table} REPLACE PARTITION ID '202610' FROM {trips_lake.database}.other",
    ):
        trips_lake.on_every_node(sql)
    with pytest.raises(AirflowFailException, match=r"policies={'on_target_changed': 'reload'}"):
        trips_lake.load()
    trips_lake.load(on_target_changed="reload")
    assert trips_lake.facts() == TRIPS.facts(PERIOD)


def test_staged_parts_are_not_merged_between_the_last_look_and_the_publication(
    trips_lake: Lake, strikes: Strikes
) -> None:
    """A merge there would pass for somebody's change: of some 25 loads of 24 million rows, three failed so."""
    trips_lake.upload(TRIPS)

    def do(*statements: str) -> None:
        (staging,) = trips_lake.staging_tables()
        for sql in statements:
            trips_lake.on_every_node(f"{sql} {trips_lake.database}.{staging}")

    def keep_parts() -> None:
        do("SYSTEM STOP MERGES")
        strikes.after("Count what is staged once more", lambda: do("SYSTEM START MERGES", "OPTIMIZE TABLE"), times=2)

    strikes.after("Create staging", keep_parts)
    a_part_a_block = {"max_insert_threads": 1, "min_insert_block_size_rows": 1, "min_insert_block_size_bytes": 1}
    assert trips_lake.load(settings=a_part_a_block)["status"] == "published"
    assert trips_lake.facts() == TRIPS.facts(PERIOD)
