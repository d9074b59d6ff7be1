"""Workers that are killed, told to end, or run out of time, at any point of a load."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Thread
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowTaskTimeout
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowTaskTerminated
from airflow.sdk.execution_time.supervisor import in_process_api_server

from airflow_provider_chs3.client import runner
from airflow_provider_chs3.core.steps.operations import Step
from airflow_provider_chs3.hooks.clickhouse import PooledClickHouseHook
from airflow_provider_chs3.testbed.trips import Trips
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from tests.support.killing import Strike, Worker, steps_of, strikes_after, strikes_amid
from tests.support.lake import PERIOD, Lake
from tests.support.outcome import assert_exact, assert_untouched
from tests.support.slow import SLOW, SLOW_SETTINGS, wait_for_insert

pytestmark = pytest.mark.three_nodes

#: In turns, so that rows of the two could mix; as many rows, so that their number tells nothing.
VERSIONS = tuple(Trips(seed=seed, rows_per_period=3_000, files_per_period=5) for seed in (1, 2))
TRIPS = Trips(rows_per_period=6_000, files_per_period=6)

Strikes = Callable[[list[Step]], Iterator[Strike]]


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("strikes", "first", "distance"),
    # A load has fewer steps to be killed amid.
    [*((strikes_after, first, 10) for first in range(10)), *((strikes_amid, first, 4) for first in range(4))],
)
def test_after_kill_9_at_any_step_a_run_ends_in_the_objects_rows(
    trips_lake: Lake, strikes: Strikes, first: int, distance: int
) -> None:
    trips_lake.upload(VERSIONS[0])
    trips_lake.load()
    trips_lake.upload(VERSIONS[1])
    points = list(strikes(steps_of(trips_lake.load)))[first::distance]
    assert points
    for number, strike in enumerate(points):
        trips = VERSIONS[number % 2]
        trips_lake.upload(trips)
        print(f"Killed at {strike}")  # shown where it fails
        strike.kill_in(trips_lake.load)
        trips_lake.load()
        assert_exact(trips_lake, trips)
        assert trips_lake.load()["status"] == "unchanged"


@pytest.mark.thorough
def test_after_kill_9_of_a_first_load_with_one_ledger_made_a_run_publishes(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    steps = steps_of(trips_lake.load)
    trips_lake.on_every_node(f"DROP TABLE {trips_lake.database}.chs3_ledger SYNC")
    trips_lake.on_every_node(f"TRUNCATE TABLE {trips_lake.database}.trips SYNC")
    make_ledger = next(strike for strike in strikes_amid(steps) if "ledger" in strike.name)
    make_ledger.kill_in(trips_lake.load)
    assert trips_lake.on_every_node(f"EXISTS {trips_lake.database}.chs3_ledger") == [[(1,)], [(0,)], [(0,)]]
    trips_lake.load()
    assert_exact(trips_lake, TRIPS)


@pytest.mark.thorough
def test_after_kill_9_in_mid_insert_a_run_ends_in_the_objects_rows(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    worker = Worker(lambda: trips_lake.load(select=SLOW, settings=SLOW_SETTINGS))
    try:
        wait_for_insert(trips_lake)
    finally:
        worker.kill()
    assert_untouched(trips_lake, None)
    trips_lake.load()
    assert_exact(trips_lake, TRIPS)


def slow_dag(lake: Lake, **options: Any) -> DAG:
    with DAG(dag_id="struck") as dag:
        lake.operator(select=SLOW, settings=SLOW_SETTINGS, **options)
    return dag


def test_sigterm_in_mid_insert_leaves_nothing(trips_lake: Lake, run_dag: Callable[..., Any]) -> None:
    trips_lake.upload(TRIPS)
    dag = slow_dag(trips_lake)

    def run() -> None:
        # A thread of Airflow's own, which an earlier test may have started, does not come with the fork.
        in_process_api_server.cache_clear()
        run_dag(dag)

    worker = Worker(run)
    wait_for_insert(trips_lake)
    worker.signal(signal.SIGTERM)
    worker.wait()
    assert trips_lake.left_behind() == []
    assert_untouched(trips_lake, None)
    trips_lake.load()
    assert_exact(trips_lake, TRIPS)


@pytest.mark.thorough
def test_a_task_that_runs_out_of_time_in_mid_insert_leaves_nothing(
    trips_lake: Lake, run_dag: Callable[..., Any]
) -> None:
    trips_lake.upload(TRIPS)

    def ring() -> None:
        wait_for_insert(trips_lake)
        os.kill(os.getpid(), signal.SIGALRM)  # what Airflow's timer does when the time is over

    with ThreadPoolExecutor() as pool:
        rung = pool.submit(ring)
        run = run_dag(slow_dag(trips_lake, execution_timeout=timedelta(minutes=5)))
        rung.result()
    assert run.state == "failed"
    assert trips_lake.left_behind() == []
    assert_untouched(trips_lake, None)
    trips_lake.load()
    assert_exact(trips_lake, TRIPS)


@pytest.mark.thorough
def test_a_time_out_whose_exception_python_ignores_ends_the_load_all_the_same(
    trips_lake: Lake, run_dag: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    trips_lake.upload(TRIPS)
    ignored: list[Any] = []
    failures: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: ignored.append(unraisable.exc_type))
    announce = runner.announce

    def in_a_callback(*arguments: Any) -> None:
        announce(*arguments)
        collected = Thread()
        weakref.finalize(collected, lambda: None)
        reference = weakref.ref(collected, lambda _: time.sleep(60))  # until the alarm
        del collected
        assert reference() is None

    monkeypatch.setattr(runner, "announce", in_a_callback)
    dag = slow_dag(
        trips_lake,
        execution_timeout=timedelta(seconds=30),
        on_failure_callback=lambda context: failures.append(context["exception"]),
    )
    assert run_dag(dag).state == "failed"
    assert ignored == [AirflowTaskTimeout]
    assert [type(failure) for failure in failures] == [AirflowTaskTimeout]
    assert trips_lake.left_behind() == []
    assert_untouched(trips_lake, None)


@pytest.mark.thorough
@pytest.mark.parametrize("asked", [{"period": PERIOD}, {"periods": [PERIOD, "2026-11"]}], ids=["period", "periods"])
def test_a_load_looks_at_the_clock_by_itself(trips_lake: Lake, asked: dict[str, Any]) -> None:
    for period in (PERIOD, "2026-11"):
        trips_lake.upload(TRIPS, period)
    given = {"select": SLOW, "settings": SLOW_SETTINGS, "execution_timeout": timedelta(seconds=4)}
    operator = trips_lake.operator_of(S3ToClickHouseOperator, **asked, **given)
    with pytest.raises(AirflowTaskTimeout, match=r"longer than execution_timeout=0:00:04"):
        operator.execute({})
    operator.on_kill()
    assert trips_lake.left_behind() == []
    assert_untouched(trips_lake, None)


@pytest.mark.thorough
@pytest.mark.parametrize("first", [1, 5])
def test_a_task_that_is_ended_goes_no_further(trips_lake: Lake, monkeypatch: pytest.MonkeyPatch, first: int) -> None:
    # Airflow calls `on_kill`, and lets the task go on for five seconds: here before every eighth of its statements.
    trips_lake.upload(TRIPS)
    query = PooledClickHouseHook.query
    for number in itertools.count(first, 8):
        operator, asked = trips_lake.operator(), itertools.count(1)

        def ended_before(hook: Any, *args: Any, at: int = number, **kwargs: Any) -> Any:
            if next(asked) == at:  # noqa: B023  # of this round
                operator.on_kill()  # noqa: B023
            return query(hook, *args, **kwargs)

        monkeypatch.setattr(PooledClickHouseHook, "query", ended_before)
        try:
            operator.execute({})
        except AirflowTaskTerminated:
            assert trips_lake.left_behind() == [], f"ended before statement {number}"
        else:
            break
    assert number > 10
    assert_exact(trips_lake, TRIPS)


@pytest.mark.thorough
def test_kill_query_by_somebody_fails_the_load_for_good(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    with ThreadPoolExecutor() as pool:
        load = pool.submit(trips_lake.load, select=SLOW, settings=SLOW_SETTINGS)
        wait_for_insert(trips_lake)
        trips_lake.on_node(0, "KILL QUERY WHERE initial_query_id LIKE 'chs3%insert1' ASYNC")
        with pytest.raises(AirflowFailException, match=r"394.*Somebody ended the query"):
            load.result(timeout=300)
    assert trips_lake.left_behind() == []
    assert_untouched(trips_lake, None)
    trips_lake.load()
    assert_exact(trips_lake, TRIPS)


def test_sigterm_while_nodes_are_about_to_be_asked_does_not_hang(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)

    def load() -> None:
        operator = trips_lake.operator()
        signal.signal(signal.SIGTERM, lambda number, frame: operator.on_kill())
        start = Thread.start

        def interrupted(thread: Thread) -> None:
            # An executor holds its locks while it starts a thread.
            Thread.start = start  # type: ignore[method-assign]
            os.kill(os.getpid(), signal.SIGTERM)
            start(thread)

        Thread.start = interrupted  # type: ignore[method-assign]
        operator.execute({})

    assert Worker(load).wait_or_kill(timeout_seconds=300) >= 0
    trips_lake.load()
    assert_exact(trips_lake, TRIPS)
