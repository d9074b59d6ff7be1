"""Tasks on a table: its connection, what carries out their steps, and what requests say about the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_chs3.operators._support.declared import Declared

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import BaseOperator as _Task

    from airflow_provider_chs3.client.runner import Runner
    from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
    from airflow_provider_chs3.table import Table
    from airflow_provider_chs3.triggers.merge_health import Merges
else:
    _Task = object


class OnTable(Declared, _Task):
    """A task on a table. List it before Airflow's class among the bases."""

    table: str
    database: str | None
    cluster: str | None
    clickhouse_conn_id: str
    #: Whether `on_kill` was called.
    is_ended = False

    def hook(self) -> ClickHouseHook:
        """Return the connection to ClickHouse."""
        from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook

        return ClickHouseHook(clickhouse_conn_id=self.clickhouse_conn_id)

    def timed_hook(self) -> ClickHouseHook:
        """Return the connection to ClickHouse, until the task's time is over."""
        from airflow_provider_chs3.hooks.running_task import TaskDeadline

        hook = self.hook()
        hook.deadline = TaskDeadline(self.execution_timeout, lambda: self.is_ended)
        return hook

    def runner(self, *, in_turns: bool = False) -> Runner:
        """Return the runner of the task's steps, until its time is over.

        Args:
            in_turns: Whether the steps end the task's work in a handler of a signal, which comes after its time.
                Default: False.
        """
        from airflow_provider_chs3.client.runner import Runner

        return Runner(session=self.hook() if in_turns else self.timed_hook(), log=self.log, in_turns=in_turns)

    def on_connection(self, hook: ClickHouseHook | None = None) -> Table:
        """Return the table on a connection."""
        from airflow_provider_chs3.table import Table

        names = {name: getattr(self, name, None) for name in ("database", "cluster", "staging_database")}
        return Table(hook or self.timed_hook(), self.table, **names, log=self.log)

    def merges(self) -> Merges:
        """Return the merges of the table."""
        from airflow_provider_chs3.triggers.merge_health import Merges

        cluster = self.cluster or None
        return Merges(conn_id=self.clickhouse_conn_id, table=self.table, database=self.database, cluster=cluster)
