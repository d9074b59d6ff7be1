"""The page's knowledge from tasks: what plans found in S3, and which periods a run is about."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from airflow.models.dagrun import DagRun
from airflow.models.xcom import XComModel
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import DAG
from airflow.utils.session import create_session
from sqlalchemy import update

from airflow_provider_chs3.operators.optimize import OptimizePartitionOperator
from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator
from airflow_provider_chs3.plugin.constants import PLAN_KEY
from airflow_provider_chs3.testbed.trips import Trips
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from tests.plugin.fixture_types import AsUser
from tests.plugin.period_loads import TRIPS, loaded, periods
from tests.support.arguments import grouped
from tests.support.lake import PERIOD, Lake

RunDag = Callable[..., DagRun]

NEWER = Trips(seed=2, rows_per_period=600, files_per_period=3)


def plan(lake: Lake, run_dag: RunDag, *, dag_id: str = "plans", definition: Any = None) -> DagRun:
    with DAG(dag_id=dag_id, schedule=None) as dag:
        PlanLoadsOperator(**grouped(task_id="plan", periods=[PERIOD], definition=definition, **lake.place))
    return run_dag(dag)


def state(as_user: AsUser, lake: Lake) -> str:
    found: str = periods(as_user, lake)[PERIOD]["state"]
    return found


def test_a_period_whose_objects_a_plan_found_changed_is_changed_in_storage_until_it_is_loaded(
    as_user: AsUser, trips_lake: Lake, run_dag: RunDag
) -> None:
    loaded(trips_lake)
    trips_lake.upload(NEWER)
    # Nobody lists S3 for the page.
    assert state(as_user, trips_lake) == "published"
    plan(trips_lake, run_dag)
    period = periods(as_user, trips_lake)[PERIOD]
    assert period["state"] == "changed_in_storage"
    assert period["why"].startswith("3 objects overwritten, the last one at 20")
    assert f"{trips_lake.bucket}/trips/{PERIOD}/" in period["why"]
    trips_lake.load()
    assert state(as_user, trips_lake) == "published"


@pytest.mark.thorough
def test_a_period_whose_load_a_plan_found_to_stop_is_blocked_until_it_does_not(
    as_user: AsUser, trips_lake: Lake, run_dag: RunDag
) -> None:
    loaded(trips_lake)
    _, *others = trips_lake.upload(TRIPS)
    for other in others:
        trips_lake.s3.delete_object(Bucket=trips_lake.bucket, Key=other)
    plan(trips_lake, run_dag)
    period = periods(as_user, trips_lake)[PERIOD]
    assert period["state"] == "blocked"
    stops = "its load will stop: its objects changed since it was published: 2 objects deleted"
    assert period["why"].startswith(stops)
    plan(trips_lake, run_dag, dag_id="allowing", definition={"policies": {"max_shrink_fraction": 1}})
    assert state(as_user, trips_lake) == "changed_in_storage"
    # As plan and page said, in turn.
    with pytest.raises(AirflowFailException, match="max_shrink_fraction"):
        trips_lake.load()
    trips_lake.load(max_shrink_fraction=1)
    assert state(as_user, trips_lake) == "published"


@pytest.mark.thorough
def test_the_newest_plan_counts_whichever_dag_it_is_of_and_who_may_not_read_that_is_told_the_state_alone(
    as_user: AsUser, airflow_api: Any, trips_lake: Lake, run_dag: RunDag, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = trips_lake.upload(TRIPS)
    trips_lake.load()
    for key in trips_lake.upload(NEWER):
        assert key in first
    plan(trips_lake, run_dag, dag_id="secret")
    monkeypatch.setattr(airflow_api.state.auth_manager, "get_authorized_dag_ids", lambda **_: {"mine"})
    period = periods(as_user, trips_lake)[PERIOD]
    assert period["state"] == "changed_in_storage"
    assert "secret" not in json.dumps(period)
    monkeypatch.undo()


@pytest.mark.thorough
def test_what_others_put_under_the_same_key_is_left_alone(as_user: AsUser, trips_lake: Lake, run_dag: RunDag) -> None:
    loaded(trips_lake)
    run = plan(trips_lake, run_dag, dag_id="strange")
    for value in (7, "text", {"conn_id": "chs3_default", "periods": 3}, {"conn_id": "chs3_default"}, [], None):
        with create_session() as session:
            of_run = update(XComModel).where(XComModel.run_id == run.run_id, XComModel.key == PLAN_KEY)
            session.execute(of_run.values(value=json.dumps(value)))
        assert state(as_user, trips_lake) == "published"


class TestRuns:
    PERIODS = ("2026-10", "2026-11")

    @pytest.fixture
    def runs(self, trips_lake: Lake, run_dag: RunDag) -> list[str]:
        """Two of a DAG that loads two periods: the second one finds nothing to do. A third period is of nobody."""
        for period in (*self.PERIODS, "2026-12"):
            trips_lake.upload(TRIPS, period)
        trips_lake.load(period="2026-12")
        with DAG(dag_id="runs", schedule=None) as dag:
            S3ToClickHouseOperator.partial(task_id="load", **trips_lake.place).expand(period=list(self.PERIODS))
        return [run_dag(dag).run_id for _ in range(2)]

    @pytest.mark.thorough
    def test_a_runs_periods_are_those_that_its_tasks_are_about_though_another_loaded_them(
        self, as_user: AsUser, trips_lake: Lake, runs: list[str]
    ) -> None:
        def of(**scope: str) -> list[str]:
            return list(periods(as_user, trips_lake, dag_id="runs", **scope))

        assert [of(run_id=run_id) for run_id in runs] == [list(self.PERIODS)] * 2
        assert of(run_id="none") == []
        assert of() == of(task_id="load") == list(self.PERIODS)
        assert of(task_id="other") == []
        one = {"run_id": runs[1], "task_id": "load"}
        assert of(**one, map_index="1") == ["2026-11"]
        # What Airflow leaves where a task is not mapped.
        assert of(**one, map_index="{MAP_INDEX}") == list(self.PERIODS)

    @pytest.mark.thorough
    def test_a_run_about_a_period_and_about_its_whole_table_shows_all(
        self, as_user: AsUser, trips_lake: Lake, runs: list[str], run_dag: RunDag
    ) -> None:
        arguments = trips_lake.place
        with DAG(dag_id="both", schedule=None) as dag:
            load = S3ToClickHouseOperator(task_id="load", period=PERIOD, **arguments)
            load >> OptimizePartitionOperator(
                task_id="optimize", **{name: arguments[name] for name in ("table", "database", "cluster")}
            )
        shown = periods(as_user, trips_lake, dag_id="both", run_id=run_dag(dag).run_id)
        assert set(shown) == {*self.PERIODS, "2026-12"}
