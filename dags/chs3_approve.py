"""Taxi trips, checked before they are published: what fails a check waits for a person, and a bad month is undone.

`chs3_checked` loads the month that has just ended. If a check fails, or the month shrank, the table stays as it is, the
new rows are held, and the task `ask` waits until somebody answers it (Required Actions in Airflow's UI). *Approve*
publishes the rows; after *Reject* they stay held until other objects come, or `chs3 discard` drops them.

`chs3_undo` puts back what a month held before its last publication, and pins it, so that loads leave it:

    airflow dags trigger chs3_undo --conf '{"period": "2026-01"}'

They need the connections `chs3_default` (ClickHouse) and `aws_default` (S3), and the table on every node, partitioned
by month: PARTITION BY toYYYYMM(pickup_at).
"""

from __future__ import annotations

from datetime import datetime

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG, Param, task
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_provider_chs3.load import Load
from airflow_provider_chs3.operators.held import ApprovePeriodsOperator
from airflow_provider_chs3.operators.versions import RestorePeriodsOperator
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

TABLE = {
    "database": Param("taxi", type="string"),
    "table": Param("trips_all", type="string", description="MergeTree, or a Distributed table over it"),
}
TRIPS = Load(
    bucket="{{ params.bucket }}",
    key="{{ params.key }}",
    database="{{ params.database }}",
    table="{{ params.table }}",
    checks={
        "column_mapping": {"fare": {"min": {"geq_to": 0}}},
        "statements": {"rows": "SELECT (SELECT count() FROM staged) >= 0.8 * (SELECT count() FROM published)"},
    },
    policies={"on_failed_check": "hold", "on_shrink": "hold", "keep_versions": 1},
)

with DAG(
    dag_id="chs3_checked",
    description="Taxi trips, checked before they are published",
    schedule=CronDataIntervalTimetable("0 0 1 * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1),
    catchup=False,
    doc_md=__doc__,
    params={
        "bucket": Param("taxi", type="string"),
        "key": Param("trips/{YYYY-MM}/*.parquet", type="string", description="which objects belong to which month"),
        **TABLE,
    },
):
    load = S3ToClickHouseOperator(task_id="load", load=TRIPS)

    # The load is also skipped if its month is pinned: then it returns nothing.
    @task.short_circuit(trigger_rule="all_skipped")
    def is_held(ti) -> bool:
        return ti.xcom_pull("load") is not None

    ask = ApprovalOperator(
        task_id="ask",
        subject="Publish {{ ti.xcom_pull('load')['period'] }} into {{ params.table }}?",
        body="{{ ti.xcom_pull('load')['reason'] }}",
    )
    approve = ApprovePeriodsOperator(task_id="approve", load=TRIPS, periods="{{ ti.xcom_pull('load')['period'] }}")
    # Whatever reads the table follows this.
    published = EmptyOperator(task_id="published", trigger_rule="none_failed_min_one_success")

    load >> is_held() >> ask >> approve >> published
    load >> published

with DAG(
    dag_id="chs3_undo",
    description="Put back what a month held before its last publication",
    schedule=None,
    doc_md=__doc__,
    params={"period": Param(type="string", description="such as 2026-01"), **TABLE},
):
    RestorePeriodsOperator(task_id="restore", load=TRIPS, periods="{{ params.period }}")
