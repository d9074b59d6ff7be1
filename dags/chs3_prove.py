"""Taxi trips that somebody else writes, compared every week with their objects, and repaired.

`prove` reads all objects and the table, whoever filled it (S3Queue, dbt, a cron job), and writes nothing. `repair` then
loads the months that differ, and nothing else. Months that could not be compared, such as one that is being written to,
fail the task `check_all_compared`: the log of `prove` says why.

It needs the connections `chs3_default` (ClickHouse) and `aws_default` (S3), and the table on every node, partitioned
by month: PARTITION BY toYYYYMM(pickup_at).
"""

from __future__ import annotations

from datetime import datetime

from airflow.sdk import DAG, Param, task

from airflow_provider_chs3.load import Load
from airflow_provider_chs3.operators.prove import ProvePeriodsOperator
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

TRIPS = Load(
    bucket="{{ params.bucket }}",
    key="{{ params.key }}",
    database="{{ params.database }}",
    table="{{ params.table }}",
    # Rows of others are replaced, in the months that differ.
    policies={"replace_unknown": True, "on_target_changed": "reload"},
)

with DAG(
    dag_id="chs3_prove",
    description="Taxi trips, compared with their objects and repaired",
    schedule="@weekly",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    doc_md=__doc__,
    params={
        "bucket": Param("taxi", type="string"),
        "key": Param("trips/{YYYY-MM}/*.parquet", type="string", description="which objects belong to which month"),
        "database": Param("taxi", type="string"),
        "table": Param("trips_all", type="string", description="MergeTree, or a Distributed table over it"),
    },
):
    prove = ProvePeriodsOperator(task_id="prove", load=TRIPS, all_periods=True, fail_on_difference=False)

    @task
    def unlike(proved: list[dict], status: str) -> list[str]:
        return [each["period"] for each in proved if each["status"] == status]

    differing = unlike.override(task_id="differing")(prove.output, "differs")
    S3ToClickHouseOperator.partial(task_id="repair", load=TRIPS).expand(period=differing)

    @task
    def check_all_compared(refused: list[str]) -> None:
        if refused:
            raise RuntimeError(f"Not compared: {', '.join(refused)}. The log of prove says why.")

    check_all_compared(unlike.override(task_id="refused")(prove.output, "refused"))
