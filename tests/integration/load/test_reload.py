"""A period that is as published is loaded again where its run asks for it: once, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.models.dagrun import DagRun
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException
from airflow.sdk import DAG

from airflow_provider_chs3.exceptions import NotReadyError
from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator
from airflow_provider_chs3.operators.versions import ListVersionsOperator, RestorePeriodsOperator
from airflow_provider_chs3.testbed.trips import Trips
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from tests.integration.load.reloading import TASK, conf_of, context_of, reload
from tests.support.arguments import grouped
from tests.support.lake import PERIOD, Lake

RunDag = Callable[..., DagRun]

TRIPS = Trips(rows_per_period=600, files_per_period=3)


def plan_of(lake: Lake, **options: Any) -> PlanLoadsOperator:
    where = {"bucket": lake.bucket, "key": "trips/{YYYY-MM}/", "database": lake.database, "table": "trips"}
    return PlanLoadsOperator(**grouped(task_id="plan", **(where | options)))


def plan(lake: Lake, conf: dict[str, Any], **options: Any) -> list[str]:
    return plan_of(lake, **options).execute(context_of(conf))


def mapped(lake: Lake, **options: Any) -> Any:
    where = {"bucket": lake.bucket, "key": "trips/{YYYY-MM}/", "database": lake.database, "table": "trips"}
    return S3ToClickHouseOperator.partial(**grouped(task_id="load", cluster=lake.cluster.name, **(where | options)))


def delete_objects(lake: Lake) -> None:
    for each in lake.s3.list_objects_v2(Bucket=lake.bucket)["Contents"]:
        lake.s3.delete_object(Bucket=lake.bucket, Key=each["Key"])


def states(run: DagRun) -> tuple[str, dict[str, str]]:
    """The state of a run; task, with its map index → state."""
    return str(run.state), {
        ti.task_id if ti.map_index < 0 else f"{ti.task_id} {ti.map_index}": str(ti.state)
        for ti in run.get_task_instances()
    }


def insert_a_row(lake: Lake) -> None:
    lake.on_node(1, f"INSERT INTO {lake.database}.trips (trip_id, pickup_at) VALUES (1, '{PERIOD}-05 00:00:00')")


@pytest.fixture
def loaded(trips_lake: Lake) -> Lake:
    """A lake whose period is as published."""
    trips_lake.upload(TRIPS)
    trips_lake.load()
    return trips_lake


class TestLoad:
    @pytest.mark.thorough
    def test_an_unchanged_period_is_loaded_and_has_the_same_rows(self, loaded: Lake) -> None:
        before = loaded.load()
        result = reload(loaded)
        assert (before["status"], result["status"]) == ("unchanged", "published")
        assert result["reason"] == "it is as published, but a reload was requested"
        assert result["attempt"] != before["attempt"]
        assert loaded.facts() == TRIPS.facts(PERIOD)

    @pytest.mark.thorough
    def test_a_retry_after_it_was_published_does_not_load_again(self, loaded: Lake) -> None:
        # A load without a period takes that of the run.
        first = reload(loaded, period=None)
        again = reload(loaded)
        assert (again["status"], again["reason"]) == ("published", "an earlier try of this task published it")
        assert (first["period"], len(first["query_ids"]), again["query_ids"]) == (PERIOD, 1, [])

    @pytest.mark.thorough
    def test_the_next_run_that_asks_for_it_does(self, loaded: Lake) -> None:
        reload(loaded)
        another = SimpleNamespace(**vars(TASK) | {"run_id": "another"})
        assert loaded.operator().execute(context_of(conf_of(loaded), another))["query_ids"] != []

    @pytest.mark.thorough
    def test_a_deferred_load_does_so_too_and_its_retry_not(self, loaded: Lake) -> None:
        first, again = (reload(loaded, deferrable=True) for _ in range(2))
        assert first["reason"] == "it is as published, but a reload was requested"
        assert again["reason"] == "an earlier try of this task published it"

    @pytest.mark.thorough
    def test_but_not_one_of_several(self, loaded: Lake) -> None:
        with pytest.raises(AirflowFailException, match="name one period in chs3_reload, or map the load"):
            reload(loaded, conf_of(loaded, PERIOD, "2026-11"), period=None)

    @pytest.mark.thorough
    @pytest.mark.parametrize("changed", [{"periods": ["2026-09"]}, {"table": "other"}, {"database": "other"}])
    def test_loads_of_other_periods_and_tables_are_skipped(self, loaded: Lake, changed: dict[str, Any]) -> None:
        conf = conf_of(loaded)
        conf["chs3_reload"] |= changed
        with pytest.raises(AirflowSkipException, match="skipped: this run reloads"):
            reload(loaded, conf)

    @pytest.mark.thorough
    def test_the_table_may_be_named_as_the_load_names_it_or_as_the_ledger_does(self, loaded: Lake) -> None:
        loaded.on_every_node(
            f"CREATE TABLE {loaded.database}.trips_all AS {loaded.database}.trips "
            f"ENGINE = Distributed({loaded.cluster.name}, {loaded.database}, trips)"
        )
        for name in ("trips", "trips_all"):
            conf = conf_of(loaded)
            conf["chs3_reload"]["table"] = name
            task = SimpleNamespace(**vars(TASK) | {"run_id": name})
            result = loaded.operator(table="trips_all").execute(context_of(conf, task))
            assert result["status"] == "published"
        assert loaded.facts() == TRIPS.facts(PERIOD)


class TestNothing:
    """A DAG may take its table from what a run lacks. If no task loads the period then, the run must fail."""

    def test_a_load_of_another_period_fails(self, loaded: Lake, run_dag: RunDag) -> None:
        with DAG("d", schedule=None) as dag:
            loaded.operator()
        assert states(run_dag(dag, run_conf=conf_of(loaded, "2026-09"))) == ("failed", {"load": "failed"})
        assert loaded.facts() == TRIPS.facts(PERIOD)

    @pytest.mark.thorough
    def test_and_says_what_the_task_loads(self, loaded: Lake) -> None:
        of_task = {"xcom_pull": lambda **_: ["noted"], "get_ti_count": lambda **_: 1}
        with DAG("d", schedule=None):
            load = loaded.operator()
        said = rf"'load', does not: it loads {loaded.database}\.trips {PERIOD}\. If the DAG takes"
        with pytest.raises(AirflowFailException, match=said):
            load.execute(context_of(conf_of(loaded, "2026-09"), SimpleNamespace(**vars(TASK) | of_task)))

    @pytest.mark.thorough
    def test_of_a_pinned_period_says_so(self, loaded: Lake) -> None:
        reload(loaded, keep_versions=1)
        table = {"table": loaded.table, "database": loaded.database, "cluster": loaded.cluster.name}
        (version,) = ListVersionsOperator(task_id="versions", **table).execute({})
        by_ann = RestorePeriodsOperator(task_id="ann", periods=PERIOD, version=version["attempt"], **table)
        assert [each["status"] for each in by_ann.execute({})] == ["restored"]
        with pytest.raises(AirflowSkipException, match=r"pinned since .* by ann, who restored"):
            reload(loaded)
        of_task = {"xcom_pull": lambda **_: ["noted"], "get_ti_count": lambda **_: 1}
        with (
            DAG("d", schedule=None),
            pytest.raises(AirflowFailException, match=r"'load', does not: pinned since"),
        ):
            loaded.operator().execute(context_of(conf_of(loaded), SimpleNamespace(**vars(TASK) | of_task)))

    @pytest.mark.thorough
    def test_so_does_a_plan_of_another_table_and_its_loads_do_not_count(self, loaded: Lake, run_dag: RunDag) -> None:
        with DAG("d", schedule=None) as dag:
            planned = plan_of(loaded, table="other")
            mapped(loaded, table="other").expand(period=planned.output)
        run = run_dag(dag, run_conf=conf_of(loaded))
        assert states(run) == ("failed", {"plan": "failed", "load": "upstream_failed"})

    @pytest.mark.thorough
    def test_of_several_loads_the_last_one_fails(self, loaded: Lake, run_dag: RunDag) -> None:
        with DAG("d", schedule=None) as dag:
            for table in ("one", "two", "three"):
                loaded.operator(table=table, task_id=table)
        state, of_tasks = states(run_dag(dag, run_conf=conf_of(loaded)))
        assert (state, sorted(of_tasks.values())) == ("failed", ["failed", "skipped", "skipped"])

    @pytest.mark.thorough
    def test_of_several_loads_those_of_other_tables_are_skipped(self, loaded: Lake, run_dag: RunDag) -> None:
        before = loaded.load()
        with DAG("d", schedule=None) as dag:
            loaded.operator(table="one", task_id="one")
            loaded.operator(table="trips", task_id="trips")
            loaded.operator(table="three", task_id="three")
        expected = {"one": "skipped", "trips": "success", "three": "skipped"}
        assert states(run_dag(dag, run_conf=conf_of(loaded))) == ("success", expected)
        assert loaded.load()["attempt"] != before["attempt"]

    @pytest.mark.thorough
    def test_of_mapped_loads_the_last_one_fails(self, loaded: Lake, run_dag: RunDag) -> None:
        with DAG("d", schedule=None) as dag:
            mapped(loaded).expand(period=[PERIOD, "2026-11", "2026-12"])
        state, of_tasks = states(run_dag(dag, run_conf=conf_of(loaded, "2026-09")))
        assert (state, sorted(of_tasks.values())) == ("failed", ["failed", "skipped", "skipped"])
        expected = {"load 0": "success", "load 1": "skipped", "load 2": "skipped"}
        assert states(run_dag(dag, run_conf=conf_of(loaded))) == ("success", expected)

    @pytest.mark.thorough
    def test_so_does_the_last_load_that_is_of_another_table_than_its_plan(self, loaded: Lake, run_dag: RunDag) -> None:
        with DAG("d", schedule=None) as dag:
            mapped(loaded, table="other").expand(period=plan_of(loaded, cluster=loaded.cluster.name).output)
        expected = {"plan": "success", "load 0": "failed"}
        assert states(run_dag(dag, run_conf=conf_of(loaded))) == ("failed", expected)

    @pytest.mark.thorough
    def test_a_planned_period_that_has_no_objects_any_more_fails(self, loaded: Lake, run_dag: RunDag) -> None:
        delete_objects(loaded)
        with DAG("d", schedule=None) as dag:
            planned = plan_of(loaded, cluster=loaded.cluster.name)
            mapped(loaded, on_no_objects="skip").expand(period=planned.output)
        expected = {"plan": "success", "load 0": "failed"}
        assert states(run_dag(dag, run_conf=conf_of(loaded))) == ("failed", expected)
        assert loaded.facts() == TRIPS.facts(PERIOD)

    @pytest.mark.thorough
    def test_nor_is_it_told_to_skip_a_period_without_objects(self, loaded: Lake) -> None:
        delete_objects(loaded)
        with pytest.raises(NotReadyError, match=r"'on_no_objects': …}: 'empty' publishes it without rows\."):
            reload(loaded)

    @pytest.mark.thorough
    def test_and_says_so(self, loaded: Lake) -> None:
        delete_objects(loaded)
        with pytest.raises(AirflowFailException, match="but 2026-10 has no objects, and the table keeps what it has"):
            reload(loaded, on_no_objects="skip")


class TestRowsOfOthers:
    @pytest.mark.thorough
    @pytest.mark.three_nodes
    def test_stop_it(self, loaded: Lake) -> None:
        insert_a_row(loaded)
        with pytest.raises(AirflowFailException, match="was changed since it was published"):
            reload(loaded)
        assert loaded.facts().rows == 601

    @pytest.mark.three_nodes
    def test_are_replaced_if_the_run_says_so(self, loaded: Lake) -> None:
        insert_a_row(loaded)
        assert reload(loaded, conf_of(loaded, replace_rows_of_others=True))["status"] == "published"
        assert loaded.facts() == TRIPS.facts(PERIOD)

    @pytest.mark.thorough
    @pytest.mark.three_nodes
    def test_so_are_those_of_a_period_that_was_never_loaded(self, trips_lake: Lake) -> None:
        trips_lake.upload(TRIPS)
        insert_a_row(trips_lake)
        assert reload(trips_lake, conf_of(trips_lake, replace_rows_of_others=True))["status"] == "published"
        assert trips_lake.facts() == TRIPS.facts(PERIOD)


class TestPlan:
    @pytest.mark.thorough
    def test_has_just_the_periods_of_the_run(self, loaded: Lake) -> None:
        conf = conf_of(loaded, PERIOD, "2026-09")
        cluster = {"cluster": loaded.cluster.name}
        for told in ({}, {"periods": ["2026-07"]}, {"all_periods": True}, {"lookback": 2}):
            assert plan(loaded, conf, **cluster, **told) == ["2026-09", PERIOD]

    @pytest.mark.thorough
    def test_of_another_table_has_none(self, loaded: Lake) -> None:
        assert plan(loaded, conf_of(loaded), table="other") == []
