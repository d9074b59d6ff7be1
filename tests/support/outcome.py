"""The outcome of each cell of the fault matrix."""

from __future__ import annotations

from airflow_provider_chs3.testbed.trips import Trips
from tests.support.lake import PERIOD, Lake


def assert_exact(lake: Lake, trips: Trips, period: str = PERIOD) -> None:
    """The period holds exactly the rows of its objects, by count and checksum, and nothing of a load is left."""
    assert lake.facts(period) == trips.facts(period)
    assert lake.left_behind() == []


def assert_untouched(lake: Lake, before: Trips | None, period: str = PERIOD) -> None:
    """A load that did not publish has left the table as it was."""
    if before is None:
        assert sum(lake.rows_per_node()) == 0
    else:
        assert lake.facts(period) == before.facts(period)
