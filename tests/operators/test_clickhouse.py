"""`ClickHouseOperator`: what a task makes of its arguments, of results and of errors."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.common.compat.sdk import DAG, AirflowFailException, AirflowTaskTimeout

from airflow_provider_chs3.exceptions import ClickHouseServerError
from airflow_provider_chs3.operators.clickhouse import ClickHouseOperator

if TYPE_CHECKING:
    from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook

pytestmark = pytest.mark.usefixtures("hook")


def execute(sql: Any, **arguments: Any) -> Any:
    return ClickHouseOperator(task_id="t", sql=sql, **arguments).execute({})


def test_the_last_statements_result_is_json() -> None:
    sql = (
        "SELECT 1, 'a', toDate('2026-01-02'), toDateTime('2026-01-02 03:04:05', 'UTC'), toDecimal32(1.5, 2), nan, "
        "toUInt256(2) * toUInt64(-1), [1, NULL], map('a', 1), tuple(1, 'b'), NULL, toUUID('00000000-0000-0000-0000-"
        "000000000005')"
    )
    assert execute(["SELECT 0", sql]) == [
        [
            *(1, "a", "2026-01-02", "2026-01-02T03:04:05+00:00", "1.5", "nan", "36893488147419103230"),
            *([1, None], {"a": 1}, [1, "b"], None, "00000000-0000-0000-0000-000000000005"),
        ]
    ]


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("settings", [{}, {"interactive_delay": 10**9}])  # with progress, and without
def test_it_looks_at_the_clock_by_itself(settings: dict[str, Any]) -> None:
    began = time.monotonic()
    with pytest.raises(AirflowTaskTimeout, match=r"longer than execution_timeout=0:00:01"):
        execute(
            "SELECT sleepEachRow(1) FROM numbers(600)",
            settings={"max_block_size": 1, "function_sleep_max_microseconds_per_block": 0, **settings},
            execution_timeout=timedelta(seconds=1),
        )
    assert time.monotonic() - began < 300


def test_columns_and_types_are_json_too() -> None:
    assert execute("SELECT 1 AS n", with_column_types=True) == [[[1]], [["n", "UInt8"]]]


def test_columns_come_as_such() -> None:
    assert execute("SELECT number, 'x' FROM numbers(2)", columnar=True) == [[0, 1], ["x", "x"]]


def test_a_statement_without_a_result_returns_no_rows() -> None:
    assert execute("SET max_threads = 1") == []


@pytest.mark.parametrize("ids", [[{"name": "ids", "structure": [("id", "UInt8")], "data": [(7,)]}]])
def test_it_takes_external_tables_settings_query_id_and_database(ids: Any, chs3_database: str) -> None:
    found = execute(
        "SELECT id, getSetting('max_threads'), queryID(), currentDatabase() FROM ids",
        external_tables=ids,
        settings={"max_threads": 3},
        query_id="mine",
        database=chs3_database,
    )
    assert found == [[7, 3, "mine", chs3_database]]


def test_templates_of_parameters_may_be_json() -> None:
    found = execute(
        "SELECT {a:String}, id, getSetting('max_threads') FROM ids",
        parameters='{"a": "it\'s"}',
        external_tables='[{"name": "ids", "structure": [["id", "UInt8"]], "data": [[7]]}]',
        settings='{"max_threads": 3}',
    )
    assert found == [["it's", 7, 3]]


@pytest.mark.parametrize("argument", ["parameters", "external_tables", "settings"])
def test_text_that_is_no_json_is_told(argument: str) -> None:
    with pytest.raises(AirflowFailException, match=rf"{argument} is text, but not JSON.*Does its template end in"):
        execute("SELECT 1", **{argument: "{'a': 1}"})


@pytest.mark.parametrize("settings", ["[1]", [1], "7"])
def test_settings_that_are_no_mapping_are_told(settings: Any) -> None:
    with pytest.raises(AirflowFailException, match=r"settings is a .*: pass a mapping of names and values"):
        execute("SELECT 1", settings=settings)


def test_types_are_checked_if_asked(hook: ClickHouseHook, chs3_database: str) -> None:
    hook.query(f"CREATE TABLE {chs3_database}.flags (flag UInt8) ENGINE = Memory")
    rows: list[Any] = [(1,), (True,), (2.0,)]
    with pytest.raises(AirflowFailException, match=r"Row 3 cannot be inserted: 2.0, a Python float"):
        execute("INSERT INTO flags VALUES", parameters=rows, types_check=True, database=chs3_database)


def test_a_retry_is_left_out_where_it_would_end_the_same_way() -> None:
    with pytest.raises(AirflowFailException, match=r"ClickHouse error 60 \(UNKNOWN_TABLE\)"):
        execute("SELECT * FROM no_such_table")


def test_an_error_that_may_pass_leaves_the_task_to_its_retries() -> None:
    with pytest.raises(ClickHouseServerError, match="159"):
        execute("SELECT sleepEachRow(0.1) FROM numbers(30)", settings={"max_execution_time": 0.2})


def test_a_killed_task_ends_its_statement(hook: ClickHouseHook) -> None:
    query_id = f"endless_{time.time_ns()}"
    task = ClickHouseOperator(
        task_id="t", sql="SELECT count() FROM system.numbers WHERE NOT ignore(number)", query_id=query_id
    )
    errors: list[BaseException] = []

    def run() -> None:
        try:
            task.execute({})
        except AirflowFailException as error:
            errors.append(error)

    running = threading.Thread(target=run, daemon=True)
    running.start()
    is_running = f"SELECT count() FROM system.processes WHERE query_id = '{query_id}'"
    while hook.query(is_running) != [(1,)]:
        time.sleep(0.05)
    task.on_kill()
    running.join(timeout=300)
    assert hook.query(is_running) == [(0,)]
    assert [str(error).partition(" from ")[0] for error in errors] == ["ClickHouse error 394 (QUERY_WAS_CANCELLED)"]


def test_a_signal_ends_the_statement_that_its_process_waits_for() -> None:
    task = ClickHouseOperator(task_id="t", sql="SELECT count() FROM system.numbers WHERE NOT ignore(number)")
    # As Airflow's supervisor does with SIGTERM.
    before = signal.signal(signal.SIGALRM, lambda number, frame: task.on_kill())
    signal.setitimer(signal.ITIMER_REAL, 1)
    try:
        with pytest.raises(AirflowFailException, match="QUERY_WAS_CANCELLED"):
            task.execute({})
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_task_that_runs_nothing_can_be_killed() -> None:
    ClickHouseOperator(task_id="t", sql="SELECT 1").on_kill()


def test_airflow_renders_files_and_templates(run_dag: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "count.sql").write_text("SELECT count(), {{ '{day:Date}' }} FROM numbers({{ params.most }})")
    (tmp_path / "day.json").write_text('{"day": "{{ run_id[:0] }}2026-01-02"}')
    with DAG("rendered", schedule=None, template_searchpath=str(tmp_path), params={"most": 5}) as dag:
        ClickHouseOperator(task_id="first", sql=["SELECT 1", "count.sql"], parameters="day.json")
        ClickHouseOperator(
            task_id="second",
            sql="SELECT {{ '{' }}n:UInt8} + 1",
            parameters={"n": "{{ ti.xcom_pull(task_ids='first')[0][0] }}"},
        )
        dag.get_task("first") >> dag.get_task("second")
    run = run_dag(dag)
    pulled = [run.get_task_instance(task).xcom_pull(task_ids=task) for task in ("first", "second")]
    assert pulled == [[[5, "2026-01-02"]], [[6]]]
