"""Taxi trips, every night: months whose objects changed are loaded again, and the table is checked afterwards.

Late files are what a nightly load is for: each run compares the month of its night and those before it with what was
last published, loads what changed, and waits until merges have settled. In a quiet night it does nothing, and the check
runs all the same. Each month that was loaded has an event of the asset `chs3_trips`: the DAG `chs3_each_month` runs for
it. For other months trigger it with `periods`:

    airflow dags trigger chs3_nightly --conf '{"periods": ["2026-01", "2026-02", "2026-03"]}'

It needs the connections `chs3_default` (ClickHouse) and `aws_default` (S3), and the table on every node, partitioned by
month: PARTITION BY toYYYYMM(pickup_at).
"""

from __future__ import annotations

from datetime import datetime

from airflow.providers.common.sql.operators.sql import SQLTableCheckOperator
from airflow.sdk import DAG, Asset, Param
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_provider_chs3.operators.retries import retries_by_error
from airflow_provider_chs3.transfers.scheduled_load import scheduled_load

with DAG(
    dag_id="chs3_nightly",
    description="Taxi trips of the last months, from S3 into ClickHouse, every night",
    # Gives each run a data interval, and thereby a month; a plain cron text or "@daily" does not, since Airflow 3.
    schedule=CronDataIntervalTimetable("0 3 * * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1),
    catchup=False,
    # Two runs at a time would load the same months.
    max_active_runs=1,
    doc_md=__doc__,
    params={
        "periods": Param([], type="array", items={"type": "string"}, description="YYYY-MM; empty: the look-back"),
        "lookback": Param(2, type="integer", minimum=0, description="periods before the run's own"),
        "bucket": Param("taxi", type="string"),
        "key": Param("trips/{YYYY-MM}/*.parquet", type="string", description="which objects belong to which month"),
        "database": Param("taxi", type="string"),
        "table": Param("trips_all", type="string", description="MergeTree, or a Distributed table over it"),
    },
):
    load = scheduled_load(
        group_id="trips",
        periods="{{ params.periods | join(',') }}",
        lookback="{{ params.lookback }}",
        bucket="{{ params.bucket }}",
        key="{{ params.key }}",
        database="{{ params.database }}",
        table="{{ params.table }}",
        outlets=[Asset("chs3_trips")],
        # Safe, because a load that runs again gives the same rows; and late objects are worth waiting for.
        default_args=retries_by_error(),
    )

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
