"""Runs of Airflow, in tables by day, by hour where clocks change, and without partitions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import DAG, AirflowFailException
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator
from airflow_provider_chs3.transfers.scheduled_load import scheduled_load
from tests.integration.grains import Case, Source
from tests.support.arguments import grouped
from tests.support.lake import Lake

HOURS = "{YYYY-MM-DD}/{HH}"


@pytest.fixture
def run_night(run_dag: Callable[..., Any]) -> Callable[..., str]:
    """Run `scheduled_load` in a DAG that runs each night, and return the state of the run."""

    def run(source: Source, at: datetime, *, cron: str, timezone: str = "UTC", **options: Any) -> str:
        lake = source.lake
        arguments = {
            **{"bucket": lake.bucket, "key": source.pattern, "database": lake.database, "table": lake.table},
            **{"cluster": lake.cluster.name, "file_format": "CSV", "columns": ["at", "number"]},
            "merge_health": {"mode": "poke", "settled_after_seconds": 0},
        }
        schedule = CronDataIntervalTimetable(cron, timezone=timezone)
        with DAG("night", schedule=schedule, start_date=datetime(2026, 1, 1, tzinfo=UTC), catchup=False) as dag:
            scheduled_load(**grouped(**(arguments | options)))
        return str(run_dag(dag, logical_date=at).state)

    return run


@pytest.mark.thorough
def test_a_night_loads_both_days_that_it_touches(lake: Lake, run_night: Callable[..., str]) -> None:
    source = Source(lake, Case("toDate(at)", "{YYYY-MM-DD}", "2026-10-31"))
    for number, day in enumerate(("2026-10-29", "2026-10-30", "2026-10-31", "2026-11-01")):
        source.put(day, "a", 100 * number)
    at = datetime(2026, 11, 1, 4, tzinfo=UTC)
    assert run_night(source, at, cron="0 3 * * *") == "success"
    source.assert_exact("2026-10-31", "2026-11-01")
    assert run_night(source, at, cron="0 3 * * *", lookback=2) == "success"
    source.assert_exact("2026-10-30", "2026-10-31", "2026-11-01")


@pytest.mark.thorough
def test_1500_days_are_planned_as_tasks_of_60(lake: Lake) -> None:
    source = Source(lake, Case("toDate(at)", "{YYYY-MM-DD}", ""))
    days = [datetime(2022, 10, 1, 12) + timedelta(days=day) for day in range(1_500)]
    source.put("", "a", 0, moments=days)
    schedule = CronDataIntervalTimetable("0 3 * * *", timezone="UTC")
    with DAG("many", schedule=schedule, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        scheduled_load(
            **{"bucket": lake.bucket, "key": source.pattern, "database": lake.database, "table": lake.table},
            **{"cluster": lake.cluster.name, "all_periods": True},
        )
    groups = dag.get_task("scheduled_load.plan").execute({})
    assert [len(group) for group in groups] == [60] * 25
    assert [day for group in groups for day in group] == [f"{day:%Y-%m-%d}" for day in days]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("timezone", "first"),
    [
        ("America/New_York", datetime(2026, 11, 1, 4)),
        pytest.param("Europe/Berlin", datetime(2026, 10, 24, 22), marks=pytest.mark.thorough),
    ],
)
def test_a_day_of_25_hours_has_all_of_them(
    lake: Lake, run_night: Callable[..., str], timezone: str, first: datetime
) -> None:
    source = Source(lake, Case("toStartOfHour(at)", HOURS, "", column=f"DateTime('{timezone}')"))
    moments = [first + timedelta(hours=hour, minutes=30) for hour in range(-1, 26)]
    source.put("", "a", 0, moments=moments)
    at = (first + timedelta(hours=26)).replace(tzinfo=UTC)
    assert run_night(source, at, cron="0 0 * * *", timezone=timezone) == "success"
    assert source.found() == source.expected(moments[1:-1])


@pytest.mark.thorough
def test_nights_add_to_a_whole_table(lake: Lake, run_night: Callable[..., str]) -> None:
    source = Source(lake, Case("", "{YYYY-MM-DD}", "all"))
    for day in (1, 2):
        source.put("all", "a", 100 * day, moments=[datetime(2026, 10, day, 12)])
        at = datetime(2026, 10, day + 1, 4, tzinfo=UTC)
        assert run_night(source, at, cron="0 3 * * *", lookback=1) == "success"
        assert source.found() == source.expected()


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("key", "template", "asked", "error"),
    [
        ("toDate(at)", "{YYYY-MM-DD}", "2026-10", r"is not partitioned by month \(its key is 'toDate\(at\)'"),
        ("toDate(at)", "{YYYY-MM-DD}", "all", r"is not one period \(its partition key is 'toDate\(at\)'"),
        (
            "toYYYYMM(at)",
            "{YYYY-MM}",
            "2026-10-05",
            r"no day in it, .* or set what it has: a month, such as 2026-10\.",
        ),
        ("", "{YYYY-MM-DD}", "2026-10-05", r"so the whole table is one period: set period='all'"),
    ],
)
def test_a_reload_of_periods_of_another_length_is_an_error(
    lake: Lake, key: str, template: str, asked: str, error: str
) -> None:
    source = Source(lake, Case(key, template, ""))
    conf = {"chs3_reload": {"database": lake.database, "table": lake.table, "periods": [asked]}}
    run = SimpleNamespace(partition_key=None, data_interval_start=None, data_interval_end=None, conf=conf)
    ids = {"dag_id": "d", "run_id": "r", "task_id": "t", "map_index": -1, "try_number": 1}
    context: Any = {"ti": SimpleNamespace(xcom_push=lambda **_: None, **ids), "dag_run": run}
    place = {"bucket": lake.bucket, "key": source.pattern, "database": lake.database, "table": lake.table}
    for task in (PlanLoadsOperator(**grouped(task_id="plan", **place)), source.operator()):
        with pytest.raises(AirflowFailException, match=error):
            task.execute(context)
