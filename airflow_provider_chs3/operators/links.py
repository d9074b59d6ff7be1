"""What Airflow's UI shows beside a task."""

from __future__ import annotations

from typing import Any

from airflow.providers.common.compat.sdk import BaseOperatorLink

from airflow_provider_chs3.plugin.entry import LINK_KEY


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
