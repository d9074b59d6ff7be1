"""Merge health of real tables: each situation is made for real, and one look at the cluster tells it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import airflow
import pytest
from airflow.providers.common.compat.sdk import DAG, AirflowFailException, AirflowTaskTimeout, PokeReturnValue

from airflow_provider_chs3.sensors.merge_health import ClickHouseMergeHealthSensor
from airflow_provider_chs3.testbed.trips import create_table_sql
from tests.support.lake import PERIOD, Lake
from tests.support.merge_sensors import insert, look, merges, sensor
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun

pytestmark = pytest.mark.three_nodes


def test_it_looks_at_the_clock_by_itself(trips_lake: Lake) -> None:
    trips_lake.on_node(0, f"SYSTEM STOP MERGES {trips_lake.database}.{trips_lake.table}")
    insert(trips_lake, 0, parts=30)
    waiting = sensor(trips_lake, poke_interval=0.2, settled_after_seconds=600, execution_timeout=timedelta(seconds=1))
    with pytest.raises(AirflowTaskTimeout, match=r"longer than execution_timeout=0:00:01"):
        waiting.execute({})


def health_by_node(looked: PokeReturnValue, period: str = PERIOD) -> list[str]:
    return [node["health"] for node in looked.xcom_value["periods"][period].values()]


@pytest.fixture
def limited(lake: Lake) -> Lake:
    """A table in which 50 parts of a period are many."""
    create = create_table_sql(f"{lake.database}.{lake.table}")
    lake.on_every_node(f"{create} SETTINGS parts_to_delay_insert = 100, parts_to_throw_insert = 200")
    return lake


@pytest.fixture
def stopped(limited: Lake) -> Iterator[Lake]:
    """The same, with 60 parts on the second node that nothing merges, and one part on the others."""
    merges(limited, 1, "STOP")
    for node, parts in enumerate((1, 60, 1)):
        insert(limited, node, parts=parts)
    yield limited
    merges(limited, 1, "START")


def test_fresh_parts_no_rows_and_no_period_are_healthy(trips_lake: Lake) -> None:
    assert look(trips_lake).is_done
    for node in range(3):
        insert(trips_lake, node)
    looked = look(trips_lake)
    assert (looked.is_done, health_by_node(looked)) == (True, ["healthy"] * 3)
    assert look(trips_lake, periods=[]).xcom_value == {"health": "healthy", "periods": {}}


@pytest.mark.thorough
def test_a_distributed_table_is_judged_by_its_local_ones(trips_lake: Lake) -> None:
    local = f"{trips_lake.database}.{trips_lake.table}"
    trips_lake.on_node(
        0,
        f"CREATE TABLE {local}_all AS {local} "
        f"ENGINE = Distributed({trips_lake.cluster.name}, {trips_lake.database}, {trips_lake.table})",
    )
    assert health_by_node(look(trips_lake, table=f"{trips_lake.table}_all", cluster=None)) == ["healthy"] * 3


def test_hundreds_of_parts_settle_and_are_healthy_then(trips_lake: Lake) -> None:
    merges(trips_lake, 0, "STOP")
    insert(trips_lake, 0, parts=300)
    looked = look(trips_lake)
    assert (looked.is_done, health_by_node(looked)) == (False, ["settling", "healthy", "healthy"])
    assert next(iter(looked.xcom_value["periods"][PERIOD].values()))["parts"] == 300
    merges(trips_lake, 0, "START")
    wait_until(lambda: look(trips_lake).xcom_value["health"] == "healthy")


def test_where_merges_are_stopped_the_node_is_stuck_after_its_time_with_its_likely_cause(stopped: Lake) -> None:
    assert health_by_node(look(stopped)) == ["healthy", "settling", "healthy"]
    looked = look(stopped, stuck_after_seconds=0, on_stuck="continue")
    assert (looked.is_done, health_by_node(looked)) == (True, ["healthy", "stuck", "healthy"])
    assert not look(stopped, stuck_after_seconds=0, on_stuck="wait").is_done
    looked = look(stopped, periods=["2026-09", PERIOD], on_stuck="continue", stuck_after_seconds=0)
    assert health_by_node(looked, "2026-09") == ["healthy"] * 3
    with pytest.raises(AirflowFailException, match="OPTIMIZE TABLE"):
        look(stopped, settled_after_seconds=0, stuck_fraction=1, on_settled_with_too_many_parts="fail")
    time.sleep(1)
    with pytest.raises(AirflowFailException, match=r"stuck, 60 parts: .*SYSTEM START MERGES") as raised:
        look(stopped, stuck_after_seconds=1)
    assert f":{stopped.cluster.nodes[1].tcp_port} stuck" in str(raised.value)
    # The table's own limit decides how many parts are too many.
    stopped.on_node(1, f"ALTER TABLE {stopped.database}.{stopped.table} MODIFY SETTING parts_to_delay_insert = '1K'")
    looked = look(stopped, stuck_after_seconds=0, settled_after_seconds=0)
    assert health_by_node(looked) == ["healthy", "settled_with_too_many_parts", "healthy"]


class TestMutations:
    @pytest.mark.thorough
    def test_one_that_runs_is_settling_with_its_share_done(self, limited: Lake) -> None:
        for _ in range(2):
            insert(limited, 0)
        statement = (
            f"ALTER TABLE {limited.database}.{limited.table} UPDATE fare = sleepEachRow(2) WHERE 1 "
            "SETTINGS mutations_sync = 0, allow_nondeterministic_mutations = 1"
        )
        limited.on_node(0, statement)
        wait_until(lambda: limited.on_node(0, f"SELECT 1 FROM system.merges WHERE database = '{limited.database}'"))
        looked = look(limited)
        assert next(iter(looked.xcom_value["periods"][PERIOD].values()))["reason"].startswith("merging, ")
        wait_until(lambda: look(limited).is_done)

    @pytest.fixture
    def failing(self, limited: Lake) -> Iterator[Lake]:
        """A mutation that fails at the first node's part of the period, and works at that of another period."""
        for period in (PERIOD, "2026-09"):
            insert(limited, 0, period=period)
        limited.on_node(
            0,
            f"ALTER TABLE {limited.database}.{limited.table} "
            f"DELETE WHERE throwIf(toYYYYMM(pickup_at) = 202610, 'no good') SETTINGS mutations_sync = 0",
        )
        of_table = f"database = '{limited.database}' AND table = '{limited.table}'"
        failed = f"SELECT 1 FROM system.mutations WHERE {of_table} AND latest_fail_reason != '' AND parts_to_do = 1"
        wait_until(lambda: limited.on_node(0, failed))
        yield limited
        limited.on_node(0, f"KILL MUTATION WHERE {of_table} SYNC")

    def test_one_that_failed_is_stuck_with_its_reason(self, failing: Lake) -> None:
        with pytest.raises(AirflowFailException, match=r"mutation .*DELETE WHERE throwIf.* failed: .*no good"):
            look(failing)
        # A period that it is done with is healthy.
        assert look(failing, period="2026-09").is_done

    @pytest.mark.thorough
    def test_one_that_waits_for_merges_to_start_is_settling(self, limited: Lake) -> None:
        insert(limited, 0)
        merges(limited, 0, "STOP")
        limited.on_node(
            0,
            f"ALTER TABLE {limited.database}.{limited.table} DELETE WHERE trip_id = 0 SETTINGS mutations_sync = 0",
        )
        assert health_by_node(look(limited)) == ["settling", "healthy", "healthy"]
        merges(limited, 0, "START")
        wait_until(lambda: look(limited).is_done)


