"""How long a load waits before it is tried again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from airflow import sdk

from airflow_provider_chs3.exceptions import (
    Chs3Error,
    ClickHouseConnectionError,
    ClickHouseServerError,
    NotReadyError,
    PreflightError,
    SupersededError,
)
from airflow_provider_chs3.operators.retries import retries_by_error
from airflow_provider_chs3.testbed.trips import Trips, create_table_sql
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun

    from airflow_provider_chs3.testbed.nodes import Cluster

TRIPS = Trips(rows_per_period=600, files_per_period=3)

by_error = pytest.mark.skipif(not hasattr(sdk, "RetryRule"), reason="retry policies came with Airflow 3.3")


def decision(error: Chs3Error) -> tuple[str, timedelta | None]:
    decided = retries_by_error()["retry_policy"].evaluate(error, try_number=1, max_tries=20)
    return decided.action.value, decided.retry_delay


@by_error
def test_objects_that_are_not_there_are_waited_for_long() -> None:
    assert decision(NotReadyError("no objects")) == ("retry", timedelta(minutes=30))


@by_error
@pytest.mark.parametrize("error", [SupersededError("newer"), PreflightError("disk full")])
def test_what_no_retry_can_mend_fails_at_once(error: Chs3Error) -> None:
    assert decision(error) == ("fail", None)


@by_error
@pytest.mark.parametrize(
    "error",
    [ClickHouseConnectionError("gone", "a:9000"), ClickHouseServerError(252, "TOO_MANY_PARTS", "wait", "a:9000")],
)
def test_servers_that_are_busy_or_down_are_left_alone_for_minutes(error: Chs3Error) -> None:
    assert decision(error) == ("default", None)
    assert retries_by_error()["retry_delay"] == timedelta(minutes=5)


@pytest.mark.thorough
def test_a_load_without_objects_waits_as_long_as_it_is_told_and_then_loads_them(
    run_dag: Callable[..., DagRun],
    chs3_cluster: Cluster,
    chs3_s3: Any,
    chs3_bucket: str,
    chs3_database: str,
    chs3_airflow_connections: None,
) -> None:
    for node in chs3_cluster.nodes:
        with node.client() as client:
            client.execute(create_table_sql(f"{chs3_database}.trips"))

    def arrive(context: Any) -> None:
        TRIPS.upload(chs3_s3.client(), "2026-01", bucket=chs3_bucket, prefix="trips/2026-01/")

    second, hour = timedelta(seconds=1), timedelta(hours=1)
    # Without a policy the wait grows from the shorter one.
    busy, not_ready = (hour, second) if hasattr(sdk, "RetryRule") else (second, hour)
    with sdk.DAG(f"retries_{chs3_database}", schedule=None, start_date=datetime(2026, 1, 1)) as dag:
        S3ToClickHouseOperator(
            task_id="load",
            bucket=chs3_bucket,
            key="trips/{YYYY-MM}/",
            database=chs3_database,
            table="trips",
            period="2026-01",
            on_retry_callback=arrive,
            **retries_by_error(when_busy=busy, when_not_ready=not_ready),
        )
    (ti,) = run_dag(dag).get_task_instances()
    assert (ti.state, ti.try_number, ti.xcom_pull(task_ids="load")["rows"]) == ("success", 2, 600)
