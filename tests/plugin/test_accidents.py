"""The first screen after a bad night: each accident is a row that says what is wrong, where, and what to do."""

from __future__ import annotations

import json
import os
import re
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.models import DagRun, TaskInstance
from airflow.models.dag import DagModel
from airflow.models.log import Log
from airflow.models.xcom import XComModel
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable
from airflow.utils.session import create_session
from fastapi.testclient import TestClient
from sqlalchemy import delete, update

from airflow_provider_chs3.client.runner import Runner
from airflow_provider_chs3.exceptions import Chs3Error
from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator
from airflow_provider_chs3.plugin.answers import periods as periods_api
from airflow_provider_chs3.plugin.constants import PLAN_KEY
from airflow_provider_chs3.plugin.observation.speed import slow_loads
from airflow_provider_chs3.sensors.merge_health import ClickHouseMergeHealthSensor
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.s3 import S3Endpoint
from airflow_provider_chs3.testbed.trips import Trips, create_table_sql
from airflow_provider_chs3.transfers.clickhouse_to_clickhouse import ClickHouseToClickHouseOperator
from tests.plugin.fixture_types import AsUser, Open
from tests.support.browsing import PAGE, SCREENSHOTS, keep
from tests.support.dag_bag import DagBag, sync_bag_to_db
from tests.support.lake import PERIOD, Lake, lake_on
from tests.support.narrow_user import WITH_NARROW_USER
from tests.support.slow import SLOW, SLOW_SETTINGS

TRIPS = Trips(rows_per_period=600, files_per_period=3)
#: Each table is loaded by a DAG of its own. One node loses the second database's ledger, all nodes the third's.
TABLES = (
    *("bad_value", "changed", "overwritten", "withdrawn", "killed", "silent", "stranded", "full", "filled_up"),
    *("unmerged", "slow", "calm"),
)
#: Made of the last one by a view.
MONTHS = "months"
#: A table that others load, whose plan fails.
UNPLANNED = ("east", "north", "west")
LOADED = (*TABLES, MONTHS, *UNPLANNED)
DATABASES = TAXI, LOST, DROPPED = "test_taxi", "test_lost", "test_dropped"


def dag_of(table: str) -> str:
    return f"{table}_nightly"


class Night:
    """Tables on a cluster, and runs of the DAGs that load them."""

    def __init__(self, lakes: dict[str, Lake], client: TestClient) -> None:
        self.lakes, self._client = lakes, client
        _make_known()

    def begin(self, table: str, kind: str = "S3ToClickHouseOperator") -> SimpleNamespace:
        """Start a run of a table's DAG, and give the task of it that loads, which runs."""
        path = f"/api/v2/dags/{dag_of(table)}/dagRuns"
        run_id = self._client.post(path, json={"logical_date": None}).raise_for_status().json()["dag_run_id"]
        task = SimpleNamespace(dag_id=dag_of(table), run_id=run_id, task_id="load", map_index=-1, try_number=1)
        set_task(task, operator=kind, state="running", try_number=1, start_date=datetime.now(UTC))
        task.xcom_push = lambda key, value: push(task, key, value)
        return task

    def load(self, table: str, database: str = TAXI, period: str = PERIOD, **options: Any) -> None:
        lake, task = self.lakes[database], self.begin(table)
        state = "failed"
        try:
            lake.operator(**arguments(table), period=period, **options).execute({"ti": task})
            state = "success"
        finally:
            end(task, state)

    def plan(self, table: str, **options: Any) -> None:
        bucket = {"bucket": self.lakes[TAXI].bucket}
        self.carry_out(PlanLoadsOperator, table, **(bucket | arguments(table) | options))

    def carry_out(self, kind: type[Any], table: str, /, **options: Any) -> None:
        """Run a task, whose error its log shows."""
        lake, task = self.lakes[TAXI], self.begin(table, kind.__name__)
        where = {"database": lake.database, "cluster": lake.cluster.name}
        try:
            kind(task_id="load", periods=[PERIOD], **where, **options).execute({"ti": task})
        except AirflowFailException as error:
            log(task, str(error))
            end(task, "failed")
        else:
            end(task, "success")


def arguments(table: str) -> dict[str, Any]:
    return {"table": table, "key": f"{table}/{{YYYY-MM}}/"}


