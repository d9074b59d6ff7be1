"""Loads in unusual situations do as the user chose."""

from __future__ import annotations

import json

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.exceptions import NotReadyError
from airflow_provider_chs3.testbed.trips import Trips
from tests.integration.load.reloading import reload
from tests.support.lake import PERIOD, Lake

TRIPS = Trips(rows_per_period=3_000, files_per_period=3)


def change_a_node_with_rows(lake: Lake, change: str) -> None:
    rows = lake.rows_per_node()
    lake.on_node(rows.index(max(rows)), change.format(f"{lake.database}.{lake.table}"))


class TestNoObjects:
    def test_fails_by_default_and_a_retry_may_help(self, trips_lake: Lake) -> None:
        with pytest.raises(
            NotReadyError,
            match=rf"No objects for {PERIOD} under .*'on_no_objects': …\}}: 'skip' leaves it unchanged",
        ):
            trips_lake.load()


class TestReady:
    def test_without_the_marker_the_load_waits_for_a_retry(self, trips_lake: Lake) -> None:
        trips_lake.upload(TRIPS)
        with pytest.raises(NotReadyError, match=f"trips/{PERIOD}/_SUCCESS does not exist yet"):
            trips_lake.load(ready_key="_SUCCESS")


class TestShrinking:
    def test_a_period_that_lost_most_of_its_bytes_stops(self, trips_lake: Lake) -> None:
        keys = trips_lake.upload(TRIPS)
        trips_lake.load()
        for key in keys[1:]:
            trips_lake.s3.delete_object(Bucket=trips_lake.bucket, Key=key)
        with pytest.raises(AirflowFailException, match=r"max_shrink_fraction'\]=0\.5") as stopped:
            trips_lake.load()
        assert trips_lake.facts() == TRIPS.facts(PERIOD)
        # A run with the conf that the message names loads it.
        conf = json.loads(str(stopped.value).rpartition("by its conf: ")[2].rstrip("."))
        assert (reload(trips_lake, conf)["status"], trips_lake.facts().rows) == ("published", 1_000)


class TestATargetThatSomebodyChanged:
    CHANGES = (
        "INSERT INTO {} (trip_id, pickup_at) SELECT 1, '2026-10-05 00:00:00'",
        "ALTER TABLE {} DELETE WHERE trip_id % 2 = 0 SETTINGS mutations_sync = 1",
        "ALTER TABLE {} DROP PARTITION ID '202610'",
    )

    @pytest.mark.thorough(but=1)
    @pytest.mark.parametrize("change", CHANGES)
    def test_stops_the_load_until_the_user_lets_it_replace_that(self, trips_lake: Lake, change: str) -> None:
        trips_lake.upload(TRIPS)
        trips_lake.load()
        change_a_node_with_rows(trips_lake, change)
        with pytest.raises(AirflowFailException, match=r"policies={'on_target_changed': 'reload'}"):
            trips_lake.load()
        trips_lake.load(on_target_changed="reload")
        assert trips_lake.facts() == TRIPS.facts(PERIOD)


class TestRowsOfOtherPeriods:
    DIRTY = Trips(rows_per_period=3_000, files_per_period=3, wrong_period_rows=7)

    @pytest.mark.three_nodes
    def test_stop_the_load_and_are_counted_or_left_out_if_the_user_says_so(self, trips_lake: Lake) -> None:
        trips_lake.upload(self.DIRTY)
        with pytest.raises(AirflowFailException, match=r"202609: 7.*policies={'on_other_periods': 'leave_out'}"):
            trips_lake.load()
        assert not any(trips_lake.rows_per_node())
        result = trips_lake.load(on_other_periods="leave_out")
        assert (result["rows"], result["other_period_rows"]) == (2_993, 7)
        assert trips_lake.facts() == self.DIRTY.facts(PERIOD)
        assert trips_lake.facts("2026-09").rows == 0
