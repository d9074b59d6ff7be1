"""Periods in all that may become of them, with a load at work, for whoever looks at the page in a browser."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.models.dag import DagModel
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG
from airflow.utils.session import create_session
from sqlalchemy import update

from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.exceptions import Chs3Error
from airflow_provider_chs3.testbed.nodes import Cluster
from airflow_provider_chs3.testbed.s3 import S3Endpoint
from airflow_provider_chs3.testbed.trips import Trips
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from tests.plugin.period_loads import TASK
from tests.support.browsing import SCREENSHOTS
from tests.support.dag_bag import DagBag, sync_bag_to_db
from tests.support.lake import Lake, lake_on
from tests.support.slow import SLOW, SLOW_SETTINGS, wait_for_insert
from tests.support.waiting import wait_until

STUCK, FAILED, PUBLISHED, LOADING = "2026-08", "2026-09", "2026-10", "2026-11"
#: The DAG whose tasks load them, and whose it is.
DAG_ID, OWNER = "trips_nightly", "data-platform"

#: Pictures show tables that have been there for a while, one of them with a gap.
_GAP = "2026-03"
_EARLIER = [str(Period.of_month(2025, 1).shifted(count)) for count in range(19)] if SCREENSHOTS else []
_OTHER_TABLES = ("airport_trips", "green_trips", "payments", "tips", "zones") if SCREENSHOTS else ()
#: Which has much fewer rows than the others.
_ODD = "2026-05"
#: Its insert lasts a minute or more, and gets on file by file.
_LONG = Trips(rows_per_period=60_000, files_per_period=60)


@contextmanager
def taxi_lake(cluster: Cluster, s3: S3Endpoint, bucket: str, patch: pytest.MonkeyPatch) -> Iterator[Lake]:
    """A lake in a database that somebody would have, if pictures are taken: the users of tests have no right to it."""
    with lake_on(cluster, s3, bucket, patch, database="taxi" if SCREENSHOTS else "test_taxi") as lake:
        if SCREENSHOTS:
            patch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(cluster.airflow_connection()))
        yield lake


@pytest.fixture(scope="module")
def scene(airflow_db: Path, chs3_cluster: Cluster, chs3_s3: S3Endpoint) -> Iterator[Lake]:
    """A period that is published, one that loads, one whose load failed, one that is stuck."""
    with (
        pytest.MonkeyPatch.context() as patch,
        _bucket(chs3_s3) as bucket,
        taxi_lake(chs3_cluster, chs3_s3, bucket, patch) as lake,
    ):
        _make_dag_known()
        lake.create_table()
        _load(lake, STUCK)
        # A mutation counts as a change of all parts that are there before it, in other partitions too.
        with _stuck(lake):
            for period in (*_EARLIER, PUBLISHED):
                if period != _GAP:
                    _load(lake, period)
            if _OTHER_TABLES:
                _load_other_tables(lake)
            _fail(lake)
            with _loading(lake):
                # The page asks as somebody who may see whatever there is to see.
                patch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(chs3_cluster.airflow_connection()))
                yield lake


def _make_dag_known() -> None:
    """Have Airflow know the DAG, which nobody schedules."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager

    DagBundlesManager().sync_bundles_to_db()
    with DAG(dag_id=DAG_ID, default_args={"owner": OWNER}) as dag:
        EmptyOperator(task_id="load")
    bag = DagBag(os.devnull)
    bag.bag_dag(dag)
    sync_bag_to_db(bag, "dags-folder", None)
    with create_session() as session:
        # Runs of other tests' DAGs are not shown.
        session.execute(update(DagModel).values(is_stale=DagModel.dag_id != DAG_ID, is_paused=False))


def _trips(period: str) -> Trips:
    return Trips(rows_per_period=150 if period == _ODD else 500 + 25 * (int(period[-2:]) % 5), files_per_period=3)


def _load(lake: Lake, period: str) -> None:
    lake.upload(_trips(period), period)
    lake.operator(period=period).execute({"ti": _task(period)})


def _load_other_tables(lake: Lake) -> None:
    """Load the same periods into further tables, each of which begins a quarter after the one before."""
    for period in (_GAP, FAILED):
        lake.upload(_trips(period), period)
    for number, table in enumerate(_OTHER_TABLES):
        lake.on_every_node(f"CREATE TABLE {lake.database}.{table} AS {lake.database}.trips")
        operator = S3ToClickHouseOperator(
            task_id="load",
            bucket=lake.bucket,
            key="trips/{YYYY-MM}/",
            database=lake.database,
            table=table,
            periods=[*_EARLIER[number * 3 :], STUCK, FAILED, PUBLISHED],
            cluster=lake.cluster.name,
        )
        operator.execute({"ti": _task(table)})


@contextmanager
def _bucket(s3: S3Endpoint) -> Iterator[str]:
    client, name = s3.client(), f"chs3-{uuid.uuid4().hex[:12]}"
    client.create_bucket(Bucket=name)
    yield name
    for each in client.list_objects_v2(Bucket=name)["Contents"]:
        client.delete_object(Bucket=name, Key=each["Key"])
    client.delete_bucket(Bucket=name)


def _fail(lake: Lake) -> None:
    lake.upload(_trips(FAILED), FAILED)
    failing = {"pickup_at": "pickup_at", "trip_id": "trip_id + throwIf(trip_id >= 0, 'no')"}
    with pytest.raises((AirflowFailException, Chs3Error)):
        lake.operator(period=FAILED, select=failing).execute({"ti": _task(FAILED)})


@contextmanager
def _stuck(lake: Lake) -> Iterator[None]:
    delete = f"DELETE IN PARTITION ID '{STUCK.replace('-', '')}' WHERE throwIf(trip_id >= 0, 'no')"
    lake.on_every_node(f"ALTER TABLE {lake.database}.trips {delete} SETTINGS mutations_sync = 0")
    failed = f"SELECT count() FROM system.mutations WHERE database = '{lake.database}' AND latest_fail_reason != ''"
    wait_until(lambda: any(rows[0][0] for rows in lake.on_every_node(failed)))
    try:
        yield
    finally:
        lake.on_every_node(f"KILL MUTATION WHERE database = '{lake.database}' SYNC")


@contextmanager
def _loading(lake: Lake) -> Iterator[None]:
    lake.upload(_LONG, LOADING)
    operator = lake.operator(period=LOADING, select=SLOW, settings=SLOW_SETTINGS)

    def load() -> None:
        with contextlib.suppress(AirflowFailException, Chs3Error):  # it is killed in the end
            operator.execute({"ti": _task(LOADING)})

    thread = threading.Thread(target=load)
    thread.start()
    try:
        wait_for_insert(lake)
        yield
    finally:
        lake.on_every_node("KILL QUERY WHERE match(initial_query_id, '^chs3_.*_insert')")
        thread.join()


def _task(run_id: str) -> Any:
    return SimpleNamespace(**vars(TASK) | {"dag_id": DAG_ID, "run_id": f"scheduled__{run_id}-28T03:00:00+00:00"})
