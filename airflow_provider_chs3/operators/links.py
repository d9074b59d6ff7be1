"""The links that Airflow's UI shows for a task."""

from __future__ import annotations

from typing import Any

from airflow.providers.common.compat.sdk import BaseOperatorLink

from airflow_provider_chs3.plugin.constants import LINK_KEY


class LoadsPageLink(BaseOperatorLink):
    """The link to a task's periods. The task sets it when it begins."""

    name = "Place on the periods page"

    @property
    def xcom_key(self) -> str:
        """The XCom key of the address."""
        return LINK_KEY

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the address; empty if the task has not set it."""
        return str(operator.loads_page_url)
