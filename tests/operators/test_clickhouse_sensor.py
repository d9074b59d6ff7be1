"""`ClickHouseSensor`: when the wait is over, and when it fails."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.common.compat.sdk import DAG, AirflowFailException, AirflowSensorTimeout, AirflowTaskTimeout

from airflow_provider_chs3.sensors.clickhouse import ClickHouseSensor

if TYPE_CHECKING:
    from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook

pytestmark = pytest.mark.usefixtures("hook")


def poke(sql: Any, **arguments: Any) -> Any:
    return ClickHouseSensor(task_id="t", sql=sql, **arguments).poke({})


@pytest.mark.parametrize(
    ("sql", "is_done"),
    [
        ("SELECT count() FROM numbers(0)", False),
        ("SELECT count() FROM numbers(3)", True),
        ("SELECT 1 FROM numbers(0)", False),
        ("SELECT ''", False),
        ("SELECT NULL", False),
        (["SELECT 1", "SELECT 0"], False),
    ],
)
def test_it_waits_for_a_first_value(sql: Any, is_done: bool) -> None:
    assert poke(sql).is_done is is_done


def test_it_returns_the_rows() -> None:
    assert poke("SELECT number, toDate('2026-01-02') FROM numbers(1, 2)").xcom_value == [
        [1, "2026-01-02"],
        [2, "2026-01-02"],
    ]


@pytest.mark.parametrize(("most", "is_done"), [(2, False), (3, True)])
def test_success_is_decided_by_all_rows(most: int, is_done: bool) -> None:
    sql = "SELECT number FROM numbers({most:UInt8})"
    assert poke(sql, parameters={"most": most}, is_success=lambda rows: len(rows) > 2).is_done is is_done


def test_a_failure_is_asked_for_first_and_leaves_out_retries() -> None:
    with pytest.raises(AirflowFailException, match=r"is_failure matched the result: \[\[7\]\]"):
        poke("SELECT 7", is_success=lambda rows: True, is_failure=lambda rows: rows[0][0] == 7)


def test_a_wrong_statement_fails_at_once() -> None:
    with pytest.raises(AirflowFailException, match="62"):
        poke("SELEC 1")


def test_it_pokes_until_rows_come(hook: ClickHouseHook, chs3_database: str) -> None:
    hook.query(f"CREATE TABLE {chs3_database}.events (n UInt8) ENGINE = Memory")
    # Each poke adds a row, which stands for another that does.
    sql = ["INSERT INTO events VALUES (1)", "SELECT count() FROM events"]
    sensor = ClickHouseSensor(
        task_id="t", sql=sql, database=chs3_database, poke_interval=0.01, is_success=lambda rows: rows[0][0] == 3
    )
    assert sensor.execute({}) == [[3]]


def test_it_looks_at_the_clock_by_itself() -> None:
    sensor = ClickHouseSensor(task_id="s", sql="SELECT 0", poke_interval=0.2, execution_timeout=timedelta(seconds=1))
    with pytest.raises(AirflowTaskTimeout, match=r"longer than execution_timeout=0:00:01"):
        sensor.execute({})


def test_it_times_out() -> None:
    with pytest.raises(AirflowSensorTimeout):
        ClickHouseSensor(task_id="t", sql="SELECT 0", poke_interval=0.01, timeout=0.05).execute({})


@pytest.mark.parametrize(
    ("arguments", "mode"),
    [({}, "poke"), ({"deferrable": True}, "reschedule"), ({"deferrable": True, "mode": "poke"}, "poke")],
)
def test_a_deferrable_sensor_leaves_its_worker_between_pokes(arguments: dict[str, Any], mode: str) -> None:
    assert ClickHouseSensor(task_id="t", sql="SELECT 0", **arguments).mode == mode


def test_it_comes_back_under_airflow_until_it_is_done(
    run_dag: Callable[..., Any], hook: ClickHouseHook, chs3_database: str
) -> None:
    hook.query(f"CREATE TABLE {chs3_database}.events (n UInt8) ENGINE = Memory")
    with DAG("deferrable_sensor", schedule=None) as dag:
        ClickHouseSensor(
            task_id="t",
            sql=["INSERT INTO events VALUES (1)", "SELECT count() FROM events"],
            database=chs3_database,
            is_success=lambda rows: rows[0][0] == 3,
            poke_interval=0.1,
            deferrable=True,
        )
    (task,) = run_dag(dag).get_task_instances()
    assert task.xcom_pull(task_ids="t") == [[3]]
