"""The package loads a period as most users install it: without extras."""

from __future__ import annotations

from airflow_provider_chs3.testbed.trips import Trips
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from tests.support.absent_libraries import run_operator
from tests.support.lake import PERIOD, Lake

TRIPS = Trips(rows_per_period=600, files_per_period=3)


def test_a_period_is_loaded_with_the_required_libraries_alone(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    told = run_operator(S3ToClickHouseOperator, {"period": PERIOD, **trips_lake.place}, extras=())
    # The libraries that are absent here are installed for other tests.
    assert {"zstd", "pyarrow", "moto", "apache-airflow-providers-microsoft-azure"} <= set(told["absent"])
    assert told["result"]["rows"] == 600
    assert trips_lake.facts() == TRIPS.facts(PERIOD)
