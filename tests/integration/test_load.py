"""The load of one month, on the straight path and when it is repeated."""

from __future__ import annotations

from airflow_provider_chs3.testbed.trips import Trips
from tests.integration.lake import MONTH, Lake


def test_every_row_of_the_month_is_loaded_with_its_content(trips_lake: Lake) -> None:
    trips = Trips(rows_per_month=30_000, files_per_month=6)
    trips_lake.upload(trips)
    result = trips_lake.load()
    assert result["status"] == "published"
    assert trips_lake.facts() == trips.facts(MONTH)
