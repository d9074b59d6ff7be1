"""A period of more objects than fit into one page of a listing, or into a statement of the server's default size."""

from __future__ import annotations

import pytest

from airflow_provider_chs3.testbed.trips import Trips
from tests.support.lake import PERIOD, Lake

pytestmark = pytest.mark.three_nodes

#: A page has 1,000.
OBJECTS = 1_100
#: `max_query_size` is 262,144 bytes by default; each key is in the statement twice.
LONG = "x" * 150


@pytest.mark.thorough
def test_each_of_many_objects_is_loaded_once(trips_lake: Lake) -> None:
    trips = Trips(rows_per_period=OBJECTS, files_per_period=OBJECTS)
    trips.upload(trips_lake.s3, PERIOD, bucket=trips_lake.bucket, prefix=f"trips/{PERIOD}/{LONG}")
    result = trips_lake.load()
    assert (result["objects"], result["rows"]) == (OBJECTS, OBJECTS)
    assert trips_lake.facts() == trips.facts(PERIOD)
    assert trips_lake.load()["status"] == "unchanged"
