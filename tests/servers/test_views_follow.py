"""The tables of views over replicated tables follow: each shard holds what its rows make, on all of its replicas."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_chs3.testbed.trips import Trips
from tests.support import following_views
from tests.support.breaking import Breaker, Failed
from tests.support.following_views import COLUMNS, ZONES, run
from tests.support.lake import Lake
from tests.support.replicas import TRIPS, replicated

OTHERS = Trips(seed=2, rows_per_period=900, files_per_period=4)


@pytest.fixture
def zones_lake(lake: Lake) -> Lake:
    engine = replicated(replace(lake, table="zones"), "Aggregating")
    run(
        lake,
        f"CREATE TABLE taxi.zones ({COLUMNS}) ENGINE = {engine} PARTITION BY toYYYYMM(month) ORDER BY (month, zone)",
        f"CREATE MATERIALIZED VIEW taxi.zones_view TO taxi.zones AS {ZONES.format(base='taxi.trips')}",
    )
    return lake


def assert_zones(lake: Lake) -> None:
    run(lake, "SYSTEM SYNC REPLICA taxi.trips", "SYSTEM SYNC REPLICA taxi.zones")
    following_views.assert_zones(lake)


@pytest.mark.thorough
def test_each_shard_holds_what_its_rows_make(zones_lake: Lake) -> None:
    lake = zones_lake
    assert lake.load(views="follow")["views"][0]["status"] == "published"
    assert_zones(lake)
    lake.upload(OTHERS)
    assert lake.load(views="follow")["views"][0]["status"] == "published"
    assert_zones(lake)
    assert lake.load(views="follow")["views"][0]["status"] == "unchanged"


@pytest.mark.thorough
def test_a_run_after_an_error_at_any_step_ends_in_what_the_rows_make(
    zones_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, breaker, number = zones_lake, Breaker(monkeypatch), 0
    while True:
        lake.upload((TRIPS, OTHERS)[number % 2])
        # Only the base: its view is behind, and the run that is broken off loads both, or the view alone.
        if number % 3 == 2:
            lake.load()
        breaker.set(break_after=number)
        try:
            lake.load(views="follow")
        except Failed:
            breaker.set()
            lake.load(views="follow")
        else:
            break
        assert_zones(lake)
        number += 1
    assert_zones(lake)
    assert number > 15
