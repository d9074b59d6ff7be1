"""Taxi trips, every night, from an Iceberg table: months whose data files changed are loaded again.

It is `chs3_nightly` with `objects` in place of `bucket` and `key`. It needs the extra `iceberg`, the
connections `chs3_default` (ClickHouse), `aws_default` (S3) and `iceberg_default` (the catalog), and the table on every
node, partitioned by month: PARTITION BY toYYYYMM(pickup_at).
"""

from __future__ import annotations

from datetime import datetime

from airflow.sdk import DAG, Param
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_provider_chs3.operators.retries import retries_by_error
from airflow_provider_chs3.sources.iceberg import IcebergTable
from airflow_provider_chs3.transfers.scheduled_load import scheduled_load

with DAG(
    dag_id="chs3_iceberg",
    description="Taxi trips of the last months, from an Iceberg table into ClickHouse, every night",
    schedule=CronDataIntervalTimetable("0 3 * * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1),
    catchup=False,
    # Two runs at a time would load the same months.
    max_active_runs=1,
    doc_md=__doc__,
    params={
        "iceberg_table": Param("lake.trips", type="string", description="in the catalog"),
        "time_column": Param("pickup_at", type="string", description="by which rows belong to months"),
        "database": Param("taxi", type="string"),
        "table": Param("trips_all", type="string", description="MergeTree, or a Distributed table over it"),
    },
):
    scheduled_load(
        group_id="trips",
        objects=IcebergTable(table="{{ params.iceberg_table }}", time_column="{{ params.time_column }}"),
        database="{{ params.database }}",
        table="{{ params.table }}",
        lookback=2,
        default_args=retries_by_error(),
    )
