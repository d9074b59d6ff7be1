"""Deferrable loads whose processes are killed: the next one of the same task goes on with what it finds."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from airflow_provider_chs3.client import detached_runner as detached
from airflow_provider_chs3.core.steps.operations import Insert
from airflow_provider_chs3.testbed.trips import Trips
from tests.support import deferring
from tests.support.killing import ALL, Strike, kind_of, steps_of, strikes_after, strikes_amid
from tests.support.lake import PERIOD, Lake
from tests.support.outcome import assert_exact

pytestmark = pytest.mark.three_nodes

#: In turns, so that rows of the two could mix.
VERSIONS = (Trips(rows_per_period=3_000, files_per_period=5), Trips(seed=2, rows_per_period=3_500, files_per_period=5))
NEXT = "2026-11"


@pytest.fixture(params=[[PERIOD], [PERIOD, NEXT]], ids=["one", "two"])
def periods(request: pytest.FixtureRequest) -> list[str]:
    return list(request.param)


@pytest.fixture
def load(trips_lake: Lake, periods: list[str]) -> Any:
    return partial(deferring.run, trips_lake, {"period": None, "periods": periods})


def upload(lake: Lake, trips: Trips, periods: list[str]) -> None:
    for period in periods:
        lake.upload(trips, period)


@pytest.fixture
def first(trips_lake: Lake, load: Any, periods: list[str]) -> Strike:
    """Kills a worker right after its insert has ended, in a load of periods that are published."""
    upload(trips_lake, VERSIONS[0], periods)
    load()
    upload(trips_lake, VERSIONS[1], periods)
    steps = steps_of(load)
    (insert,) = (step for step in steps if isinstance(step, Insert))
    return Strike(0, ALL, kind_of(insert))


@pytest.mark.thorough
def test_after_kill_9_of_two_workers_at_any_step_a_third_ends_in_the_objects_rows(
    trips_lake: Lake, first: Strike, load: Any, periods: list[str]
) -> None:
    upload(trips_lake, VERSIONS[0], periods)
    first.kill_in(load)
    steps = steps_of(load)
    publish = next(kind_of(step) for step in steps if step.name.startswith("Publish"))
    assert any(step.name.startswith("Take staging over") for step in steps)
    # Which node reads which object differs: where one read none of a period, a second step publishes that.
    points = [
        strike
        for strike in (*strikes_after(steps), *strikes_amid(steps))
        if not strike.name.startswith("Publish") or (strike.number, strike.name) == (0, publish)
    ]
    for number, strike in enumerate(points, start=1):
        trips = VERSIONS[number % 2]
        upload(trips_lake, trips, periods)
        print(f"Killed at {strike}")  # shown where it fails
        first.kill_in(load)
        strike.kill_in(load)
        assert {each["status"] for each in load()} <= {"published", "unchanged"}
        for period in periods:
            assert_exact(trips_lake, trips, period)
    assert len(points) > 10


@pytest.mark.thorough
@pytest.mark.parametrize("periods", [[PERIOD]], indirect=True)
def test_a_worker_that_was_killed_before_its_insert_was_sent_costs_a_reload(
    trips_lake: Lake, load: Any, first: Strike, monkeypatch: pytest.MonkeyPatch
) -> None:
    trips_lake.upload(VERSIONS[0])
    Strike(0, ALL, f"Record that {PERIOD} is being inserted").kill_in(load)
    monkeypatch.setattr(detached, "_LOG_TIMEOUT_SECONDS", 2)
    assert [each["status"] for each in load()] == ["published"]
    assert_exact(trips_lake, VERSIONS[0])
