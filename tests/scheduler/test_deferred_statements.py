"""Deferred statements under a real scheduler and triggerer, whose processes die, and whose tasks people end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.scheduler.deferred_tasks import ARGUMENTS, FATES, TELLS_PID, DeferredTasks

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.nodes import Cluster

DATABASE = "test_statements"

DAG = f"""{TELLS_PID}

from airflow_provider_chs3.operators.clickhouse import ClickHouseOperator

SECONDS = {{"failed": 20, "cleared": "{{{{ 20 if ti.try_number == 1 else 0 }}}}"}}

with DAG("statements", schedule=None, start_date=datetime(2026, 1, 1)):
    for table in {FATES!r}:
        ClickHouseOperator(
            task_id=table,
            # Some 50 s; what people end would take minutes, and no time when it runs again.
            sql=[
                f"INSERT INTO {{table}} SELECT number + sleepEachRow({{SECONDS.get(table, 2)}}) FROM numbers(25) "
                "SETTINGS max_block_size = 1, function_sleep_max_microseconds_per_block = 100000000",
                f"SELECT count(), {{{{tenant:String}}}} FROM {{table}}",
            ],
            parameters={{"tenant": "t1"}},
            database="{DATABASE}",
            {", ".join(f"{name}={value}" for name, value in ARGUMENTS.items())},
        )
"""


@dataclass
class Statements(DeferredTasks):
    """One run of that DAG.

    Attributes:
        cluster: Where the tables are, on its first node.
    """

    cluster: Cluster

    def query_ids(self, fate: str) -> set[str]:
        return self.found_in_logs(fate, r"Query id: (chs3_statement_\w+_0_\w+)")

    def is_running(self, fate: str) -> bool:
        ids = ", ".join(map(repr, self.query_ids(fate)))
        return bool(ids) and bool(self.rows(f"SELECT 1 FROM system.processes WHERE query_id IN ({ids})"))

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        """The rows of a statement on the first node."""
        with self.cluster.nodes[0].client() as client:
            return client.execute(sql)


@pytest.fixture(scope="module")
def run(chs3_cluster: Cluster, airflow_db: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Statements]:
    """The run, after each task has met its fate."""
    home, dags = tmp_path_factory.mktemp("airflow"), tmp_path_factory.mktemp("dags")
    (dags / "statements.py").write_text(DAG)
    run = Statements("statements", home, dags, chs3_cluster)
    run.rows(f"CREATE DATABASE {DATABASE}")
    for table in FATES:
        run.rows(f"CREATE TABLE {DATABASE}.{table} (n UInt64) ENGINE = MergeTree ORDER BY n")
    run.befall(
        airflow_db,
        {"AIRFLOW_CONN_CHS3_DEFAULT": json.dumps(chs3_cluster.airflow_connection())},
        ended=lambda: not any(map(run.is_running, FATES)),
    )
    yield run
    run.rows(f"DROP DATABASE {DATABASE} SYNC")


@pytest.mark.parametrize("table", ["worker_killed", "triggerer_killed"])
def test_the_statement_that_goes_on_is_waited_for_and_not_run_again(run: Statements, table: str) -> None:
    assert len(run.query_ids(table)) == 1
    assert run.rows(f"SELECT groupArray(n) FROM (SELECT n FROM {DATABASE}.{table} ORDER BY n)") == [(list(range(25)),)]
    assert run.result(table) == [[25, "t1"]]


def test_the_worker_was_killed_before_its_task_was_deferred(run: Statements) -> None:
    assert "of an earlier try still runs, and is waited for" in run.logs("worker_killed")


def test_the_statement_of_a_task_that_was_marked_failed_is_killed(run: Statements) -> None:
    assert "Ending query" in run.logs("failed", "*.trigger.*")
    assert len(run.query_ids("failed")) == 1


def test_a_cleared_task_kills_its_statement_and_runs_it_again(run: Statements) -> None:
    assert len(run.query_ids("cleared")) == 2
    ((rows,),) = run.rows(f"SELECT count() - uniqExact(n) FROM {DATABASE}.cleared WHERE n > 20")
    assert rows == 0
    assert run.result("cleared")[0][0] >= 25
