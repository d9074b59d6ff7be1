"""Loads of one period at once: one that sleeps while another takes over, and late statements of the dead."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from clickhouse_driver.errors import ServerException

from airflow_provider_chs3.client.runner import Runner
from airflow_provider_chs3.core.steps.operations import Insert, QueryNodes, Step
from airflow_provider_chs3.exceptions import Chs3Error
from airflow_provider_chs3.testbed.trips import Trips
from tests.support.killing import Worker, perform, performing, steps_of, writes
from tests.support.lake import Lake
from tests.support.outcome import assert_exact
from tests.support.slow import SLOW, SLOW_SETTINGS, wait_for_insert

pytestmark = pytest.mark.three_nodes

#: As many rows in every version, so that counts tell nothing.
TRIPS = Trips(rows_per_period=3_000, files_per_period=3)
UNKNOWN_TABLE = 60


def moments(steps: list[Step]) -> Iterator[int]:
    """The steps before which a load has written something else than before, or is about to."""
    for number, step in enumerate(steps):
        if writes(step) or (number and writes(steps[number - 1])):
            yield number


def load_asleep(load: Callable[[], Any], number: int, meanwhile: Callable[[], Any]) -> str:
    """Run a load that sleeps before one of its steps until something else has happened, and give what it says."""
    taken = count()

    def sleeping(runner: Runner, step: Step) -> Any:
        if next(taken) == number:
            meanwhile()
        return perform(runner, step)

    with performing(sleeping):
        try:
            return str(load()["status"])
        except (AirflowFailException, Chs3Error) as error:
            return str(error)


@pytest.mark.thorough
def test_a_load_that_slept_at_any_step_while_another_published_changes_nothing(trips_lake: Lake) -> None:
    def load() -> dict[str, Any]:
        # On one node, where the same rows come to be staged by both.
        return trips_lake.load(cluster=trips_lake.cluster.single_node_name)

    trips_lake.upload(TRIPS)
    load()
    trips_lake.upload(replace(TRIPS, seed=2))
    numbers = list(moments(steps_of(load)))
    for number in numbers:
        older, newer = replace(TRIPS, seed=100 + number), replace(TRIPS, seed=200 + number)

        def publish(newer: Trips = newer) -> None:
            trips_lake.upload(newer)
            assert load()["status"] == "published"

        trips_lake.upload(older)
        said = load_asleep(load, number, publish)
        print(f"Asleep before step {number}: {said}")  # shown where it fails
        # It had published before, looks again, or stops.
        assert said in ("published", "unchanged") or "started later and took over" in said
        assert_exact(trips_lake, newer)
        assert load()["status"] == "unchanged"
    assert len(numbers) > 10


@pytest.mark.thorough
def test_an_insert_that_goes_on_while_its_worker_sleeps_changes_nothing(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    worker = Worker(lambda: trips_lake.load(select=SLOW, settings=SLOW_SETTINGS))
    wait_for_insert(trips_lake)
    worker.signal(signal.SIGSTOP)
    newer = replace(TRIPS, seed=2)
    trips_lake.upload(newer)
    trips_lake.load()
    assert_exact(trips_lake, newer)
    worker.signal(signal.SIGCONT)
    assert worker.wait() == 1
    assert_exact(trips_lake, newer)
    assert trips_lake.load()["status"] == "unchanged"


@pytest.mark.thorough
def test_late_statements_of_a_dead_attempt_change_nothing(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    steps = steps_of(trips_lake.load)
    newer = replace(TRIPS, seed=2)
    trips_lake.upload(newer)
    trips_lake.load()
    for step in steps:
        if writes(step) and not step.name.startswith("Create staging"):
            print(f"{step.name}: {said_late(trips_lake, step)}")  # shown where it fails
            assert_exact(trips_lake, newer)
            assert trips_lake.load()["status"] == "unchanged"


def test_a_late_insert_of_a_dead_attempt_finds_no_table(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    (insert,) = (step for step in steps_of(trips_lake.load) if isinstance(step, Insert))
    with pytest.raises(ServerException) as error:
        trips_lake.on_node(0, insert.sql.text)
    assert error.value.code == UNKNOWN_TABLE


@pytest.mark.thorough
def test_staging_that_a_late_statement_of_a_dead_attempt_created_goes_with_the_next_load(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    (create,) = (step for step in steps_of(trips_lake.load) if step.name.startswith("Create staging"))
    said_late(trips_lake, create)
    assert len(trips_lake.left_behind()) == 3
    newer = replace(TRIPS, seed=2)
    trips_lake.upload(newer)
    trips_lake.load()
    assert_exact(trips_lake, newer)


def said_late(lake: Lake, step: Step) -> list[str]:
    """Run a step's statements again, and give the errors."""
    errors = []
    nodes = step.sql.items() if isinstance(step, QueryNodes) else [(None, step.sql)]  # type: ignore[attr-defined]
    for node, sql in nodes:
        try:
            lake.on_node(node.shard_num - 1 if node else 0, sql.text)
        except ServerException as error:
            errors.append(error.message.splitlines()[0])
    return errors
