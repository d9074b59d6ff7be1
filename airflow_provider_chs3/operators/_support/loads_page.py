"""Link a task to its periods on the periods page."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from airflow_provider_chs3.exceptions import Chs3Error
from airflow_provider_chs3.operators._support.on_table import OnTable
from airflow_provider_chs3.operators.links import LoadsPageLink
from airflow_provider_chs3.plugin.constants import HAS_PAGE, LINK_KEY, NAVIGATION_ROUTE, base_path

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import BaseOperatorLink, Context

    from airflow_provider_chs3.client.runner import Runner
    from airflow_provider_chs3.core.model.models import TableName


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
            table, *_ = runner.run(local_table(table, self.cluster or None))
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
