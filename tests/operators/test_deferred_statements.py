"""`ClickHouseOperator(deferrable=True)`: statements that go on without their worker."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.common.compat.sdk import DAG, AirflowFailException, AirflowTaskTimeout

from airflow_provider_chs3.client import detached_runner as detached
from airflow_provider_chs3.exceptions import ClickHouseConnectionError, ConfigurationError, StatementLostError
from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
from airflow_provider_chs3.operators.clickhouse import ClickHouseOperator
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.nodes import CLUSTER
from airflow_provider_chs3.testbed.processes import free_ports
from tests.support.deferred_task import hurry, run, start, stay, table
from tests.support.deferring import dying_as_it_waits
from tests.support.proxies import GATEWAY_TIMEOUT, Gateway
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.nodes import Cluster

__all__ = ["hurry", "table"]

pytestmark = pytest.mark.usefixtures("hook", "hurry")


def slow(table: str, rows: object = 20) -> str:
    """Return an insert that takes a tenth of a second for each of its rows."""
    return f"INSERT INTO {table} SELECT number + sleepEachRow(0.1) FROM numbers({rows}) SETTINGS max_block_size = 1"


def rows_of(hook: ClickHouseHook, table: str) -> list[int]:
    return [n for (n,) in hook.query(f"SELECT n FROM {table} ORDER BY n")]


def is_running(hook: ClickHouseHook, query_id: str) -> bool:
    return bool(hook.query(f"SELECT 1 FROM system.processes WHERE query_id = '{query_id}'"))


def times_started(hook: ClickHouseHook, table: str) -> int:
    hook.query("SYSTEM FLUSH LOGS query_log")
    ((times,),) = hook.query(
        "SELECT uniqExact(query_id) FROM system.query_log WHERE type = 'QueryStart' AND query_kind = 'Insert' "
        f"AND is_initial_query AND query LIKE 'INSERT INTO {table} %'"
    )
    return times


def test_what_takes_a_moment_is_not_deferred(hook: ClickHouseHook, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detached, "_ATTACHED_SECONDS", 300)
    assert stay({"sql": f"INSERT INTO {table} SELECT 7"}) == []
    assert rows_of(hook, table) == [7]


def test_a_load_balancer_that_gives_up_has_nothing_run_twice(
    hook: ClickHouseHook, table: str, chs3_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detached, "_ATTACHED_SECONDS", 30)
    connection = json.loads(os.environ["AIRFLOW_CONN_CHS3_DEFAULT"])
    with Gateway(chs3_cluster.nodes[0], answer=GATEWAY_TIMEOUT) as gateway:
        extra = connection["extra"] | {"http_port": gateway.port}
        monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(connection | {"extra": extra}))
        assert run(slow(table, 10)) == []
    assert rows_of(hook, table) == list(range(10))


def test_a_load_balancer_that_sends_a_statement_to_two_servers_is_told(
    hook: ClickHouseHook, chs3_cluster: Cluster
) -> None:
    for node in chs3_cluster.nodes[:2]:
        with node.client() as client:
            client.execute("INSERT INTO FUNCTION null('n UInt64') SELECT 7", query_id=(query_id := f"x_{id(hook)}"))
            client.execute("SYSTEM FLUSH LOGS query_log")
    query = detached.DetachedQuery(session=hook, query_id=query_id, cluster=chs3_cluster.name)
    with pytest.raises(ConfigurationError, match="ran more than once: the load balancer of the HTTP port repeats"):
        query.outcome()


@pytest.mark.parametrize("with_column_types", [False, True])
def test_it_returns_what_it_returns_in_a_worker(table: str, with_column_types: bool) -> None:
    sql = f"-- ours\n/* to be deferred */ insert into {table} SELECT 7"
    in_worker = ClickHouseOperator(task_id="t", sql=sql, with_column_types=with_column_types).execute({})
    assert run(sql, with_column_types=with_column_types) == in_worker


def test_statements_go_on_one_after_the_other_and_the_last_ones_rows_are_returned(
    hook: ClickHouseHook, table: str
) -> None:
    first = start(
        [
            f"TRUNCATE TABLE {table}",
            slow(table),
            f"SELECT count() FROM {table}",
            f"INSERT INTO {table} SELECT 100 + {{n:UInt8}} + sleep(1.5)",
            f"SELECT max(n), {{n:UInt8}} FROM {table}",
        ],
        parameters={"n": 7},
    )
    assert is_running(hook, first.trigger.query_id)
    second = first.resume()
    assert second.trigger.query_id != first.trigger.query_id
    assert second.resume() == [[107, 7]]
    assert rows_of(hook, table) == [*range(20), 107]


def test_a_retry_goes_on_with_the_statement_that_still_runs(hook: ClickHouseHook, table: str) -> None:
    statements = [f"INSERT INTO {table} SELECT 100", slow(table, 30)]
    first, second = start(statements), start(statements)
    assert second.trigger.query_id == first.trigger.query_id
    assert second.resume() == []
    assert rows_of(hook, table) == [*range(30), 100]


def test_a_retry_of_a_durable_task_goes_on_with_the_statement_of_a_worker_that_died(
    hook: ClickHouseHook, table: str, capfd: pytest.CaptureFixture[str]
) -> None:
    durable = {"sql": slow(table), "deferrable": False, "durable": True}
    with dying_as_it_waits():
        stay(durable)
    assert stay(durable) == []
    assert "Inserting: " in "".join(capfd.readouterr())
    assert rows_of(hook, table) == list(range(20))
    assert times_started(hook, table) == 1


@pytest.mark.thorough
def test_a_retry_with_other_parameters_ends_the_statement_that_still_runs(hook: ClickHouseHook, table: str) -> None:
    sql = f"INSERT INTO {table} SELECT {{n:UInt8}} + sleepEachRow(1) FROM numbers(60) SETTINGS max_block_size = 1"
    first = start(sql, parameters={"n": 1})
    second = start(sql, parameters={"n": 2})
    assert not is_running(hook, first.trigger.query_id)
    assert is_running(hook, second.trigger.query_id)
    asyncio.run(second.trigger.on_kill())


def test_a_person_who_ends_the_deferred_task_ends_the_statement(hook: ClickHouseHook, table: str) -> None:
    deferred = start(slow(table, 3000))
    asyncio.run(deferred.trigger.on_kill())
    with pytest.raises(AirflowFailException, match=r"ClickHouse error 394 \(QUERY_WAS_CANCELLED\)"):
        deferred.resume()
    assert times_started(hook, table) == 1


def test_a_person_who_ends_the_task_in_its_worker_ends_the_statement(
    hook: ClickHouseHook, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detached, "_ATTACHED_SECONDS", 300)
    task = ClickHouseOperator(task_id="t", sql=slow(table, 3000), deferrable=True)
    errors: list[BaseException] = []

    def execute() -> None:
        try:
            task.execute({})
        except AirflowFailException as error:
            errors.append(error)

    worker = threading.Thread(target=execute, daemon=True)
    worker.start()
    of_table = f"SELECT query_id FROM system.processes WHERE query LIKE 'INSERT INTO {table} %'"
    while not (found := hook.query(of_table)):
        time.sleep(0.05)
    task.on_kill()
    worker.join(timeout=300)
    assert not is_running(hook, found[0][0])
    assert [str(error).partition(" from ")[0] for error in errors] == ["ClickHouse error 394 (QUERY_WAS_CANCELLED)"]


def test_after_its_execution_timeout_the_statement_is_ended(hook: ClickHouseHook, table: str) -> None:
    # However slow the machine is: the time of a worker begins anew, and is not over before the task is deferred.
    hour = timedelta(hours=1)
    deferred = start(slow(table, 3000), execution_timeout=hour, began_at=datetime.now(UTC) - hour)
    with pytest.raises(AirflowTaskTimeout, match="execution_timeout"):
        deferred.resume()
    wait_until(lambda: not is_running(hook, deferred.trigger.query_id))


@pytest.mark.parametrize("sleep_seconds", [0, 0.1])
def test_an_error_is_the_tasks_whenever_it_comes(table: str, sleep_seconds: float) -> None:
    sql = f"INSERT INTO {table} SELECT throwIf(number = 12, 'twelve') + sleepEachRow({sleep_seconds}) FROM numbers(30)"
    with pytest.raises(Exception, match=r"ClickHouse error 395 .*, query chs3_statement_.*twelve"):
        run(f"{sql} SETTINGS max_block_size = 1")


def test_an_unknown_table_fails_at_once() -> None:
    with pytest.raises(AirflowFailException, match=r"ClickHouse error 60 \(UNKNOWN_TABLE\)"):
        run("TRUNCATE TABLE no_such_table")


def test_where_http_is_not_reached_the_error_says_what_to_do(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    connection = json.loads(os.environ["AIRFLOW_CONN_CHS3_DEFAULT"])
    connection["extra"]["http_port"] = port
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(connection))
    with pytest.raises(ClickHouseConnectionError, match="'http_port', or leave deferrable and durable out"):
        run(f"TRUNCATE TABLE {table}")


@pytest.mark.thorough
def test_without_a_cluster_the_server_that_took_it_is_asked(
    hook: ClickHouseHook, chs3_cluster: Cluster, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = json.loads(os.environ["AIRFLOW_CONN_CHS3_DEFAULT"])
    (closed,) = free_ports(1)
    node = chs3_cluster.nodes[0]
    connection |= {"host": "127.0.0.2", "port": closed}
    connection["extra"] = {"http_port": node.http_port, "alt_hosts": f"{node.host}:{node.tcp_port}"}
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(connection))
    deferred = start(slow(table))
    assert deferred.trigger.address == (node.host, node.tcp_port)
    assert deferred.resume() == []
    assert rows_of(hook, table) == list(range(20))


def test_it_runs_under_airflow(run_dag: Callable[..., Any], table: str) -> None:
    with DAG("deferred_statements", schedule=None, params={"most": 20}) as dag:
        ClickHouseOperator(
            task_id="t",
            sql=[
                slow(table, "{{ params.most }}"),
                f"SELECT count(), max(n) FROM {table}",
            ],
            deferrable=True,
            progress_interval_seconds=0.2,
        )
    (task,) = run_dag(dag).get_task_instances()
    assert task.xcom_pull(task_ids="t") == [[20, 19]]


def test_a_backup_goes_on_though_nobody_takes_its_row(hook: ClickHouseHook, table: str) -> None:
    hook.query(f"INSERT INTO {table} SELECT rand64() FROM numbers(1_000_000)")
    name = table.replace(".", "_")
    deferred = start(f"BACKUP TABLE {table} TO Memory('{name}')", settings={"max_backup_bandwidth": 4_000_000})
    assert deferred.resume() == []
    ended = f"SELECT status FROM system.backups WHERE query_id = '{deferred.trigger.query_id}'"
    assert hook.query(ended) == [("BACKUP_CREATED",)]


@pytest.fixture
def new_cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[ClickHouseCluster]:
    """A server of the test's own, with an empty table."""
    with ClickHouseCluster.start(1, macros={"ours": CLUSTER}) as cluster:
        monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(cluster.airflow_connection()))
        ClickHouseHook().query("CREATE TABLE numbers (n UInt64) ENGINE = MergeTree ORDER BY n")
        yield cluster


