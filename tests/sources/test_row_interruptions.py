"""Loads from databases end in the rows of the period, whatever is killed: worker, database, or its sessions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.core.load import retry_policy
from airflow_provider_chs3.exceptions import ClickHouseServerError, TransientError
from airflow_provider_chs3.testbed.processes import terminate
from airflow_provider_chs3.testbed.programs.packages import started_or_skip
from airflow_provider_chs3.testbed.trips import COLUMNS, Trips
from tests.sources.restarting import Restarts
from tests.sources.row_lake import RowLake
from tests.sources.rows import MySqlRows, PostgresRows
from tests.sources.servers.mysql import MySqlServer
from tests.sources.servers.postgres import PostgresServer
from tests.sources.source_lake import wait_for_insert
from tests.sources.trips_target import PERIOD
from tests.support.killing import Worker, steps_of, strikes_after, strikes_amid
from tests.support.strikes import Strikes, strikes

pytestmark = pytest.mark.three_nodes

__all__ = ["strikes"]

TRIPS = Trips(rows_per_period=1_500)
CHANGE = "UPDATE {t} SET fare = fare + 1 WHERE pickup_at >= '2026-01-01' AND pickup_at < '2026-01-03'"
MOMENTS = ("Look at 3 nodes", "Read the columns of", "Insert the rows", "List again", "Record the intent")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loads wait a second for a database, not twenty: one that is still away then refuses them, which tests allow."""
    monkeypatch.setattr(retry_policy, "WAIT_SECONDS", 1)


@pytest.fixture
def lake(row_lake: RowLake) -> RowLake:
    """A period of trips in a table of a database, and an empty table that it is loaded into."""
    row_lake.put(TRIPS.table(PERIOD))
    return row_lake


def rows_of_database(lake: RowLake) -> list[tuple[Any, ...]]:
    """The period's rows, as the database's own client reads them."""
    with closing(lake.rows.connection()) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(COLUMNS)} FROM {lake.rows.table} ORDER BY trip_id")
        return [tuple(row) for row in cursor.fetchall()]


def rows_of_clickhouse(lake: RowLake) -> list[tuple[Any, ...]]:
    """The table's rows on all nodes, with times as the database has them, without a zone."""
    found = lake.on_every_node(f"SELECT {', '.join(COLUMNS)} FROM {lake.database}.trips")
    return sorted(tuple(map(_without_zone, row)) for rows in found for row in rows)


def _without_zone(value: Any) -> Any:
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


def assert_exact(lake: RowLake) -> None:
    assert rows_of_clickhouse(lake) == rows_of_database(lake)
    assert lake.left_behind() == []


def slow(lake: RowLake) -> dict[str, Any]:
    """Options of a load that takes seconds: it reads a view of which each row takes a while."""
    name, others = f"{lake.rows.table}_slow", ", ".join(column for column in COLUMNS if column != "zone")
    lake.change(f"CREATE VIEW {name} AS SELECT {others}, concat(zone, {lake.slowly(0.004)}) AS zone FROM {{t}}")
    return {"source_table": name, "fingerprint": "max(fare)"}


@pytest.mark.thorough
@pytest.mark.parametrize("points", [strikes_after, strikes_amid])
def test_after_kill_9_at_any_step_a_run_ends_in_the_rows_of_the_database(lake: RowLake, points: Any) -> None:
    lake.load()
    lake.change(CHANGE)
    found = list(points(steps_of(lake.load)))
    for strike in found:
        lake.change(CHANGE)
        print(f"Killed at {strike}")  # shown where it fails
        strike.kill_in(lake.load)
        lake.load()
        assert_exact(lake)
        assert lake.load()["status"] == "unchanged"
    assert len(found) > 3


@pytest.mark.thorough(but=1)
@pytest.mark.every_change
def test_after_kill_9_in_mid_insert_a_run_ends_in_the_rows_of_the_database(lake: RowLake) -> None:
    options = slow(lake)
    worker = Worker(lambda: lake.load(**options))
    try:
        wait_for_insert(lake)
    finally:
        worker.kill()
    assert sum(lake.rows_per_node()) == 0
    lake.load(**options)
    assert_exact(lake)


@pytest.fixture(params=["postgres", "mysql"])
def restarts(
    request: pytest.FixtureRequest, chs3_cluster: Any, chs3_database: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[RowLake, Restarts]]:
    """A lake of a server of its own, and restarts of that server."""
    rows, kind = {"postgres": (PostgresRows, PostgresServer), "mysql": (MySqlRows, MySqlServer)}[request.param]
    with started_or_skip(kind.start) as server:
        lake, restarts = RowLake.create(rows.create(server), chs3_cluster, chs3_database, monkeypatch), Restarts(server)
        lake.put(TRIPS.table(PERIOD))
        yield lake, restarts
        if restarts.process:
            terminate(restarts.process)


def wait_for_database(lake: RowLake) -> None:
    for _ in range(600):
        try:
            lake.rows.connection().close()
            return
        except Exception:
            time.sleep(0.1)
    raise AssertionError("the database did not start again")


@pytest.mark.thorough
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_database_that_restarts_costs_a_retry_at_most(
    restarts: tuple[RowLake, Restarts], strikes: Strikes, moment: str
) -> None:
    lake, server = restarts
    strikes.around_one(0, lambda step: step.name.startswith(moment), server.struck)
    try:
        lake.load()
    except (TransientError, ClickHouseServerError):
        assert sum(lake.rows_per_node()) == 0
    assert len(strikes.struck) == 1
    wait_for_database(lake)
    lake.load()
    assert_exact(lake)
    assert lake.load()["status"] == "unchanged"


def end_sessions(lake: RowLake) -> int:
    """End the sessions that read slices of the period, and return how many there were."""
    who = (
        "SELECT id FROM information_schema.processlist WHERE info LIKE '%AS chs3_0%' AND id <> CONNECTION_ID()"
        if lake.is_mysql
        else "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%AS chs3_0%' "
        "AND state = 'active' AND pid <> pg_backend_pid()"
    )
    with closing(lake.rows.connection()) as connection, connection.cursor() as cursor:
        cursor.execute(who)
        found = cursor.fetchall()
        for (number,) in found if lake.is_mysql else ():
            cursor.execute(f"KILL {number}")
        return len(found)


@pytest.mark.thorough
def test_a_read_that_the_database_ends_is_repeated(lake: RowLake, strikes: Strikes) -> None:
    options, ended = slow(lake), 0
    with ThreadPoolExecutor() as pool:
        load = pool.submit(lake.load, **options)
        wait_for_insert(lake)
        while not ended and not load.done():
            ended = end_sessions(lake)
        assert load.result(timeout=300)["status"] == "published"
    assert ended
    assert_exact(lake)


def outcome(lake: RowLake, options: dict[str, Any]) -> str:
    """How a load ends: its status, or what it says."""
    try:
        return str(lake.load(**options)["status"])
    except AirflowFailException as error:
        return str(error)


@pytest.mark.thorough
def test_loads_of_one_period_at_once_end_in_its_rows(lake: RowLake) -> None:
    options = slow(lake)
    with ThreadPoolExecutor() as pool:
        outcomes = list(pool.map(lambda _: outcome(lake, options), range(3)))
    assert "published" in outcomes
    assert all("started later and took over" in each for each in outcomes if each not in ("published", "unchanged"))
    assert_exact(lake)
