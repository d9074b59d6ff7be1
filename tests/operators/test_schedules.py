"""Schedules whose runs have no period are errors where the DAG is parsed; those whose runs have one are not."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow import sdk
from airflow.providers.common.compat.sdk import DAG
from airflow.timetables import interval, trigger

from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator
from airflow_provider_chs3.transfers.kafka_to_s3 import KafkaToS3Operator
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from airflow_provider_chs3.transfers.scheduled_load import scheduled_load
from tests.support.dag_bag import DagBag

PLACE = {"bucket": "lake", "key": "{YYYY-MM}/"}
DAY = timedelta(days=1)
#: As DAG files have it since Airflow 3.2.
CronTriggerTimetable = getattr(sdk, "CronTriggerTimetable", trigger.CronTriggerTimetable)


def parse(operator: Any, schedule: Any, **arguments: Any) -> None:
    """Make a DAG of one task, as Airflow does of a file."""
    dag = DAG("d", schedule=schedule, start_date=datetime(2026, 1, 1, tzinfo=UTC))
    what = {"topic": "t"} if operator is KafkaToS3Operator else {"table": "t"}
    task = operator(task_id="t", **what, **PLACE, **arguments)
    task.dag = dag
    DagBag(os.devnull).bag_dag(dag)


@pytest.mark.parametrize(
    ("schedule", "shown", "instead"),
    [
        ("@daily", "'@daily'", "('@daily', timezone='UTC')"),
        ("@monthly", "'@monthly'", "('@monthly', timezone='UTC')"),
        ("0 3 * * *", "'0 3 * * *'", "('0 3 * * *', timezone='UTC')"),
        ("@once", "'@once'", "('0 3 * * *', timezone='UTC')"),
        (DAY, "DeltaTriggerTimetable", "('0 3 * * *', timezone='UTC')"),
        (CronTriggerTimetable("0 3 * * *", timezone="UTC"), "CronTriggerTimetable", "('0 3 * * *', timezone='UTC')"),
        (
            trigger.CronTriggerTimetable("0 3 * * *", timezone="UTC"),
            "CronTriggerTimetable",
            "('0 3 * * *', timezone='UTC')",
        ),
        (
            trigger.MultipleCronTriggerTimetable("0 3 * * *", "0 9 * * *", timezone="UTC"),
            "MultipleCronTriggerTimetable",
            "('0 3 * * *', timezone='UTC')",
        ),
    ],
)
def test_runs_without_an_interval_are_an_error_of_the_dag(schedule: Any, shown: str, instead: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        parse(S3ToClickHouseOperator, schedule)
    assert str(error.value).startswith(f"DAG 'd' has schedule={shown}, whose runs have no data interval")
    assert f"CronDataIntervalTimetable{instead}" in str(error.value)
    assert str(error.value).endswith('for the DAG, or period="{{ ds[:7] }}" or other periods for the task.')


@pytest.mark.parametrize(
    ("operator", "arguments", "instead"),
    [
        (S3ToClickHouseOperator, {}, 'period="'),
        (PlanLoadsOperator, {}, 'periods="'),
        (PlanLoadsOperator, {"lookback": 2}, 'last_period="'),
        (KafkaToS3Operator, {"start": "2026-01-01T00:00:00Z"}, "start=… and end=…"),
    ],
)
def test_each_operator_names_what_it_could_be_given(operator: Any, arguments: dict[str, Any], instead: str) -> None:
    with pytest.raises(ConfigurationError, match=f"for the DAG, or {instead}"):
        parse(operator, "@daily", **arguments)


@pytest.mark.parametrize(
    ("operator", "arguments"),
    [
        (S3ToClickHouseOperator, {"period": "{{ ds[:7] }}"}),
        (S3ToClickHouseOperator, {"periods": ["2026-01"]}),
        (PlanLoadsOperator, {"periods": "{{ ds[:7] }}"}),
        (PlanLoadsOperator, {"lookback": 2, "last_period": "{{ ds[:7] }}"}),
        (PlanLoadsOperator, {"all_periods": True}),
        (KafkaToS3Operator, {"start": "2026-01-01T00:00:00Z", "end": "{{ ts }}"}),
    ],
)
def test_what_has_periods_of_its_own_takes_any_schedule(operator: Any, arguments: dict[str, Any]) -> None:
    parse(operator, "@daily", **arguments)


@pytest.mark.parametrize(
    "schedule",
    [
        None,
        interval.CronDataIntervalTimetable("0 3 * * *", timezone="UTC"),
        interval.DeltaDataIntervalTimetable(DAY),
        CronTriggerTimetable("0 3 * * *", timezone="UTC", interval=DAY),
        trigger.CronTriggerTimetable("0 3 * * *", timezone="UTC", interval=DAY),
        trigger.MultipleCronTriggerTimetable("0 3 * * *", timezone="UTC", interval=DAY),
    ],
)
def test_runs_that_may_have_a_period_are_none(schedule: Any) -> None:
    parse(S3ToClickHouseOperator, schedule)


def test_plain_cron_is_fine_where_airflow_gives_it_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__SCHEDULER__CREATE_CRON_DATA_INTERVALS", "True")
    parse(S3ToClickHouseOperator, "@daily")


def test_scheduled_load_names_its_plan() -> None:
    with DAG("nightly", schedule="@daily", start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        scheduled_load(table="t", lookback=2, **PLACE)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"DAG 'nightly' .*task 'scheduled_load\.plan'.*last_period="):
        DagBag(os.devnull).bag_dag(dag)


def test_the_import_error_of_a_dag_file_is_the_message(tmp_path: Any) -> None:
    (tmp_path / "nightly.py").write_text(
        "from airflow.sdk import DAG\n"
        "from airflow_provider_chs3.transfers.scheduled_load import scheduled_load\n"
        "with DAG('nightly', schedule='@daily'):\n"
        "    scheduled_load(bucket='b', key='{YYYY-MM}/', table='t')\n",
        encoding="utf-8",
    )
    (error,) = DagBag(str(tmp_path)).import_errors.values()
    assert "ConfigurationError: DAG 'nightly' has schedule='@daily', whose runs have no data interval" in error
