"""Which node a row lands on."""

from __future__ import annotations

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.testbed.trips import Trips
from tests.integration.load.distributed import BY_KEY, KEY, create_distributed
from tests.support.lake import PERIOD, Lake
from tests.support.refusal import refused

pytestmark = pytest.mark.three_nodes

TRIPS = Trips(rows_per_period=6_000, files_per_period=6)


def ids_by_node(lake: Lake, table: str = "trips") -> list[list[tuple[int, int]]]:
    return lake.on_every_node(f"SELECT count(), sum(cityHash64(trip_id)) FROM {lake.database}.{table}")


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("key", [KEY, "passenger_count"])
def test_each_row_lies_where_an_insert_into_the_distributed_table_would_put_it(trips_lake: Lake, key: str) -> None:
    trips_lake.on_every_node(f"CREATE TABLE {trips_lake.database}.plain AS {trips_lake.database}.trips")
    create_distributed(trips_lake, key)
    create_distributed(trips_lake, key, name="all_plain", local="plain")
    trips_lake.upload(TRIPS)
    trips_lake.load(**BY_KEY)
    trips_lake.on_node(
        1,
        f"INSERT INTO {trips_lake.database}.all_plain SELECT * FROM {trips_lake.database}.all_trips "
        "SETTINGS distributed_foreground_insert = 1, parallel_distributed_insert_select = 0",
    )
    assert ids_by_node(trips_lake) == ids_by_node(trips_lake, "plain")
    assert trips_lake.facts() == TRIPS.facts(PERIOD)


@pytest.mark.thorough
def test_a_period_is_loaded_again_once_it_is_to_lie_by_the_key(trips_lake: Lake) -> None:
    create_distributed(trips_lake)
    trips_lake.upload(TRIPS)
    assert trips_lake.load(table="all_trips", cluster=None)["target"] == f"{trips_lake.database}.trips"
    assert trips_lake.load(**BY_KEY)["reason"] == "its definition changed since it was published"
    assert trips_lake.load(**BY_KEY)["status"] == "unchanged"
    assert trips_lake.facts() == TRIPS.facts(PERIOD)


@pytest.mark.thorough
def test_rows_of_other_periods_are_found_wherever_the_key_puts_them(trips_lake: Lake) -> None:
    create_distributed(trips_lake)
    trips_lake.upload(Trips(rows_per_period=3_000, files_per_period=3, wrong_period_rows=7))
    with pytest.raises(AirflowFailException, match=r"202609: 7"):
        trips_lake.load(**BY_KEY)
    assert not any(trips_lake.rows_per_node())


@pytest.mark.thorough
def test_a_local_table_has_no_key(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    refused(
        trips_lake, rf"{trips_lake.database}.trips is not one: name the Distributed table", distribution="sharding_key"
    )


@pytest.mark.thorough
def test_a_distributed_table_may_have_no_key(trips_lake: Lake) -> None:
    create_distributed(trips_lake, key="")
    trips_lake.upload(TRIPS)
    refused(trips_lake, r"which \S*all_trips lacks: create it with one", **BY_KEY)