def test_a_kill_finds_the_nodes_of_a_cluster_that_a_macro_names(
    new_cluster: ClickHouseCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = new_cluster.airflow_connection()
    connection["extra"] |= {"cluster": "{ours}"}
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(connection))
    hook = ClickHouseHook()
    trigger = start(slow("numbers", 3000)).trigger
    assert is_running(hook, trigger.query_id)
    asyncio.run(trigger.on_kill())
    wait_until(lambda: not is_running(hook, trigger.query_id), seconds=60)


def test_a_server_that_is_killed_loses_the_statement_and_the_error_says_so(
    new_cluster: ClickHouseCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    deferred = start(slow("numbers"))
    new_cluster.restart(0)
    monkeypatch.setattr(detached, "_LOG_TIMEOUT_SECONDS", 1)
    with pytest.raises(StatementLostError, match=r"no node's system.query_log shows how it ended"):
        deferred.resume()


@pytest.mark.thorough
def test_where_no_log_would_tell_the_outcome_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detached, "_LOG_TIMEOUT_SECONDS", 1)
    # A server makes its log with the first statement that it logs.
    with ClickHouseCluster.start(1, user_settings={"log_queries": 0}) as cluster:
        monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(cluster.airflow_connection()))
        ClickHouseHook().query("CREATE TABLE numbers (n UInt64) ENGINE = MergeTree ORDER BY n")
        with pytest.raises(AirflowFailException, match=r"has no system\.query_log"):
            run("INSERT INTO numbers SELECT 7")
        assert rows_of(ClickHouseHook(), "numbers") == []
