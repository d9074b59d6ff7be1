"""In a task that Airflow runs, statements name it in the server's query log."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_chs3.hooks.running_task import airflow_log_comment

if TYPE_CHECKING:
    from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook


@pytest.fixture
def logged(run_dag: Callable[..., Any], hook: ClickHouseHook) -> dict[str, Any]:
    """Return the query log's entries of a mapped task's statements: `value` by task id and map index."""
    from airflow.providers.common.compat.sdk import DAG
    from airflow.providers.common.sql.operators.sql import SQLExecuteQueryOperator

    with DAG("nightly", schedule=None) as dag:
        SQLExecuteQueryOperator(task_id="one", conn_id="chs3_default", sql="SELECT 'chs3 log_comment one'")
        SQLExecuteQueryOperator.partial(task_id="each", conn_id="chs3_default").expand(
            sql=["SELECT 'chs3 log_comment 0'", "SELECT 'chs3 log_comment 1'"]
        )
    run = run_dag(dag)
    hook.query("SYSTEM FLUSH LOGS")
    rows = hook.query(
        "SELECT log_comment FROM system.query_log "
        f"WHERE type = 'QueryFinish' AND JSONExtractString(log_comment, 'run_id') = '{run.run_id}'"
    )
    comments = [json.loads(comment) for (comment,) in rows]
    return {"run_id": run.run_id, "comments": sorted(comments, key=lambda it: (it["task_id"], it["map_index"]))}


def test_dag_task_run_try_and_map_index_are_in_the_query_log(logged: dict[str, Any]) -> None:
    common = {"dag_id": "nightly", "run_id": logged["run_id"], "try_number": 1}
    assert logged["comments"] == [
        common | {"task_id": "each", "map_index": 0},
        common | {"task_id": "each", "map_index": 1},
        common | {"task_id": "one", "map_index": -1},
    ]


def test_a_process_that_a_task_started_takes_its_names(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"DAG_ID": "nightly", "TASK_ID": "load", "DAG_RUN_ID": "r1", "TRY_NUMBER": "2"}
    for name, value in names.items():
        monkeypatch.setenv(f"AIRFLOW_CTX_{name}", value)
    expected = {"dag_id": "nightly", "task_id": "load", "run_id": "r1", "try_number": 2}
    assert json.loads(airflow_log_comment()) == expected


def test_elsewhere_nothing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DAG_ID", "TASK_ID", "DAG_RUN_ID", "TRY_NUMBER"):
        monkeypatch.delenv(f"AIRFLOW_CTX_{name}", raising=False)
    assert airflow_log_comment() == "{}"
