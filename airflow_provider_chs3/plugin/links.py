"""From a task to the months page: where what it is about stands there."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from airflow.providers.common.compat.sdk import BaseOperatorLink, conf

from airflow_provider_chs3.exceptions import Chs3Error
from airflow_provider_chs3.plugin.constants import HAS_PAGE, LINK_KEY, NAVIGATION_ROUTE, URL_PREFIX

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_chs3.core.values.models import TableName
    from airflow_provider_chs3.runners.blocking import Runner


class MonthsPageLink(BaseOperatorLink):
    """The months page, opened at what the task is about. The task tells it when it begins."""

    name = "Place on the months page"

    @property
    def xcom_key(self) -> str:
        """Where the task puts it."""
        return LINK_KEY

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """The address; empty where the task has not come to know it."""
        return str(operator.months_page_url)


class OnMonthsPage:
    """A task whose months are on the page. It goes before Airflow's class among the bases."""

    operator_extra_links: Collection[BaseOperatorLink] = (MonthsPageLink(),) if HAS_PAGE else ()

    table: str
    database: str | None
    cluster: str | None
    #: Known while the task runs.
    months_page_url = ""

    def link_to_page(self, context: Context, runner: Runner, months: Iterable[str] = ()) -> None:
        """Tell the link now, so that it is there while the task runs.

        Args:
            context: Airflow's.
            runner: Leads to ClickHouse.
            months: What the task is about, `YYYY-MM`; none is the whole table.
        """
        from airflow_provider_chs3.core.cluster.topology import local_table
        from airflow_provider_chs3.core.values.models import TableName

        ti = context.get("ti")
        if ti is None or not HAS_PAGE or self.months_page_url:
            return
        table = TableName(self.database or runner.hook.options.database, self.table)
        try:
            # The page shows local tables.
            table, *_ = runner.run(local_table(table, self.cluster or None))
        except Chs3Error as error:
            # The task is about to meet that, too, and to say it better.
            runner.log.debug("The link to the months page goes by the table's given name: %s", error)
        self.months_page_url = page_url(conn_id=runner.hook.clickhouse_conn_id, table=table, months=months)
        ti.xcom_push(key=LINK_KEY, value=self.months_page_url)


def page_url(*, conn_id: str, table: TableName, months: Iterable[str]) -> str:
    """The address of the months page in Airflow's UI, opened at some months.

    It begins with a slash: links work whatever name the user's browser has for the API server. A path that Airflow is
    served under is taken from `[api] base_url`.

    Args:
        conn_id: The connection.
        table: The local table.
        months: The months; none opens the table.
    """
    prefix = urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")
    location = [("conn_id", conn_id), ("database", table.database), ("table", table.table)]
    query = urlencode([*location, *(("month", month) for month in months)])
    # Airflow 3.3 shows what follows the route, path and query, in the page's frame.
    return f"{prefix}/plugin/{NAVIGATION_ROUTE}{prefix}{URL_PREFIX}/?{query}"
