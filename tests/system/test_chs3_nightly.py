"""The nightly DAG, run by real Airflow: late files are loaded, quiet nights pass, a bad period holds nobody back."""

from __future__ import annotations

import pytest

from airflow_provider_chs3.testbed.trips import Trips
from tests.system.example_nights import TRIPS, Nights, dag, events, nights, states

#: Fixtures.
__all__ = ["dag", "nights"]

PERIODS = ["2026-01", "2026-02", "2026-03"]
MORE_TRIPS = Trips(seed=2, rows_per_period=600, files_per_period=3)
#: The label of the task of all of them.
ALL = "2026-01 … 2026-03 (3 months)"


def test_a_night_loads_its_period_and_those_before_and_the_next_one_only_what_got_other_files(nights: Nights) -> None:
    nights.upload(*PERIODS)
    done = nights.run()
    assert done.state == "success"
    assert states(done) == {
        "plan": "success",
        f"period.load {ALL}: published": "success",
        f"period.merges {ALL}: healthy": "success",
        f"period.emit {ALL}: emitted": "success",
        "end": "success",
        "check": "success",
    }
    assert [nights.facts(period) for period in PERIODS] == [TRIPS.facts(period) for period in PERIODS]
    nights.upload("2026-02", trips=MORE_TRIPS)
    done = nights.run()
    assert [name for name in states(done) if name.startswith("period.load")] == ["period.load 2026-02: published"]
    assert nights.facts("2026-02") == MORE_TRIPS.facts("2026-02")


@pytest.mark.thorough
def test_a_quiet_night_lets_what_follows_run(nights: Nights) -> None:
    nights.upload(*PERIODS)
    nights.run()
    done = nights.run()
    assert done.state == "success"
    assert states(done) == {
        "plan": "success",
        "period.load": "skipped",
        "period.merges": "skipped",
        "period.emit": "skipped",
        "end": "success",
        "check": "success",
    }
    assert events(done) == []


@pytest.mark.thorough
def test_a_bad_period_shows_as_failed_and_holds_back_no_other(nights: Nights) -> None:
    nights.upload(*PERIODS)
    nights.s3.put_object(Bucket=nights.bucket, Key="trips/2026-02/bad.parquet", Body=b"this is no Parquet")
    done = nights.run()
    assert done.state == "failed"
    found = states(done)
    assert {name for name, state in found.items() if state == "failed"} == {f"period.load {ALL}"}
    assert {found[name] for name in ("end", "check")} == {"upstream_failed"}
    assert {found[f"period.merges {ALL}: healthy"], found["period.emit 2026-01 … 2026-03 (2 months): emitted"]} == {
        "success"
    }
    assert [nights.facts(period).rows for period in PERIODS] == [600, 0, 600]
    assert sorted(event["period"] for event in events(done)) == ["2026-01", "2026-03"]


@pytest.mark.thorough
def test_a_load_that_has_loaded_no_period_has_no_event(nights: Nights) -> None:
    for period in PERIODS:
        nights.s3.put_object(Bucket=nights.bucket, Key=f"trips/{period}/bad.parquet", Body=b"this is no Parquet")
    done = nights.run()
    assert done.state == "failed"
    found = states(done)
    assert {name for name, state in found.items() if state == "failed"} == {f"period.load {ALL}"}
    assert {found["end"], found["check"]} == {"upstream_failed"}
    assert {state for name, state in found.items() if name.startswith("period.emit")} == {"skipped"}
    assert events(done) == []


@pytest.mark.thorough
def test_a_run_without_a_logical_date_loads_the_periods_that_it_is_given(nights: Nights) -> None:
    nights.upload(*PERIODS)
    done = nights.run(None, periods=["2026-01", "2026-03"])
    loads = [name for name in states(done) if name.startswith("period.load")]
    assert loads == ["period.load 2026-01 … 2026-03 (2 months): published"]


@pytest.mark.thorough
def test_a_run_that_is_asked_to_reload_a_period_loads_that_one_again_and_no_other(nights: Nights) -> None:
    nights.upload(*PERIODS)
    nights.run(periods=PERIODS)
    nights.upload("2026-03", trips=MORE_TRIPS)
    reload = {"database": nights.database, "table": "trips", "periods": ["2026-02"]}
    done = nights.run(None, periods=PERIODS, chs3_reload=reload)
    assert done.state == "success"
    assert [name for name in states(done) if name.startswith("period.load")] == ["period.load 2026-02: published"]
    (event,) = events(done)
    assert (event["period"], event["reason"]) == ("2026-02", "it is as published, but a reload was requested")
    assert [nights.facts(period) for period in PERIODS] == [TRIPS.facts(period) for period in PERIODS]
