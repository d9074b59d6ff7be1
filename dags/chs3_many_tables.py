"""Many tables, every night, from one file: `loads.yaml` beside this one has a load for each.

Each load is a group of tasks, and emits an event of its asset, such as `chs3_refunds`, for each month that it has
loaded. If one table fails, the others continue. A new table is a few lines in the file; the DAG stays as it is. On the
command line, `chs3 plan --loads loads.yaml` says what a night would load.

For other months trigger it with `periods`:

    airflow dags trigger chs3_many_tables --conf '{"periods": ["2026-01", "2026-02", "2026-03"]}'

It needs the connections `chs3_default` (ClickHouse) and `aws_default` (S3), and the tables on every node, partitioned
by month.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from airflow.sdk import DAG, Asset, Param
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_provider_chs3.load import Load
from airflow_provider_chs3.operators.retries import retries_by_error
from airflow_provider_chs3.transfers.scheduled_load import scheduled_load

with DAG(
    dag_id="chs3_many_tables",
    description="The tables of loads.yaml, from S3 into ClickHouse, every night",
    schedule=CronDataIntervalTimetable("0 3 * * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1),
    catchup=False,
    # Two runs at a time would load the same months.
    max_active_runs=1,
    default_args=retries_by_error(),
    doc_md=__doc__,
    params={
        "periods": Param([], type="array", items={"type": "string"}, description="YYYY-MM; empty: the look-back"),
    },
):
    for load in Load.read(Path(__file__).with_name("loads.yaml")):
        scheduled_load(
            load=load, periods="{{ params.periods | join(',') }}", lookback=2, outlets=[Asset(f"chs3_{load.name}")]
        )
