"""Taxi trips, every night, from HDFS: months whose files changed are loaded again.

It is `chs3_nightly` with `objects` in place of `bucket` and `key`. It needs the connections `chs3_default` (ClickHouse)
and `webhdfs_default` (WebHDFS, for listing), and the table on every node, partitioned by month:
PARTITION BY toYYYYMM(pickup_at).
"""

from __future__ import annotations

from datetime import datetime

from airflow.sdk import DAG, Param
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_provider_chs3.operators.retries import retries_by_error
from airflow_provider_chs3.sources.hdfs import HdfsFiles
from airflow_provider_chs3.transfers.scheduled_load import scheduled_load

with DAG(
    dag_id="chs3_hdfs",
    description="Taxi trips of the last months, from HDFS into ClickHouse, every night",
    schedule=CronDataIntervalTimetable("0 3 * * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1),
    catchup=False,
    # Two runs at a time would load the same months.
    max_active_runs=1,
    doc_md=__doc__,
    params={
        "path": Param(
            "/lake/trips/{YYYY-MM}/*.parquet", type="string", description="which files belong to which month"
        ),
        "hdfs_url": Param(
            "hdfs://loader@namenode:8020", type="string", description="the name node as the servers reach it"
        ),
        "database": Param("taxi", type="string"),
        "table": Param("trips_all", type="string", description="MergeTree, or a Distributed table over it"),
    },
):
    scheduled_load(
        group_id="trips",
        objects=HdfsFiles(path="{{ params.path }}", hdfs_url="{{ params.hdfs_url }}"),
        database="{{ params.database }}",
        table="{{ params.table }}",
        lookback=2,
        default_args=retries_by_error(),
    )
