"""A DAG of deferred statements that last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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
            # Some 150 s, as Airflow starts twice; what people end would take minutes, and no time again.
            sql=[
                f"INSERT INTO {{table}} SELECT number + sleepEachRow({{SECONDS.get(table, 6)}}) FROM numbers(25) "
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
    """One run of that DAG."""

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

    def have_ended(self) -> bool:
        return not any(map(self.is_running, FATES))