def _make_known() -> None:
    """Have Airflow know the DAGs, one of which nobody schedules."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager

    DagBundlesManager().sync_bundles_to_db()
    bag = DagBag(os.devnull)
    for table in LOADED:
        schedule = None if table == "stranded" else CronDataIntervalTimetable("0 3 * * *", timezone="UTC")
        with DAG(dag_id=dag_of(table), schedule=schedule, default_args={"owner": "data-platform"}) as dag:
            EmptyOperator(task_id="load")
        bag.bag_dag(dag)
    sync_bag_to_db(bag, "dags-folder", None)
    known = [dag_of(table) for table in LOADED]
    with create_session() as session:
        session.execute(delete(DagRun).where(DagRun.dag_id.in_(known)))
        tomorrow = datetime.now(UTC) + timedelta(hours=11)
        values = {"is_stale": DagModel.dag_id.not_in(known), "is_paused": False, "next_dagrun_create_after": tomorrow}
        session.execute(update(DagModel).values(values))
        is_unscheduled = DagModel.dag_id == dag_of("stranded")
        session.execute(update(DagModel).where(is_unscheduled).values(next_dagrun_create_after=None))


def set_task(task: SimpleNamespace, **columns: Any) -> None:
    with create_session() as session:
        session.execute(update(TaskInstance).where(TaskInstance.run_id == task.run_id).values(columns))


def end(task: SimpleNamespace, state: str) -> None:
    now = datetime.now(UTC)
    set_task(task, state=state, end_date=now)
    with create_session() as session:
        of_run = update(DagRun).where(DagRun.run_id == task.run_id)
        session.execute(of_run.values(state=state, start_date=now - timedelta(minutes=1), end_date=now))


def log(task: SimpleNamespace, error: str) -> None:
    """As Airflow's supervisor logs what ends a task."""
    place = f"dag_id={task.dag_id}/run_id={task.run_id}/task_id={task.task_id}/attempt=1.log"
    path = Path(os.environ["AIRFLOW__LOGGING__BASE_LOG_FOLDER"], place)
    path.parent.mkdir(parents=True)
    raised = [{"exc_type": "AirflowFailException", "exc_value": error}]
    path.write_text(json.dumps({"level": "error", "event": "Task failed with exception", "error_detail": raised}))


def push(task: SimpleNamespace, key: str, value: Any) -> None:
    if key == PLAN_KEY:
        place = {"dag_id": task.dag_id, "run_id": task.run_id, "task_id": task.task_id, "map_index": task.map_index}
        XComModel.set(key=key, value=value, **place)


SETTINGS = {
    "full": " SETTINGS storage_policy = 'full'",
    # A limit that no load checks, and that ends its INSERT.
    "filled_up": f" SETTINGS min_free_disk_bytes_to_perform_insert = {10**17}",
    # Nothing is merged.
    "unmerged": " SETTINGS max_parts_to_merge_at_once = 1",
}


@pytest.fixture
def night(airflow_db: Any, as_user: AsUser, chs3_s3: S3Endpoint, monkeypatch: pytest.MonkeyPatch) -> Iterator[Night]:
    bucket = f"chs3-{uuid.uuid4().hex[:12]}"
    chs3_s3.client().create_bucket(Bucket=bucket)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        full = {"type": "local", "path": f"{folder}/", "keep_free_space_bytes": 10**17}
        storage = {"disks": {"full": full}, "policies": {"full": {"volumes": {"main": {"disk": "full"}}}}}
        cluster = stack.enter_context(
            ClickHouseCluster.start(2, server_settings={"storage_configuration": storage}, **WITH_NARROW_USER)
        )
        lakes = {
            name: stack.enter_context(lake_on(cluster, chs3_s3, bucket, monkeypatch, database=name))
            for name in DATABASES
        }
        for database, table in [*((TAXI, each) for each in TABLES), (LOST, "calm"), (DROPPED, "calm")]:
            lakes[database].on_every_node(create_table_sql(f"{database}.{table}") + SETTINGS.get(table, ""))
        for table in TABLES:
            TRIPS.upload(chs3_s3.client(), PERIOD, bucket=bucket, prefix=f"{table}/{PERIOD}/")
        yield Night(lakes, as_user("admin"))
        # Remove what killed loads left.
        for lake in lakes.values():
            lake.on_every_node(f"DROP DATABASE {lake.database} SYNC")


@contextmanager
def killed_at_insert() -> Iterator[None]:
    def die(runner: Runner, step: Any) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Runner, "insert", die)
        with pytest.raises(KeyboardInterrupt):
            yield


