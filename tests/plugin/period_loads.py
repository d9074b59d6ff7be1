"""Loads of trips as tasks, and the periods as the page gets them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.exceptions import Chs3Error
from airflow_provider_chs3.plugin.answers.schemas import Periods
from airflow_provider_chs3.testbed.trips import Trips
from tests.plugin.fixture_types import AsUser
from tests.support.deferring import Gate
from tests.support.lake import PERIOD, Lake
from tests.support.slow import SLOW, SLOW_SETTINGS, wait_for_insert

TRIPS = Trips(rows_per_period=600, files_per_period=3)
TASK = SimpleNamespace(
    dag_id="mine", run_id="run", task_id="load", map_index=-1, try_number=1, xcom_push=lambda **_: None
)
HOSTILE = "<b>x</b><script>alert(1)</script>"


def periods(as_user: AsUser, lake: Lake, table: str = "trips", **query: str) -> dict[str, dict[str, Any]]:
    """The periods of a table as the page gets them."""
    answer = as_user("viewer").get("/chs3/api/periods", params=query).raise_for_status()
    found = answer.json()
    assert Periods.model_validate_json(answer.content, strict=True).model_dump(mode="json") == found
    (connection,) = found["connections"]
    assert (connection["error"], connection["cluster"]) == ("", lake.cluster.name)
    of_table = [
        each["periods"] for each in connection["tables"] if (each["database"], each["table"]) == (lake.database, table)
    ]
    return {period["period"]: period for period in of_table[0]} if of_table else {}


def loaded(lake: Lake, period: str = PERIOD) -> Lake:
    lake.upload(TRIPS, period)
    lake.load(period=period)
    return lake


def fail(lake: Lake, task: SimpleNamespace) -> None:
    """A load that ends in its insert."""
    lake.upload(Trips(seed=2, rows_per_period=600, files_per_period=3))
    failing = {"pickup_at": "pickup_at", "trip_id": "trip_id + throwIf(trip_id >= 0, 'no')"}
    with pytest.raises((AirflowFailException, Chs3Error)):
        lake.operator(select=failing).execute({"ti": task})


@contextmanager
def loading(
    lake: Lake, gate: Gate | None = None, *, period: str = PERIOD, task: SimpleNamespace = TASK
) -> Iterator[str]:
    """A load as a task of a DAG, that a gate holds or that takes some seconds; the query id of its insert."""
    held = {"durable": True, **gate.options} if gate else {"select": SLOW, "settings": SLOW_SETTINGS}
    thread = threading.Thread(target=lake.operator(period=period, **held).execute, args=({"ti": task},))
    thread.start()
    try:
        yield wait_for_insert(lake)
    finally:
        if gate:
            gate.open()
        thread.join()


def ask(as_user: AsUser, lake: Lake, **query: str) -> Any:
    question = {"conn_id": "chs3_default", "database": lake.database, "table": lake.table, "period": PERIOD}
    return as_user("viewer").get("/chs3/api/period", params=question | query)


def details(as_user: AsUser, lake: Lake, **query: str) -> dict[str, Any]:
    return dict(ask(as_user, lake, **query).raise_for_status().json())


def load_table(lake: Lake, table: str, key: str, template: str, objects: dict[str, str]) -> None:
    """Load a table of times, one object for each period."""
    made = f"CREATE TABLE IF NOT EXISTS {lake.database}.{table} (at DateTime('UTC'), n UInt64) ENGINE = MergeTree"
    lake.on_every_node(f"{made} {f'PARTITION BY {key}' if key else ''} ORDER BY n")
    for period, rows in objects.items():
        lake.put(f"{table}/{period}/a.csv", rows.encode())
    options = {"period": None, "periods": list(objects)} if key else {"period": "all"}
    operator = lake.operator(
        key=f"{table}/{template}/*.csv", table=table, columns=["at", "n"], file_format="CSV", **options
    )
    operator.execute({"ti": TASK})
