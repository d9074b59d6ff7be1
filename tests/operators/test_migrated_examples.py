"""The example DAGs of airflow-clickhouse-plugin, as docs/migrate.md has them for this package."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from airflow.sdk import DAG

    from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
    from airflow_provider_chs3.testbed.nodes import Cluster

PAGE = (Path(__file__).parents[2] / "docs" / "migrate.md").read_text(encoding="utf-8")
DAY = datetime(2026, 3, 5, tzinfo=UTC)


@pytest.fixture(scope="module")
def dags(airflow_db: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, DAG]:
    from tests.support.dag_bag import DagBag

    folder = tmp_path_factory.mktemp("dags")
    for number, block in enumerate(re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)):
        (folder / f"example_{number}.py").write_text(block)
    bag = DagBag(folder)
    assert bag.import_errors == {}
    return bag.dags


@pytest.fixture
def database(hook: ClickHouseHook, chs3_cluster: Cluster, chs3_database: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The database of the connection, which is the test's own."""
    fields = chs3_cluster.airflow_connection() | {"schema": chs3_database}
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(fields))
    return chs3_database


@pytest.fixture
def monitored(hook: ClickHouseHook) -> Iterator[None]:
    hook.execute(
        [
            "CREATE DATABASE monitor",
            "CREATE DATABASE alerts",
            "CREATE TABLE monitor.warnings (eventDate Date) ENGINE = Memory",
            "CREATE TABLE alerts.events (eventDate Date, warnings UInt64) ENGINE = Memory",
            "INSERT INTO monitor.warnings SELECT '2026-03-05' FROM numbers(10_001)",
            "INSERT INTO monitor.warnings SELECT '2026-03-06' FROM numbers(10_000)",
        ]
    )
    yield
    hook.execute(["DROP DATABASE monitor", "DROP DATABASE alerts"])


def test_an_aggregate_is_updated(
    dags: dict[str, DAG], hook: ClickHouseHook, database: str, run_dag: Callable[..., Any]
) -> None:
    hook.execute(
        [
            f"CREATE TABLE {database}.sales (eventDt Date, price UInt32, qty UInt32) ENGINE = Memory",
            f"CREATE TABLE {database}.aggregate (eventDt Date, income UInt64) ENGINE = MergeTree "
            "PARTITION BY toStartOfMonth(eventDt) ORDER BY eventDt",
            f"INSERT INTO {database}.sales VALUES ('2026-03-05', 10, 3), ('2026-03-05', 7, 1), ('2026-03-06', 1, 1)",
            f"INSERT INTO {database}.aggregate VALUES ('2026-03-04', 100), ('2026-02-28', 1000)",
        ]
    )
    run = run_dag(dags["update_income_aggregate"], logical_date=DAY)
    assert run.state == "success"
    assert run.get_task_instance("update_income_aggregate").xcom_pull(task_ids="update_income_aggregate") == [[137]]
    assert hook.query(f"SELECT income FROM {database}.aggregate ORDER BY eventDt") == [(1000,), (100,), (37,)]
    hook.query("SYSTEM FLUSH LOGS")
    query_id = f"update_income_aggregate-update_income_aggregate-{run.run_id}-1"
    logged = f"SELECT count() FROM system.query_log WHERE query_id = '{query_id}' AND type = 'QueryFinish'"
    assert hook.query(logged) == [(3,)]


def test_rows_of_another_database_are_inserted(
    dags: dict[str, DAG], hook: ClickHouseHook, database: str, run_dag: Callable[..., Any], tmp_path: Path
) -> None:
    file = tmp_path / "orders.db"
    with sqlite3.connect(file) as source:
        source.execute("CREATE TABLE some_sqlite_table (id INTEGER, name TEXT)")
        source.executemany("INSERT INTO some_sqlite_table VALUES (?, ?)", [(1, "it's"), (2, "%s")])
    hook.query(f"CREATE TABLE {database}.some_ch_table (id UInt32, name String) ENGINE = Memory")
    run = run_dag(dags["sqlite_to_clickhouse"], run_conf={"file": str(file)})
    assert run.state == "success"
    assert hook.query(f"SELECT * FROM {database}.some_ch_table ORDER BY id") == [(1, "it's"), (2, "%s")]


@pytest.mark.usefixtures("monitored")
@pytest.mark.parametrize("dag_id", ["listen_warnings", "listen_warnings_dbapi"])
def test_enough_warnings_make_an_alert(
    dags: dict[str, DAG], hook: ClickHouseHook, run_dag: Callable[..., Any], dag_id: str
) -> None:
    run = run_dag(dags[dag_id], logical_date=DAY)
    assert run.state == "success"
    assert hook.query("SELECT * FROM alerts.events") == [(DAY.date(), 10_001)]


@pytest.mark.usefixtures("monitored")
@pytest.mark.parametrize("dag_id", ["listen_warnings", "listen_warnings_dbapi"])
def test_a_warning_too_few_makes_none(dags: dict[str, DAG], hook: ClickHouseHook, dag_id: str) -> None:
    sensor = dags[dag_id].get_task("poke_events_count")
    sensor.sql = sensor.sql.replace("{{ ds }}", "2026-03-06")
    done = sensor.poke({})
    assert not getattr(done, "is_done", done)
