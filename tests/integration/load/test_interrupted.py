"""A load that fails after any step that writes, and is run again.

`tests/faults` has the steps that read, where connections break, and workers that are killed.
"""

from __future__ import annotations

import pytest

from airflow_provider_chs3.testbed.trips import Trips
from tests.support.breaking import Breaker, Failed, breaker, broken_at_each_step
from tests.support.lake import PERIOD, Lake

#: Fixtures.
__all__ = ["breaker"]

pytestmark = pytest.mark.three_nodes

VERSIONS = (Trips(rows_per_period=3_000, files_per_period=5), Trips(seed=2, rows_per_period=3_500, files_per_period=5))


# The steps come from the protocol itself, so that a new one is broken off at without anyone remembering.
@pytest.mark.thorough
def test_a_run_after_an_error_at_any_step_ends_in_the_objects_rows(trips_lake: Lake, breaker: Breaker) -> None:
    rounds = 0
    for number, trips in broken_at_each_step(trips_lake, breaker, VERSIONS):
        assert trips_lake.facts() == trips.facts(PERIOD), f"broken off after step {number}"
        assert trips_lake.left_behind() == [], f"broken off after step {number}"
        rounds += 1
    assert rounds > 5
    breaker.set()
    trips_lake.load()  # the last round broke off in the clean-up, after which a load is a success


@pytest.mark.thorough
def test_a_first_load_that_failed_before_publishing_leaves_target_and_servers_as_they_were(
    trips_lake: Lake, breaker: Breaker
) -> None:
    trips_lake.upload(VERSIONS[0])
    number = 0
    while True:
        breaker.set(break_after=number)
        with pytest.raises(Failed) as failed:
            trips_lake.load()
        if str(failed.value).startswith("Publish"):
            break
        assert not any(trips_lake.rows_per_node())
        assert trips_lake.left_behind() == []
        number += 1
    assert number > 3
