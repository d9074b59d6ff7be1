"""Tasks on a table: its connection, the runner of their steps, and the link to its periods on the page."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from airflow_provider_chs3.exceptions import Chs3Error
from airflow_provider_chs3.operators._support.declared import Declared
from airflow_provider_chs3.operators.links import LoadsPageLink
from airflow_provider_chs3.plugin.constants import HAS_PAGE, LINK_KEY, NAVIGATION_ROUTE, base_path

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import BaseOperator as _Task
    from airflow.providers.common.compat.sdk import BaseOperatorLink, Context

    from airflow_provider_chs3.client.runner import Runner
    from airflow_provider_chs3.core.model.models import TableName
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


class OnLoadsPage(OnTable):
    """A task whose periods are on the page. List it before Airflow's class among the bases."""

    operator_extra_links: Collection[BaseOperatorLink] = (LoadsPageLink(),) if HAS_PAGE else ()

    #: Set while the task runs.
    loads_page_url = ""

    def link_to_page(self, context: Context, runner: Runner, periods: Iterable[str] = ()) -> None:
        """Set the link early, so that it works while the task runs; without periods, it is to the whole table."""
        from airflow_provider_chs3.core.model.models import TableName
        from airflow_provider_chs3.core.target.topology import local_table

        ti = context.get("ti")
        if ti is None or not HAS_PAGE or self.loads_page_url:
            return
        table = TableName.of(self.table, self.database, default_database=runner.session.options.database)
        try:
            # The page shows local tables.
            table = runner.run(local_table(table, self.cluster or None))
        except Chs3Error as error:
            # The task will hit this error, too, and report it better.
            runner.log.debug("The link to the periods page uses the table's name as given: %s", error)
        self.loads_page_url = page_url(conn_id=self.clickhouse_conn_id, table=table, periods=periods)
        ti.xcom_push(key=LINK_KEY, value=self.loads_page_url)


def page_url(*, conn_id: str, table: TableName, periods: Iterable[str]) -> str:
    """Return the address of the periods page in Airflow's UI, opened at some periods.

    It begins with a slash, so links work under any host name of the API server. The path under which Airflow is served
    comes from `[api] base_url`.
    """
    location = [("conn_id", conn_id), ("database", table.database), ("table", table.table)]
    query = urlencode([*location, *(("period", period) for period in periods)])
    return f"{base_path()}/plugin/{NAVIGATION_ROUTE}?{query}"
