"""Taxi trips, a run for each month: made for backfills over years.

    airflow dags unpause chs3_backfill
    airflow backfill create --dag-id chs3_backfill --from-date 2020-01-01 --to-date 2025-12-01 --max-active-runs 2

Both dates belong to it, and each names a month by its first day. A month that is as it was published costs one listing,
so that the same command may be given again after a failure, with `--reprocess-behavior completed` for all months or
`failed` for those that failed. By its schedule the DAG loads the month that has just ended.

It needs the connections `chs3_default` (ClickHouse) and `aws_default` (S3), and the table on every node, partitioned by
month: PARTITION BY toYYYYMM(pickup_at).
"""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow.sdk import DAG, Param
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_provider_chs3.operators.retries import retries_by_error
from airflow_provider_chs3.transfers.scheduled_load import scheduled_load

with DAG(
    dag_id="chs3_backfill",
    description="Taxi trips, a run for each month, from S3 into ClickHouse",
    # Gives each run a data interval of one calendar month; a plain cron text or "@monthly" does not, since Airflow 3.
    schedule=CronDataIntervalTimetable("0 0 1 * *", timezone="UTC"),
    start_date=datetime(2009, 1, 1),
    # Months of the past are loaded when a backfill asks for them, not when the DAG is switched on.
    catchup=False,
    doc_md=__doc__,
    params={
        "bucket": Param("taxi", type="string"),
        "key": Param("trips/{YYYY-MM}/*.parquet", type="string", description="which objects belong to which month"),
        "database": Param("taxi", type="string"),
        "table": Param("trips_all", type="string", description="MergeTree, or a Distributed table over it"),
    },
):
    scheduled_load(
        group_id="trips",
        bucket="{{ params.bucket }}",
        key="{{ params.key }}",
        database="{{ params.database }}",
        table="{{ params.table }}",
        # Months of the past have their objects, or never will.
        default_args=retries_by_error(retries=3, when_not_ready=timedelta(minutes=5)),
    )
