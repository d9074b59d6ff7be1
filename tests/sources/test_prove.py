"""A proof reads objects of every storage, and the data files of a lakehouse."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_chs3.operators.prove import ProvePeriodsOperator
from airflow_provider_chs3.sources.storage import Storage
from airflow_provider_chs3.testbed.trips import Trips
from tests.sources.store_lake import StoreLake
from tests.sources.table_lake import TableLake
from tests.sources.trips_target import PERIOD, TripsTarget

TRIPS = Trips(rows_per_period=300, files_per_period=3)


def proved(lake: TripsTarget, objects: Storage) -> dict[str, Any]:
    where = {"table": "trips", "database": lake.database, "cluster": lake.cluster.name}
    (found,) = ProvePeriodsOperator(
        task_id="prove", objects=objects, periods=[PERIOD], fail_on_difference=False, **where
    ).execute({})
    return found


def reasons(lake: TripsTarget, objects: Storage) -> list[str]:
    """Return a proof's results before and after somebody changes a value."""
    equal = proved(lake, objects)
    for node in lake.cluster.nodes:
        with node.client(settings={"mutations_sync": 2}) as client:
            client.execute(f"ALTER TABLE {lake.database}.trips UPDATE fare = fare + 1 WHERE trip_id % 7 = 0")
    return [equal["reason"], proved(lake, objects)["reason"]]


@pytest.mark.thorough
def test_data_files_of_a_lakehouse(table_lake: TableLake) -> None:
    table_lake.table.put(TRIPS.table(PERIOD))
    table_lake.load()
    assert reasons(table_lake, table_lake.objects) == ["300 rows", "other values in fare"]


@pytest.mark.thorough
@pytest.mark.parametrize("store_lake", ["azure", "gcs", "hdfs"], indirect=True)
def test_objects_of_each_storage(store_lake: StoreLake) -> None:
    store_lake.objects.upload(TRIPS, PERIOD)
    store_lake.load()
    assert reasons(store_lake, store_lake.store()) == ["300 rows", "other values in fare"]
