"""Tasks on a table: its connection, what carries out their steps, and what requests say about the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import BaseOperator as _Task

    from airflow_provider_chs3.client.connection import ConnectionOptions
    from airflow_provider_chs3.client.listing import Listing
    from airflow_provider_chs3.client.runner import Runner
    from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
    from airflow_provider_chs3.triggers.merge_health import Merges
else:
    _Task = object


class OnTable(_Task):
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

    def runner(self, listing: Listing | None = None, *, in_turns: bool = False) -> Runner:
        """Return the runner of the task's steps, until its time is over.

        Args:
            listing: Lists the objects. Default: none are listed.
            in_turns: Whether the steps end the task's work in a handler of a signal, which comes after its time.
                Default: False.
        """
        from airflow_provider_chs3.client.deadline import Deadline
        from airflow_provider_chs3.client.runner import Runner

        hook = self.hook()
        if not in_turns:
            hook.deadline = Deadline(self.execution_timeout, lambda: self.is_ended)
        return Runner(session=hook, listing=listing, log=self.log, in_turns=in_turns)

    def merges(self) -> Merges:
        """Return the merges of the table."""
        from airflow_provider_chs3.triggers.merge_health import Merges

        cluster = self.cluster or None
        return Merges(conn_id=self.clickhouse_conn_id, table=self.table, database=self.database, cluster=cluster)

    def servers(self) -> tuple[str, dict[str, Any]]:
        """Return the servers' namespace in OpenLineage, and what `of_table` returns."""
        options = self.hook().options
        return options.namespace, self.of_table(options)

    def of_table(self, options: ConnectionOptions) -> dict[str, Any]:
        """Return what requests say about the table: its name and its cluster.

        Args:
            options: The connection, which has those that are not given.
        """
        from airflow_provider_chs3.core.model.models import TableName

        return {
            "target": TableName.of(self.table, self.database, default_database=options.database),
            "cluster": self.cluster or None,
            "default_cluster": options.cluster,
        }
