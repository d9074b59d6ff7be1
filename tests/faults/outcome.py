"""What every cell of the fault matrix ends in."""

from __future__ import annotations

from airflow_provider_chs3.testbed.trips import Trips
from tests.integration.lake import MONTH, Lake


def assert_exact(lake: Lake, trips: Trips, month: str = MONTH) -> None:
    """The month holds exactly the rows of its objects, by count and checksum, and nothing of a load is left.

    Args:
        lake: The table and the cluster.
        trips: Whose files the bucket holds.
        month: The month.
    """
    assert lake.facts(month) == trips.facts(month)
    assert lake.left_behind() == []


def assert_untouched(lake: Lake, before: Trips | None, month: str = MONTH) -> None:
    """A load that did not publish has left the table as it was.

    Args:
        lake: The table and the cluster.
        before: Whose rows the table held; None where it held none.
        month: The month.
    """
    if before is None:
        assert sum(lake.rows_per_node()) == 0
    else:
        assert lake.facts(month) == before.facts(month)
