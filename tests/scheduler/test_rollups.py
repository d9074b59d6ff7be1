"""Roll-ups and backfills under a real scheduler: hours to a day, days to a month, and days on which clocks change."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow import sdk

from tests.support.airflow_services import AirflowServices
from tests.support.lake import Lake, lake_on

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.nodes import Cluster

#: As docs/how-to/downstream.md has them, with a table for each length.
DAGS = """
import os
from datetime import datetime

from airflow.sdk import DAG, Asset, CronDataIntervalTimetable, CronPartitionTimetable
from airflow.sdk import DayWindow, MonthWindow, PartitionedAssetTimetable, RollupMapper
from airflow.sdk import StartOfDayMapper, StartOfMonthMapper

from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from airflow_provider_chs3.transfers.scheduled_load import scheduled_load

hours, days = Asset("hours"), Asset("days")
LAKE = {
    "bucket": os.environ["TEST_BUCKET"],
    "key": "lake/{YYYY-MM-DD}/{HH}.csv",
    "database": os.environ["TEST_DATABASE"],
    "columns": ["at", "number"],
    "files": {"file_format": "CSV"},
}
ONCE = {"start_date": datetime(2026, 1, 1), "catchup": False, "max_active_runs": 1}

with DAG("hours", schedule=None, params={"periods": []}, **ONCE):
    asked = "{{ params.periods | join(',') }}"
    scheduled_load(table="by_hour", periods=asked, outlets=[hours], merge_health={"mode": "poke"}, **LAKE)

with DAG("days", schedule=None, params={"periods": []}, **ONCE):
    S3ToClickHouseOperator(task_id="load", table="by_day", periods=asked, outlets=[days], **LAKE)

all_hours = RollupMapper(upstream_mapper=StartOfDayMapper(input_format="%Y-%m-%dT%HZ"), window=DayWindow())
with DAG("day_of_hours", schedule=PartitionedAssetTimetable(assets=hours, default_partition_mapper=all_hours), **ONCE):
    S3ToClickHouseOperator(task_id="load", table="by_day", outlets=[days], **LAKE)

all_days = RollupMapper(upstream_mapper=StartOfMonthMapper(input_format="%Y-%m-%d"), window=MonthWindow())
with DAG("month_of_days", schedule=PartitionedAssetTimetable(assets=days, default_partition_mapper=all_days), **ONCE):
    S3ToClickHouseOperator(task_id="load", table="by_month", **LAKE)

for name, kind in {"intervals": CronDataIntervalTimetable, "partitions": CronPartitionTimetable}.items():
    with DAG(name, schedule=kind("0 0 * * *", timezone="Europe/Berlin"), end_date=datetime(2026, 4, 1), **ONCE):
        plan = PlanLoadsOperator(
            task_id="plan", table="of_berlin", periods_per_task=60, timezone="Europe/Berlin",
            **{name: LAKE[name] for name in ("bucket", "key", "database")}
        )
        S3ToClickHouseOperator.partial(task_id="load", table="of_berlin", **LAKE).expand(periods=plan.output)
