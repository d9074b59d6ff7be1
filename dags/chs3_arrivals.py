"""Taxi trips by the day on which their files arrive, into a table by month of the pickup.

A file holds trips of many months: most of the last days, some weeks old, a few of last year. Each run loads the files
of its day and of the days before that are new or changed, and adds their trips to the months that they belong to. Then
each month holds exactly the trips that the loaded files have for it. Each month that was changed has an event of the
asset `chs3_arrived_trips`.

It needs the connections `chs3_default` (ClickHouse) and `aws_default` (S3), and the table on every node, partitioned by
month: PARTITION BY toYYYYMM(pickup_at).
"""

from __future__ import annotations

from datetime import datetime

from airflow.sdk import DAG, Asset, Param
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_provider_chs3.operators.retries import retries_by_error
from airflow_provider_chs3.transfers.scheduled_load import scheduled_load

with DAG(
    dag_id="chs3_arrivals",
    description="Taxi trips by day of arrival, from S3 into a table by month",
    # Gives each run a data interval, and thereby a day of arrival.
    schedule=CronDataIntervalTimetable("0 3 * * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1),
    catchup=False,
    # Each arrival may change any month: of two at a time, the later one would end the other.
    max_active_runs=1,
    doc_md=__doc__,
    params={
        "lookback": Param(2, type="integer", minimum=0, description="days of arrival before the run's own"),
        "bucket": Param("taxi", type="string"),
        "key": Param("arrived/{YYYY-MM-DD}/*.parquet", type="string", description="which objects arrived on which day"),
        "database": Param("taxi", type="string"),
        "table": Param("trips_all", type="string", description="MergeTree, or a Distributed table over it"),
    },
):
    scheduled_load(
        group_id="trips",
        lookback="{{ params.lookback }}",
        bucket="{{ params.bucket }}",
        key="{{ params.key }}",
        database="{{ params.database }}",
        table="{{ params.table }}",
        # A file that is withdrawn takes its trips with it.
        policies={"on_other_periods": "spread", "on_deleted_objects": "remove"},
        outlets=[Asset("chs3_arrived_trips")],
        default_args=retries_by_error(),
    )