@contextmanager
def failing() -> Iterator[None]:
    with pytest.raises((AirflowFailException, Chs3Error)):
        yield


def go_wrong(night: Night) -> None:
    """All of it in one night."""
    lake = night.lakes[TAXI]
    for table in ("changed", "overwritten", "withdrawn", "calm"):
        night.load(table)
    for database in (LOST, DROPPED):
        night.load("calm", database)
    with failing():
        night.load("bad_value", select={"pickup_at": "pickup_at", "trip_id": "trip_id + throwIf(trip_id >= 0, 'no')"})
    lake.on_every_node(f"ALTER TABLE {TAXI}.changed UPDATE fare = 0 WHERE 1 SETTINGS mutations_sync = 2")
    first = lake.s3.list_objects_v2(Bucket=lake.bucket, Prefix=f"overwritten/{PERIOD}/")["Contents"][0]["Key"]
    lake.put(first, next(iter(Trips(seed=2, rows_per_period=600, files_per_period=3).files(PERIOD)))[1])
    first = lake.s3.list_objects_v2(Bucket=lake.bucket, Prefix=f"withdrawn/{PERIOD}/")["Contents"][0]["Key"]
    lake.s3.delete_object(Bucket=lake.bucket, Key=first)
    for table in ("overwritten", "withdrawn"):
        night.plan(table)
    for table in ("killed", "silent", "stranded"):
        with killed_at_insert():
            night.load(table)
    with create_session() as session:
        run = session.query(DagRun).filter(DagRun.dag_id == dag_of("silent")).one()
        place = {"dag_id": run.dag_id, "run_id": run.run_id, "task_id": "load", "map_index": -1}
        session.add(Log(event="heartbeat timeout", **place))
    with failing():
        night.load("full")
    with failing():
        night.load("filled_up", retries=0)
    make_stale(night)
    leave_unmerged(night)
    load_slowly(night)
    for table in UNPLANNED:
        night.plan(table, bucket="no-such-bucket")
    # A node without rows has nothing to lose.
    with_rows = next(node for node in (0, 1) if night.lakes[LOST].on_node(node, f"SELECT 1 FROM {LOST}.calm LIMIT 1"))
    night.lakes[LOST].on_node(with_rows, f"DROP TABLE {LOST}.chs3_ledger SYNC")
    night.lakes[DROPPED].on_every_node(f"DROP TABLE {DROPPED}.chs3_ledger SYNC")


def make_stale(night: Night) -> None:
    """Load a table from another, which then changes."""
    lake = night.lakes[TAXI]
    select = f"SELECT toStartOfMonth(pickup_at) AS month, count() AS trips FROM {TAXI}.calm GROUP BY month"
    engine = "ENGINE = SummingMergeTree PARTITION BY toYYYYMM(month) ORDER BY month"
    lake.on_every_node(f"CREATE TABLE {TAXI}.{MONTHS} (month Date, trips UInt64) {engine}")
    lake.on_every_node(f"CREATE MATERIALIZED VIEW {TAXI}.by_month TO {TAXI}.{MONTHS} AS {select}")
    night.carry_out(ClickHouseToClickHouseOperator, MONTHS, table=MONTHS, view=f"{TAXI}.by_month")
    lake.put(f"calm/{PERIOD}/late.parquet", next(iter(Trips(seed=3, rows_per_period=90).files(PERIOD)))[1])
    night.load("calm")


def leave_unmerged(night: Night) -> None:
    """Load a period in many parts, for which the sensor after the load fails."""
    settings = {"input_format_parquet_max_block_size": 10, "min_insert_block_size_rows": 10}
    night.load("unmerged", settings=settings)
    options = {"on_settled_with_too_many_parts": "fail", "settled_after_seconds": 0}
    night.carry_out(ClickHouseMergeHealthSensor, "unmerged", table="unmerged", **options)


# Some seconds are more than on any busy machine.
SLOWER = {"_SLOW_FACTOR": 1.0, "_SLOW_SECONDS": 1.0}


def load_slowly(night: Night) -> None:
    lake = night.lakes[TAXI]
    for month in ("2026-07", "2026-08", "2026-09"):
        TRIPS.upload(lake.s3, month, bucket=lake.bucket, prefix=f"slow/{month}/")
        night.load("slow", period=month)
    night.load("slow", select=SLOW, settings=SLOW_SETTINGS)


