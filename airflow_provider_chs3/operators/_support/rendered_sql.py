"""The insert that a task sends, where people look for it in Airflow's UI; without credentials."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from airflow import __version__

from airflow_provider_chs3.plugin.constants import SQL_KEY

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_chs3.core.workflow.operations import AnyStep
    from airflow_provider_chs3.runners.blocking import Runner


class ShowsSql:
    """A task that inserts. Its template fields have `insert_sql`; it goes before Airflow's class among the bases."""

    #: Airflow shows rendered fields as they were before the task ran, unless it reads them again when it has.
    #: Before 3.2 that would end a try which is to be retried with an error, without its callbacks.
    overwrite_rtif_after_execution = tuple(int(number) for number in __version__.split(".")[:2]) >= (3, 2)

    insert_sql = ""

    def showing_sql(self, context: Context, runner: Runner) -> Callable[[AnyStep], Any]:
        """Carry out steps as the runner does, and show each insert before."""
        from airflow_provider_chs3.core.workflow.operations import Insert
        from airflow_provider_chs3.runners.insert import shown_sql

        def perform(step: AnyStep) -> Any:
            if isinstance(step, Insert):
                self.insert_sql = shown_sql(step)
                if (ti := context.get("ti")) is not None:
                    ti.xcom_push(key=SQL_KEY, value=self.insert_sql)
            return runner.perform(step)

        return perform