"""
TIMEOUT_SECONDS = 600
ENDED = {"success", "failed"}

FEBRUARY = [datetime(2026, 2, 1, 12) + timedelta(days=day) for day in range(27)]
LAST_DAY = [datetime(2026, 2, 28) + timedelta(hours=hour) for hour in range(24)]
#: Two days of 23 and 24 hours in spring, and two of 25 and 24 in autumn; an hour before and after each pair.
SPRING = [datetime(2026, 3, 28, 22) + timedelta(hours=hour) for hour in range(1 + 23 + 24 + 1)]
AUTUMN = [datetime(2025, 10, 25, 21) + timedelta(hours=hour) for hour in range(1 + 25 + 24 + 1)]
RUNS = {"hours": 2, "days": 1, "day_of_hours": 1, "month_of_days": 1, "intervals": 2, "partitions": 2}


@pytest.fixture
def lake(chs3_cluster: Cluster, chs3_s3: Any, chs3_bucket: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    with lake_on(chs3_cluster, chs3_s3, chs3_bucket, monkeypatch) as lake:
        yield lake


@pytest.fixture
def tables(lake: Lake) -> Lake:
    """Fill the lake, with an object for each hour, and make the tables."""
    for at in (*FEBRUARY, *LAST_DAY, *SPRING, *AUTUMN):
        lake.put(f"lake/{at:%Y-%m-%d}/{at:%H}.csv", f"{number(at)},{number(at)}\n".encode())
    keys = {"by_hour": "toStartOfHour(at)", "by_day": "toDate(at)", "by_month": "toYYYYMM(at)"}
    for name, key in (keys | {"of_berlin": "toStartOfHour(at)"}).items():
        zone = "Europe/Berlin" if name == "of_berlin" else "UTC"
        columns = f"at DateTime('{zone}'), number UInt64"
        lake.on_every_node(
            f"CREATE TABLE {lake.database}.{name} ({columns}) ENGINE = MergeTree PARTITION BY {key} ORDER BY number"
        )
    return lake


@pytest.fixture
def services(
    tables: Lake, tmp_path: Path, airflow_db: Path, chs3_airflow_connections: None
) -> Iterator[AirflowServices]:
    dags = tmp_path / "dags"
    dags.mkdir()
    (dags / "rollups.py").write_text(DAGS)
    connections = {name: value for name, value in os.environ.items() if name.startswith("AIRFLOW_CONN_")}
    environment = {**connections, "TEST_BUCKET": tables.bucket, "TEST_DATABASE": tables.database}
    # The runs of assets are among what it schedules.
    environment["AIRFLOW__SCHEDULER__USE_JOB_SCHEDULE"] = "True"
    with AirflowServices(home=tmp_path, dags=dags, database=airflow_db, environment=environment) as started:
        yield started


def number(at: datetime) -> int:
    return int(at.replace(tzinfo=UTC).timestamp())


def rows(lake: Lake, table: str) -> list[int]:
    """The rows of a table on all nodes."""
    found = lake.on_node(0, f"SELECT number FROM cluster('{lake.cluster.name}', {lake.database}, {table}) ORDER BY 1")
    return [row[0] for row in found]


def ask(home: Path, sql: str) -> list[Any]:
    with closing(sqlite3.connect(home / "airflow.db")) as database:
        return database.execute(sql).fetchall()


def have_ended(home: Path) -> bool:
    """Whether all runs that are to be there have ended, or one has failed."""
    states: dict[str, list[str]] = {}
    for dag_id, state in ask(home, "SELECT dag_id, state FROM dag_run"):
        states.setdefault(dag_id, []).append(state)
    if any("failed" in each for each in states.values()):
        return True
    return all(len(states.get(dag, ())) >= count and ENDED.issuperset(states[dag]) for dag, count in RUNS.items())


def triggered(services: AirflowServices, dag_id: str, periods: Sequence[str]) -> None:
    services.command("dags", "trigger", dag_id, "--conf", json.dumps({"periods": list(periods)}))


@pytest.mark.thorough
@pytest.mark.skipif(not hasattr(sdk, "RollupMapper"), reason="roll-ups came with Airflow 3.3")
def test_each_is_loaded_when_all_that_it_is_made_of_has_landed(
    services: AirflowServices, tables: Lake, tmp_path: Path
) -> None:
    last = [f"{at:%Y-%m-%dT%H}Z" for at in LAST_DAY]
    # One is missing at first, and one run follows the other.
    triggered(services, "hours", last[:-1])
    triggered(services, "hours", last[-1:])
    triggered(services, "days", [f"{at:%Y-%m-%d}" for at in FEBRUARY])
    spring = ("--from-date", "2026-03-29T00:00+01:00", "--to-date", "2026-03-30T00:00+02:00")
    services.command("backfill", "create", "--dag-id", "intervals", *spring)
    autumn = ("--from-date", "2025-10-26", "--to-date", "2025-10-27")
    services.command("backfill", "create", "--dag-id", "partitions", *autumn)
    services.start()
    services.wait_until(lambda: have_ended(tmp_path), timeout_seconds=TIMEOUT_SECONDS)

    assert sorted(ask(tmp_path, "SELECT dag_id, state FROM dag_run")) == sorted(
        (dag_id, "success") for dag_id, count in RUNS.items() for _ in range(count)
    )
    follows = "SELECT dag_id, partition_key FROM dag_run WHERE dag_id LIKE '%_of_%' ORDER BY dag_id"
    assert ask(tmp_path, follows) == [("day_of_hours", "2026-02-28"), ("month_of_days", "2026-02")]
    # No run began with less than all that it waits for.
    early = (
        "SELECT run.dag_id FROM dag_run run, asset_event event JOIN asset ON asset.id = event.asset_id "
        "WHERE (run.dag_id, asset.name) IN (VALUES ('day_of_hours', 'hours'), ('month_of_days', 'days')) "
        "AND run.created_at < event.timestamp"
    )
    assert ask(tmp_path, early) == []
    assert rows(tables, "by_hour") == [number(at) for at in LAST_DAY]
    assert rows(tables, "by_day") == rows(tables, "by_month") == [number(at) for at in (*FEBRUARY, *LAST_DAY)]
    assert rows(tables, "of_berlin") == [number(at) for at in (*AUTUMN[1:-1], *SPRING[1:-1])]
