"""Asset events of loads, one for each period that was published, as Airflow stores them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from airflow import sdk
from airflow.providers.common.compat.sdk import AirflowSkipException

from airflow_provider_chs3.assets import emitted_periods
from airflow_provider_chs3.operators.emit_period import EmitPeriodOperator, emit_periods
from airflow_provider_chs3.testbed.trips import Trips, create_table_sql
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun

    from airflow_provider_chs3.testbed.nodes import Cluster

DAGS = Path(__file__).parents[2] / "dags"
TRIPS = Trips(rows_per_period=600, files_per_period=3)


class Loads:
    """Runs of DAGs that load trips and have an asset, with the events of each run."""

    def __init__(self, cluster: Cluster, s3: Any, run_dag: Callable[..., DagRun], arguments: dict[str, str]) -> None:
        self.cluster, self.s3, self._run_dag, self.arguments = cluster, s3, run_dag, arguments
        self.asset = sdk.Asset(f"trips of {arguments['database']}")

    def upload(self, *periods: str) -> None:
        for period in periods:
            TRIPS.upload(self.s3, period, bucket=self.arguments["bucket"], prefix=f"trips/{period}/")

    def run(self, make: Callable[[], Any]) -> dict[str, dict[str, Any]]:
        """Run a DAG to its end; give period → what its event tells."""
        from airflow.models.asset import AssetEvent
        from airflow.utils.session import create_session
        from sqlalchemy import select

        with sdk.DAG(f"loads_{self.arguments['database']}", schedule=None, start_date=datetime(2026, 1, 1)) as dag:
            make()
        run = self._run_dag(dag)
        with create_session() as session:
            found = session.scalars(select(AssetEvent).where(AssetEvent.source_run_id == run.run_id)).all()
            told = [told for event in found for told in event.extra.get("periods", [event.extra])]
            periods = {each["period"]: each for each in told}
            if hasattr(sdk, "PartitionedAtRuntime"):
                assert sorted(event.partition_key for event in found) == sorted(periods)
            else:
                assert len(found) == (1 if periods else 0)
            return periods

    def periods(self, *periods: str, **options: Any) -> Callable[[], Any]:
        options = {"task_id": "load", "periods": list(periods), "outlets": [self.asset]} | options
        return lambda: S3ToClickHouseOperator(**options, **self.arguments)

    def one(self, period: str, **options: Any) -> Callable[[], Any]:
        options = {"task_id": "load", "period": period, "outlets": [self.asset]} | options
        return lambda: S3ToClickHouseOperator(**options, **self.arguments)


@pytest.fixture
def loads(
    chs3_cluster: Cluster,
    chs3_s3: Any,
    chs3_bucket: str,
    chs3_database: str,
    chs3_airflow_connections: None,
    run_dag: Callable[..., DagRun],
) -> Loads:
    for node in chs3_cluster.nodes:
        with node.client() as client:
            client.execute(create_table_sql(f"{chs3_database}.trips"))
    arguments = {"bucket": chs3_bucket, "key": "trips/{YYYY-MM}/", "database": chs3_database, "table": "trips"}
    return Loads(chs3_cluster, chs3_s3.client(), run_dag, arguments)


def test_a_period_whose_load_died_right_after_publishing_has_its_event_from_the_retry(loads: Loads) -> None:
    def die(context: Any, result: Any) -> None:
        if context["ti"].try_number == 1:
            raise RuntimeError("died")

    loads.upload("2026-01")
    assert list(loads.run(loads.one("2026-01", post_execute=die, retries=1, retry_delay=timedelta()))) == ["2026-01"]


def test_periods_of_one_task_have_their_events_even_if_the_first_try_failed_for_one(loads: Loads) -> None:
    def arrive(context: Any) -> None:
        if context["ti"].try_number == 2:
            loads.upload("2026-02")

    loads.upload("2026-01")
    load = loads.periods("2026-01", "2026-02", pre_execute=arrive, retries=1, retry_delay=timedelta())
    assert sorted(loads.run(load)) == ["2026-01", "2026-02"]
    assert loads.run(load) == {}


RESULT = {
    "period": "2026-10",
    "status": "published",
    "reason": "never loaded",
    "target": "taxi.trips",
    "fingerprint": "f",
    "objects": 3,
    "source_bytes": 1_000,
    "rows": 20,
    "parts": 2,
    "settings": {"max_threads": 4},
}


def told(result: Any, **options: Any) -> list[dict[str, Any]]:
    """What Airflow would send of a task's events after it succeeded."""
    from airflow.sdk.execution_time.context import OutletEventAccessors
    from airflow.sdk.execution_time.task_runner import _build_asset_profiles, _serialize_outlet_events

    task = EmitPeriodOperator(task_id="emit", result=None, outlets=[sdk.Asset("trips")])
    events = OutletEventAccessors()
    emit_periods(task, {"outlet_events": events}, result, **options)
    assert [profile.name for profile in _build_asset_profiles(task.outlets)] == ["trips"] * len(task.outlets)
    return list(_serialize_outlet_events(events)) if task.outlets else []


def tells_of(result: dict[str, Any], key: str | None = None) -> dict[str, Any]:
    """Return the facts that an event has of a period."""
    return {name: value for name, value in result.items() if name != "settings"} | {
        "partition_key": key or result["period"]
    }


def test_an_event_tells_what_was_published() -> None:
    (event,) = told(RESULT)
    assert event["extra"] == tells_of(RESULT)


def test_where_airflow_has_partitions_at_run_time_the_period_is_the_events() -> None:
    (event,) = told(RESULT)
    assert event.get("partition_key") == ("2026-10" if hasattr(sdk, "PartitionedAtRuntime") else None)


