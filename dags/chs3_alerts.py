"""Taxi trips, every night, with alerts: when a load fails, and when a night will be late.

`tell` is called when a task has failed for good: after its retries, or at once if no retry can help. The class of the
error shows who can fix it, and its text says how.

The table must be complete at seven in the morning, and a night takes half an hour: the deadline alert fires at six if
the run has not ended, or not even begun.

It needs the connections `chs3_default` (ClickHouse) and `aws_default` (S3), the table on every node, partitioned by
month: PARTITION BY toYYYYMM(pickup_at), and what reaches people: `send` here, and `our_alerts.call_the_owner`, an
`async def` in a module that the triggerer can import.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow.sdk import DAG, Param
from airflow.sdk.definitions.deadline import AsyncCallback, DeadlineAlert, DeadlineReference
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_provider_chs3.exceptions import (
    ClickHouseConnectionError,
    ClickHouseServerError,
    MergeHealthError,
    NotReadyError,
    PreflightError,
    SourceError,
)
from airflow_provider_chs3.operators.retries import retries_by_error
from airflow_provider_chs3.transfers.scheduled_load import scheduled_load

TEAMS = {
    "producers": (NotReadyError, SourceError),
    "database": (PreflightError, MergeHealthError, ClickHouseServerError, ClickHouseConnectionError),
}


def send(team: str, message: str) -> None:
    """Whatever reaches people where you are."""


def tell(context) -> None:
    error = context["exception"]
    # What no retry can fix reaches Airflow as its AirflowFailException; the package's own error is its context.
    found = [error, error.__context__]
    # If a task loads several periods, its error has that of each.
    found += [each for one in found for each in getattr(one, "errors", ())]
    team = next((team for team, kinds in TEAMS.items() if any(isinstance(one, kinds) for one in found)), "pipelines")
    # The error says what was wrong, where, and what to do.
    send(team, f"{context['ti'].dag_id}, {context['ti'].task_id}: {error}")


with DAG(
    dag_id="chs3_alerts",
    description="Taxi trips every night, with alerts of failures and of late nights",
    # The logical date of a run is the beginning of its day: it is due 24 hours later, at three.
    schedule=CronDataIntervalTimetable("0 3 * * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    deadline=DeadlineAlert(
        reference=DeadlineReference.DAGRUN_LOGICAL_DATE,
        interval=timedelta(hours=24 + 3),
        callback=AsyncCallback("our_alerts.call_the_owner", {"text": "trips: due at seven, not done at six"}),
    ),
    params={
        "bucket": Param("taxi", type="string"),
        "key": Param("trips/{YYYY-MM}/*.parquet", type="string", description="which objects belong to which month"),
        "database": Param("taxi", type="string"),
        "table": Param("trips_all", type="string", description="MergeTree, or a Distributed table over it"),
    },
):
    scheduled_load(
        bucket="{{ params.bucket }}",
        key="{{ params.key }}",
        database="{{ params.database }}",
        table="{{ params.table }}",
        lookback=2,
        default_args={**retries_by_error(), "on_failure_callback": tell},
    )
