"""Taxi trips, month by month, from S3 into ClickHouse.

Each month's partition of the table holds exactly the rows of that month's objects. A month whose objects did not change
since it was loaded is left alone, so that running this twice, or after a failure, costs nothing and doubles nothing.

By its schedule the DAG loads the month that has just ended. For other months trigger it with `periods`:

    airflow dags trigger chs3_scheduled_load --conf '{"periods": ["2026-01", "2026-02", "2026-03"]}'

It needs the connections `chs3_default` (ClickHouse) and `aws_default` (S3), and the table on every node, partitioned by
month: PARTITION BY toYYYYMM(pickup_at).
"""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow.providers.common.sql.operators.sql import SQLTableCheckOperator
from airflow.sdk import DAG, Param, task
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

with DAG(
    dag_id="chs3_scheduled_load",
    description="Taxi trips, month by month, from S3 into ClickHouse",
    # Gives each run a data interval of one calendar month; a plain cron text or "@monthly" does not, since Airflow 3.
    schedule=CronDataIntervalTimetable("0 0 1 * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1),
    doc_md=__doc__,
    params={
        "periods": Param([], type="array", items={"type": "string"}, description="YYYY-MM; empty: the run's own"),
        "bucket": Param("taxi", type="string"),
        "key": Param("trips/{YYYY-MM}/*.parquet", type="string", description="which objects belong to which month"),
        "database": Param("taxi", type="string"),
        "table": Param("trips_all", type="string", description="MergeTree, or a Distributed table over it"),
    },
):

    @task
    def months(params: dict) -> list[str | None]:
        # None leaves it to the load, which takes the month of the run's data interval.
        return params["periods"] or [None]

    load = S3ToClickHouseOperator.partial(
        task_id="load",
        bucket="{{ params.bucket }}",
        key="{{ params.key }}",
        database="{{ params.database }}",
        table="{{ params.table }}",
        # What a load replaces can be published again: chs3 restore.
        policies={"keep_versions": 1},
        # Safe, because a load that runs again gives the same rows; and late objects are worth waiting for.
        retries=2,
        retry_delay=timedelta(minutes=1),
        # A load is sized for half of each node's cores and memory: one at a time leaves the other half to queries.
        max_active_tis_per_dag=1,
        # In the grid, the task of each month carries its name.
        map_index_template="{{ period }}",
    ).expand(period=months())

    # Any operator of the common-sql provider runs on a connection of type chs3.
    check = SQLTableCheckOperator(
        task_id="check",
        conn_id="chs3_default",
        table="{{ params.database }}.{{ params.table }}",
        checks={
            "there_are_trips": {"check_statement": "count(*) > 0"},
            "no_trip_is_there_twice": {"check_statement": "count(*) = count(DISTINCT trip_id)"},
        },
    )

    load >> check
