"""The DAG behind the periods page, run by real Airflow: it acts on a period."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.common.compat.sdk import AirflowSkipException

from airflow_provider_chs3.testbed.trips import Trips
from tests.integration.conftest import lake, trips_lake
from tests.support.lake import PERIOD, Lake

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun
    from airflow.sdk import DAG

#: Fixtures.
__all__ = ["lake", "trips_lake"]

DAGS = Path(__file__).parents[2] / "dags"
TRIPS = Trips(rows_per_period=600, files_per_period=3)

SKIPPED = {"choose": "success", **dict.fromkeys(("forget", "merge", "discard", "restore", "unpin"), "skipped")}

Act = Callable[..., "DagRun"]


@pytest.fixture(scope="module")
def dag(airflow_db: Path) -> DAG:
    from tests.support.dag_bag import DagBag

    bag = DagBag(DAGS)
    assert bag.import_errors == {}
    return bag.dags["chs3_period_actions"]


@pytest.fixture
def act(dag: DAG, trips_lake: Lake, run_dag: Callable[..., DagRun]) -> Act:
    """Runs an action on the lake's period."""

    def act(action: str, **conf: Any) -> DagRun:
        conf = {"action": action, "period": PERIOD, "database": trips_lake.database, "table": "trips", **conf}
        return run_dag(dag, run_conf=conf)

    return act


def states(run: DagRun) -> dict[str, str]:
    return {ti.task_id: str(ti.state) for ti in run.get_task_instances()}


def test_a_period_is_forgotten_with_its_ledger_in_another_database(trips_lake: Lake, act: Act) -> None:
    elsewhere = f"{trips_lake.database}_staging"
    trips_lake.upload(TRIPS)
    trips_lake.on_every_node(f"CREATE DATABASE {elsewhere}")
    try:
        trips_lake.load(staging_database=elsewhere)
        done = act("forget", staging_database=elsewhere)
        records = trips_lake.on_every_node(f"SELECT event FROM {elsewhere}.chs3_ledger ORDER BY sequence DESC LIMIT 1")
    finally:
        trips_lake.on_every_node(f"DROP DATABASE {elsewhere} SYNC")
    assert states(done) == SKIPPED | {"forget": "success"}
    assert records == [[("forgotten",)]]
    assert trips_lake.facts() == TRIPS.facts(PERIOD)


@pytest.mark.thorough
def test_the_parts_of_a_period_are_merged(trips_lake: Lake, act: Act) -> None:
    parts = f"SELECT count() FROM system.parts WHERE active AND database = '{trips_lake.database}' AND table = 'trips'"
    trips_lake.on_every_node(f"SYSTEM STOP MERGES {trips_lake.database}.trips")
    for number in range(3):
        insert = (
            f"INSERT INTO {trips_lake.database}.trips (trip_id, pickup_at) VALUES ({number}, '{PERIOD}-05 00:00:00')"
        )
        trips_lake.on_every_node(insert)
    before = trips_lake.on_every_node(parts)
    trips_lake.on_every_node(f"SYSTEM START MERGES {trips_lake.database}.trips")
    done = act("merge")
    assert states(done) == SKIPPED | {"merge": "success"}
    assert before == [[(3,)]]
    assert trips_lake.on_every_node(parts) == [[(1,)]]


@pytest.mark.thorough
def test_what_a_period_held_is_restored_and_unpinned(trips_lake: Lake, act: Act) -> None:
    for trips in (TRIPS, Trips(seed=2, rows_per_period=300, files_per_period=3)):
        trips_lake.upload(trips)
        trips_lake.load(keep_versions=1)
    assert states(act("restore")) == SKIPPED | {"restore": "success"}
    assert trips_lake.facts() == TRIPS.facts(PERIOD)
    assert states(act("unpin")) == SKIPPED | {"unpin": "success"}
    assert trips_lake.load()["status"] == "published"


@pytest.mark.thorough
def test_what_is_held_of_a_period_is_discarded(trips_lake: Lake, act: Act) -> None:
    trips_lake.upload(TRIPS)
    few = {"table_checks": {"few": {"check_statement": "count() < 600"}}}
    with pytest.raises(AirflowSkipException, match="held, the table is unchanged"):
        trips_lake.load(checks=few, on_failed_check="hold")
    assert len({*trips_lake.left_behind()}) == 1
    assert states(act("discard")) == SKIPPED | {"discard": "success"}
    assert trips_lake.left_behind() == []
    assert trips_lake.load()["status"] == "published"


@pytest.mark.parametrize("wrong", [{"action": "drop"}, {"period": "2026-1"}, {"table": ""}])
def test_what_is_asked_wrongly_starts_no_run(act: Act, wrong: dict[str, str]) -> None:
    with pytest.raises(Exception, match="Invalid input for param"):
        act(**({"action": "merge"} | wrong))
