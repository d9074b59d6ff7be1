"""The plan against real ledgers: what is to be loaded, and why."""

from __future__ import annotations

import logging
import logging.handlers
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import DAG, AirflowFailException

from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator
from airflow_provider_chs3.testbed.trips import Trips
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from airflow_provider_chs3.transfers.scheduled_load import scheduled_load
from tests.integration.plans import plan
from tests.support.lake import Lake

TRIPS = Trips(rows_per_period=600, files_per_period=3)
OTHER_TRIPS = Trips(seed=2, rows_per_period=600, files_per_period=3)
PERIODS = ["2026-08", "2026-09", "2026-10"]


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[logging.LogRecord]:
    """The lines that plans log from now on."""
    log, handler = logging.Logger("plan"), logging.handlers.BufferingHandler(100)
    log.addHandler(handler)
    monkeypatch.setattr(PlanLoadsOperator, "log", log)
    return handler.buffer


@pytest.fixture
def loaded(trips_lake: Lake) -> Lake:
    """A lake with three periods, all of them loaded."""
    for period in PERIODS:
        trips_lake.upload(TRIPS, period)
    trips_lake.load(period=None, periods=PERIODS)
    return trips_lake


class TestNumberOfTasks:
    """Airflow maps over so many values, and fails on its own, for a retry, if there are more."""

    def run(self, lake: Lake, run_dag: Callable[..., Any], **options: Any) -> tuple[str, dict[str, list[Any]]]:
        with DAG("many", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
            scheduled_load(**lake.place, **{"periods": PERIODS, "default_args": {"retries": 2}, **options})
        run = run_dag(dag)
        tries: dict[str, list[Any]] = {}
        for ti in run.get_task_instances():
            tries.setdefault(ti.task_id.rpartition(".")[2], []).append((str(ti.state), ti.try_number))
        return run.state, tries

    @pytest.mark.thorough
    def test_a_plan_of_more_fails_at_once_before_anything_is_loaded(
        self, trips_lake: Lake, run_dag: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AIRFLOW__CORE__MAX_MAP_LENGTH", "2")
        for period in PERIODS:
            trips_lake.upload(TRIPS, period)
        state, tries = self.run(trips_lake, run_dag, periods_per_task=1)
        assert (state, tries["plan"]) == ("failed", [("failed", 1)])
        assert set(trips_lake.rows_per_node()) == {0}

    @pytest.mark.thorough
    def test_small_periods_that_share_a_task_count_once(
        self, trips_lake: Lake, run_dag: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AIRFLOW__CORE__MAX_MAP_LENGTH", "2")
        for period in PERIODS:
            trips_lake.upload(TRIPS, period)
        state, tries = self.run(
            trips_lake, run_dag, periods_per_task=2, merge_health={"mode": "poke", "settled_after_seconds": 0}
        )
        assert (state, len(tries["load"])) == ("success", 2)
        assert [trips_lake.facts(period) for period in PERIODS] == [TRIPS.facts(period) for period in PERIODS]

    def test_the_error_says_what_to_do(self, trips_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AIRFLOW__CORE__MAX_MAP_LENGTH", "2")
        for period in PERIODS:
            trips_lake.upload(TRIPS, period)
        with DAG("many", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)):
            planned = PlanLoadsOperator(task_id="plan", periods=PERIODS, **trips_lake.place)
            assert planned.execute({}) == PERIODS  # nothing is mapped over it
            S3ToClickHouseOperator.partial(
                task_id="load", bucket=trips_lake.bucket, key="trips/{YYYY-MM}/", table=trips_lake.table
            ).expand(period=planned.output)
        with pytest.raises(AirflowFailException, match=r"takes 3 tasks, .* at most 2: raise \[core\] max_map_length"):
            planned.execute({})


class TestReasons:
    def test_a_period_with_other_objects_or_none_is_planned_and_logged_with_its_reason(
        self, loaded: Lake, said: list[logging.LogRecord]
    ) -> None:
        assert plan(loaded, all_periods=True) == []
        # Another definition is a reason where it is given.
        assert plan(loaded, all_periods=True, definition={}) == []
        assert plan(loaded, all_periods=True, definition={"columns": ["trip_id", "pickup_at"]}) == PERIODS
        said.clear()
        loaded.upload(OTHER_TRIPS, "2026-09")
        assert plan(loaded, all_periods=True) == ["2026-09"]
        text = "\n".join(record.getMessage() for record in said)
        changed = "its objects changed since it was published: 3 objects overwritten, the last one at 20"
        assert f"2026-09 to load: {changed}" in text
        assert "2026-10 nothing to load: as published (3 objects" in text
        assert "1 of 3 periods to load: 2026-09" in text
        # The servers list by a named collection, too.
        options = {"bucket": None, "named_collection": "chs3_s3", "key": f"{loaded.bucket}/trips/{{YYYY-MM}}/"}
        assert plan(loaded, periods=PERIODS, **options) == ["2026-09"]
        for each in loaded.s3.list_objects_v2(Bucket=loaded.bucket, Prefix="trips/2026-09/")["Contents"]:
            loaded.s3.delete_object(Bucket=loaded.bucket, Key=each["Key"])
        assert plan(loaded, lookback=2, last_period="2026-10") == ["2026-09"]

    @pytest.mark.thorough
    @pytest.mark.three_nodes
    def test_what_somebody_changed_on_one_node_or_all_periods_if_its_ledger_is_lost_are_planned(
        self, loaded: Lake
    ) -> None:
        name = f"{loaded.database}.{loaded.table}"
        loaded.on_node(2, f"INSERT INTO {name} (trip_id, pickup_at) VALUES (1, '2026-08-05 00:00:00')")
        assert plan(loaded, all_periods=True) == ["2026-08"]
        loaded.on_node(1, f"DROP TABLE {loaded.database}.chs3_ledger SYNC")
        assert plan(loaded, all_periods=True) == PERIODS


class TestPeriods:
    def test_by_default_they_are_those_of_the_data_interval(self, trips_lake: Lake) -> None:
        start, end = datetime(2026, 9, 15, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC)
        assert plan(trips_lake, start=start, end=end) == ["2026-09", "2026-10"]
        with pytest.raises(AirflowFailException, match="CronDataIntervalTimetable"):
            plan(trips_lake, start=end, end=end)

    def test_or_that_of_the_partition_key(self, trips_lake: Lake) -> None:
        assert plan(trips_lake, partition_key="2026-09") == ["2026-09"]

    @pytest.mark.thorough(but=1)
    @pytest.mark.parametrize(("options", "argument"), [({}, "periods"), ({"lookback": 2}, "last_period")])
    def test_a_run_without_a_logical_date_names_the_argument_to_give(
        self, trips_lake: Lake, options: dict[str, Any], argument: str
    ) -> None:
        with pytest.raises(AirflowFailException, match=f"or set {argument}='2026-10'"):
            plan(trips_lake, **options)

    @pytest.mark.thorough
    def test_a_look_back_leaves_out_periods_that_have_no_objects_yet(
        self, trips_lake: Lake, said: list[logging.LogRecord]
    ) -> None:
        with pytest.raises(AirflowFailException, match="No object of any period"):
            plan(trips_lake, all_periods=True)
        trips_lake.upload(TRIPS, "2026-09")
        start, end = datetime(2026, 10, 4, tzinfo=UTC), datetime(2026, 10, 5, tzinfo=UTC)
        assert plan(trips_lake, start=start, end=end, lookback=2) == ["2026-09"]
        # The night into a new period checks both periods without a look back.
        start, end = datetime(2026, 9, 30, 3, tzinfo=UTC), datetime(2026, 10, 1, 3, tzinfo=UTC)
        assert plan(trips_lake, start=start, end=end, lookback=0) == ["2026-09"]
        assert plan(trips_lake, periods="2026-10, 2026-08", lookback=2) == ["2026-08", "2026-10"]
        assert "None of these periods has objects" not in str([record.getMessage() for record in said])
        plan(trips_lake, key="tripz/{YYYY-MM}/", last_period="2026-10", lookback=2)
        assert "None of these periods has objects" in str([record.getMessage() for record in said])

    def test_a_look_back_is_a_number_of_periods_that_does_not_go_too_far(self, trips_lake: Lake) -> None:
        for count in (-1, "some"):
            with pytest.raises(AirflowFailException, match="is not allowed: use a whole number at least 0"):
                plan(trips_lake, lookback=count, last_period="2026-10")
        with pytest.raises(AirflowFailException, match="lookback=9999 before 2026-10 is too many: 1970-12"):
            plan(trips_lake, lookback="9999", last_period="2026-10")

    def test_all_periods_and_a_look_back_exclude_each_other(self) -> None:
        with pytest.raises(ConfigurationError, match="Set either"):
            PlanLoadsOperator(task_id="plan", table="t", key="s3://b/{YYYY-MM}", all_periods=True, lookback=1)