def test_new_periods_of_a_task_are_told_by_their_events_and_others_are_not() -> None:
    new = [RESULT, RESULT | {"period": "2026-12", "rows": 30}]
    events = told([new[0], RESULT | {"period": "2026-11", "status": "unchanged"}, new[1]])
    tells = [tells_of(each) for each in new]
    assert [event["extra"] for event in events] == [{"periods": tells}] * len(events)
    keys = {event.get("partition_key") for event in events}
    assert keys == ({"2026-10", "2026-12"} if hasattr(sdk, "PartitionedAtRuntime") else {None})
    for event in events:
        seen = SimpleNamespace(**event, timestamp=datetime(2026, 1, 1))
        found = emitted_periods({"triggering_asset_events": {"trips": [seen]}})
        key = event.get("partition_key")
        assert found == [tell for tell in tells if key in (None, tell["period"])]


@pytest.mark.skipif(not hasattr(sdk, "PartitionedAtRuntime"), reason="partitions at run time came with Airflow 3.3")
class TestKeys:
    @pytest.mark.parametrize(
        ("period", "mapper", "expected"),
        [
            ("2026-10-05T13Z", "StartOfHourMapper", "2026-10-05T13"),
            ("2026-10-05", "StartOfDayMapper", "2026-10-05"),
            ("2026-W41", "StartOfWeekMapper", "2026-10-05 (W41)"),
            ("2026-10", "StartOfMonthMapper", "2026-10"),
            ("2026-Q4", "StartOfQuarterMapper", "2026-Q4"),
            ("2026", "StartOfYearMapper", "2026"),
        ],
    )
    def test_each_mapper_of_airflow_reads_the_format_that_it_has_by_default(
        self, period: str, mapper: str, expected: str
    ) -> None:
        from airflow.partition_mappers import temporal

        (event,) = told(RESULT | {"period": period}, key_format="%Y-%m-%dT%H:%M:%S")
        assert getattr(temporal, mapper)().to_downstream(event["partition_key"]) == expected

    def test_a_whole_table_has_its_one_key(self) -> None:
        (event,) = told(RESULT | {"period": "all"}, key_format="%Y-%m-%d")
        assert event["partition_key"] == "all"

    def test_hours_are_in_utc(self) -> None:
        (event,) = told(RESULT | {"period": "2026-11-01T05Z"}, key_format="%Y-%m-%dT%H%z")
        assert event["partition_key"] == "2026-11-01T05+0000"

    def test_the_run_of_a_key_finds_its_period(self) -> None:
        new = [RESULT | {"period": "2026-W41"}, RESULT | {"period": "2026-W42"}]
        events = told(new, key_format="%Y-%m-%d")
        assert {event["partition_key"] for event in events} == {"2026-10-05", "2026-10-12"}
        seen = SimpleNamespace(**next(each for each in events if each["partition_key"] == "2026-10-12"), timestamp=1)
        assert emitted_periods({"triggering_asset_events": {"trips": [seen]}}) == [tells_of(new[1], "2026-10-12")]


@pytest.mark.parametrize("status", ["unchanged", "skipped"])
def test_a_period_that_is_as_it_was_has_no_event(status: str) -> None:
    assert told(RESULT | {"status": status}) == []


def test_the_last_task_of_a_period_that_is_as_it_was_is_skipped() -> None:
    emit = EmitPeriodOperator(task_id="emit", result=RESULT | {"status": "unchanged"}, outlets=[sdk.Asset("trips")])
    with pytest.raises(AirflowSkipException, match="2026-10 is unchanged"):
        emit.execute({})
    emit = EmitPeriodOperator(task_id="emit", result=[RESULT | {"status": "unchanged"}], outlets=[sdk.Asset("trips")])
    with pytest.raises(AirflowSkipException, match="2026-10 is unchanged"):
        emit.execute({})


@pytest.mark.parametrize(
    "given", [{"result": None, "merges": {"health": "healthy"}}, {"result": [RESULT], "merges": None}]
)
def test_nothing_is_emitted_if_the_load_or_the_wait_for_merges_failed(given: dict[str, Any]) -> None:
    emit = EmitPeriodOperator(task_id="emit", outlets=[sdk.Asset("trips")], **given | {"merges": "{{ merges }}"})
    emit.merges = given["merges"]
    with pytest.raises(AirflowSkipException, match="failed: no event is emitted"):
        emit.execute({})


def test_the_newest_event_of_a_period_counts_in_the_order_of_periods() -> None:
    def event(period: str, rows: int, minute: int) -> SimpleNamespace:
        return SimpleNamespace(extra={"period": period, "rows": rows}, timestamp=datetime(2026, 1, 1, 3, minute))

    events = {"trips": [event("2026-02", 5, 1), event("2026-01", 9, 2), event("2026-01", 8, 0)]}
    assert emitted_periods({"triggering_asset_events": events}) == [
        {"period": "2026-01", "rows": 9},
        {"period": "2026-02", "rows": 5},
    ]


def test_the_example_counts_the_rows_of_each_month_that_an_event_names() -> None:
    from tests.support.dag_bag import DagBag

    months = DagBag(DAGS).dags["chs3_each_month"].get_task("months")
    event = SimpleNamespace(extra=tells_of(RESULT), timestamp=datetime(2026, 1, 1))
    context = {
        "params": {"database": "taxi", "table": "trips"},
        "triggering_asset_events": {"trips": [event]},
    }
    counted = "SELECT count() FROM taxi.trips WHERE formatDateTime(pickup_at, '%Y-%m') = '2026-10'"
    assert months.python_callable(**context) == [{"sql": counted, "pass_value": 20}]