#: By the row of each: its state, what is wrong, and what to do.
SAID = {
    f"{TAXI}.full": ("failed", "has only 0 bytes free on full", "free some space there", "Reload…"),
    f"{TAXI}.filled_up": (
        "failed",
        "Could not perform insert. None of the disks in volume 'default' have enough free space",
        "A disk is full: free space on that node",
        "Reload…",
    ),
    f"{TAXI}.bad_value": (
        "failed",
        "Column 'trip_id' cannot be filled from row 1 of",
        "Correct select, or replace this object",
    ),
    f"{TAXI}.changed": (
        "changed",
        "UPDATE fare = 0 WHERE … by user loader since ",
        "others on nodes",
        "Copy chs3 adopt",
    ),
    f"{DROPPED}.calm": (
        "changed",
        "Loads published it, but the ledger that recorded that was dropped",
        "Copy chs3 adopt",
    ),
    f"{TAXI}.stranded": (
        "stranded",
        "Its DAG has no schedule, and no run is active",
        "or reload the period",
        "Reload…",
    ),
    f"{TAXI}.killed": ("unfinished", "Its newest load ended without publishing", "Its DAG runs next at 20", "Reload…"),
    f"{TAXI}.silent": (
        "unfinished",
        "its worker sent no more heartbeats: the worker was killed",
        "The next load repairs it.",
    ),
    f"{LOST}.calm": ("unfinished", "A node has lost its records of it (127.0.0.1:", "The next load repairs it."),
    f"{TAXI}.overwritten": ("objects changed", "1 object overwritten at 20", "The next load reads them."),
    f"{TAXI}.withdrawn": ("objects changed", "1 object deleted (", f"withdrawn/{PERIOD}/", "The next load reads them."),
    f"{TAXI}.{MONTHS}": (
        "stale",
        f"Its base, {TAXI}.calm, has changed since it was loaded",
        "The next load makes it again. Its DAG runs next at 20",
        "Reload…",
    ),
    f"{TAXI}.unmerged": ("too many parts", "the server finds nothing to merge", " parts)", "force merges"),
}
#: By the rows that are of no period.
ELSEWHERE = {
    "Runs of 3 DAGs failed": ("run failed", "for the same cause", "no-such-bucket", "there is no such bucket"),
    f"Run of DAG {dag_of('unmerged')} failed": ("run failed", "settled_with_too_many_parts", "OPTIMIZE TABLE"),
    "Slow loads": ("slow", "slower than usual", f"{TAXI}.slow", "Show loads"),
}


@pytest.mark.thorough
def test_each_accident_of_a_night_is_a_row(night: Night, open_page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    go_wrong(night)
    # Nobody waits until what has not merged counts as settled.
    for name, value in SLOWER.items():
        monkeypatch.setattr(slow_loads, name, value)
    monkeypatch.setattr(periods_api, "Thresholds", partial(periods_api.Thresholds, settled_after_seconds=0))
    # The page asks as somebody who may read the logs of queries, too.
    connection = night.lakes[TAXI].cluster.airflow_connection()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(connection))
        page, troubles = open_page(PAGE, role="admin", viewport={"width": 1440, "height": 900})
        needs = page.get_by_role("region", name="What needs attention")
        page.get_by_role("alert").get_by_text(f"{DROPPED}.chs3_ledger is gone from all nodes").wait_for()
        keep(page, "accidents-first")
        tables = page.get_by_role("group", name="All tables").bounding_box()
        assert tables is not None
        assert tables["y"] < 900
        assert needs.get_by_role("listitem").count() == 5
        needs.get_by_role("button", name=re.compile(r"Show \d+ more")).click()
        of_periods = {f"{table} {PERIOD}": texts for table, texts in SAID.items()}
        for name, texts in (of_periods | ELSEWHERE).items():
            row = needs.get_by_role("listitem", name=name)
            for text in texts:
                row.get_by_text(text).first.wait_for()
        names = [each.get_attribute("aria-label") for each in needs.get_by_role("listitem").all()]
        # Faults come first, and slow loads last.
        assert names[-1] == "Slow loads"
        of_rows = [name for name in names if name in of_periods]
        assert of_rows[-2:] == [f"{TAXI}.{MONTHS} {PERIOD}", f"{TAXI}.unmerged {PERIOD}"]
        keep(page, "accidents")
        if SCREENSHOTS:
            for width, height in ((1440, 1500), (820, 1900), (500, 2900)):
                page.set_viewport_size({"width": width, "height": height})
                page.wait_for_timeout(500)
                keep(page, f"accidents-{width}")
    assert troubles == []