class TestBadInput:
    @pytest.mark.thorough
    def test_a_table_that_one_node_lacks(self, trips_lake: Lake) -> None:
        trips_lake.on_node(2, f"DROP TABLE {trips_lake.database}.{trips_lake.table} SYNC")
        node = trips_lake.cluster.nodes[2]
        with pytest.raises(AirflowFailException, match=f"does not exist on {node.host}:{node.tcp_port}: create it"):
            look(trips_lake)

    @pytest.mark.thorough
    def test_a_table_that_is_not_partitioned_by_period(self, lake: Lake) -> None:
        lake.on_every_node(f"CREATE TABLE {lake.database}.{lake.table} (at Date) ENGINE = MergeTree ORDER BY at")
        with pytest.raises(AirflowFailException, match="not partitioned by month"):
            look(lake)

    def test_neither_period_nor_periods_or_both_or_no_list(self, lake: Lake) -> None:
        for periods in ({}, {"period": PERIOD, "periods": [PERIOD]}):
            with pytest.raises(AirflowFailException, match="either period or periods"):
                ClickHouseMergeHealthSensor(task_id="wait", table=lake.table, **periods).poke({})
        with pytest.raises(AirflowFailException, match="not a list"):
            look(lake, periods="2026-10")


@pytest.mark.thorough
@pytest.mark.skipif(
    airflow.__version__.startswith("3.1."), reason="dag.test() of Airflow 3.1 fails at the second look of any sensor"
)
def test_a_rescheduled_sensor_needs_no_memory(stopped: Lake, run_dag: Callable[..., DagRun]) -> None:
    with DAG("wait_for_merges", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        sensor(
            stopped,
            mode="reschedule",
            poke_interval=1,
            period="{{ dag_run.conf['period'] }}",
            on_stuck="continue",
            stuck_after_seconds=8,
        )
    done = run_dag(dag, run_conf={"period": PERIOD})
    (task,) = done.get_task_instances()
    assert (done.state, task.xcom_pull(task_ids="wait")["health"]) == ("success", "stuck")
