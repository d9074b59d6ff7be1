"""Run statements of your own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowTaskTimeout, conf

from airflow_provider_chs3.defaults import PROGRESS_INTERVAL_SECONDS
from airflow_provider_chs3.hooks.running_task import TaskDeadline, airflow_errors, owner_of
from airflow_provider_chs3.operators._support.statement_task import BaseClickHouseOperator

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_chs3.operators._support.detached_statements import DetachingStatements, RunningStatement


class ClickHouseOperator(BaseClickHouseOperator):
    """Run your own statements, any that ClickHouse knows, with parameters and external tables.

    A retry runs all of them again, so rows that an earlier try inserted are doubled. To load objects so that each
    period is exact after every retry, use `S3ToClickHouseOperator`.

    Args:
        with_column_types: Whether to return the columns too. Default: False.
        types_check: Whether the driver checks the types of all values before it sends them. Default: False.
        columnar: Whether rows are given and returned as columns. Default: False.
        deferrable: Whether to leave the worker while a statement without a result runs, such as `INSERT … SELECT`; a
            retry continues with a statement that is still running. Default: Airflow's `[operators] default_deferrable`.
        durable: Whether a retry continues with such a statement, too, if the task waits on its worker and that is
            killed. Default: False.
        progress_interval_seconds: Seconds between two lines of progress of such a statement. Default: Airflow's
            `[chs3] progress_interval_seconds`, 10.
        **kwargs: As for `BaseClickHouseOperator`, and Airflow's own.

    Returns:
        The result of the last statement as JSON: its rows as lists; with `with_column_types` a list of the rows and of
        name and type of each column; for an `INSERT … VALUES` with rows, their number. Dates, decimals, UUIDs and other
        types that JSON lacks are text.
    """

    def __init__(
        self,
        *,
        with_column_types: bool = False,
        types_check: bool = False,
        columnar: bool = False,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        durable: bool = False,
        progress_interval_seconds: float = PROGRESS_INTERVAL_SECONDS,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.with_column_types = with_column_types
        self.types_check = types_check
        self.columnar = columnar
        self.deferrable = deferrable
        self.durable = durable
        self.progress_interval_seconds = progress_interval_seconds
        self._detaching: DetachingStatements | None = None

    def execute(self, context: Context) -> Any:
        """Run the statements; a deferrable or durable task continues with one that an earlier try left running."""
        from airflow_provider_chs3.core.model.models import as_json

        self._deadline = TaskDeadline(self.execution_timeout)
        if (self.deferrable or self.durable) and not self._is_held():
            return self._detach(context, None)
        return as_json(self.run_statements())

    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> Any:
        """Continue once a statement has ended.

        Args:
            context: Airflow's.
            event: The event of `StatementTrigger`.

        Returns:
            The result of `execute`.

        Raises:
            AirflowTaskTimeout: If the task took longer than its `execution_timeout`.
        """
        from airflow_provider_chs3.operators._support.detached_statements import RunningStatement

        return self._detach(context, RunningStatement.of_json(event["running"]), is_late=event["is_late"])

    def on_kill(self) -> None:
        """End the statement that is running, on all nodes that take part in it."""
        super().on_kill()
        if self._detaching:
            self._detaching.end()

    def _arguments(self, **options: Any) -> dict[str, Any]:
        return super()._arguments(
            with_column_types=self.with_column_types, types_check=self.types_check, columnar=self.columnar, **options
        )

    def _is_held(self) -> bool:
        from airflow_provider_chs3.hooks.statements.statement_runs import statements_of
        from airflow_provider_chs3.operators._support.detached_statements import why_worker_is_held

        with airflow_errors(hints=False):
            given = self._arguments()
            reason = why_worker_is_held(statements_of(self.sql), given["parameters"], given["external_tables"])
        if reason:
            self.log.info("The task keeps its worker, and a retry starts over, as %s.", reason)
        return bool(reason)

    def _detach(self, context: Context, running: RunningStatement | None, *, is_late: bool = False) -> Any:
        from airflow_provider_chs3.core.model.models import as_json
        from airflow_provider_chs3.operators._support.detached_statements import DetachingStatements

        with airflow_errors(hints=False):
            options = self._arguments()
            self._detaching = DetachingStatements(
                hook=self._connect(),
                sql=self.sql,
                parameters=options.pop("parameters"),
                options=options,
                owner=owner_of(context),
                wait=partial(self._wait, context) if self.deferrable else None,
                log=self.log,
                progress_interval_seconds=self.progress_interval_seconds,
            )
            if is_late:
                self._detaching.end(running)
                raise AirflowTaskTimeout(f"The statement took longer than execution_timeout={self.execution_timeout}.")
            return as_json(self._detaching.run(running))

    def _wait(self, context: Context, running: RunningStatement) -> None:
        """Defer to the triggerer: this raises TaskDeferred."""
        from airflow_provider_chs3.triggers.statement import StatementTrigger

        assert self._hook is not None  # over which the statement was sent
        self.defer(
            trigger=StatementTrigger(
                clickhouse_conn_id=self.clickhouse_conn_id,
                query_id=running.query_id,
                cluster=self._hook.options.cluster,
                number=running.number,
                address=running.address,
                **StatementTrigger.times_of(self, context),
                poll_interval_seconds=self.progress_interval_seconds,
            ),
            method_name=self.execute_complete.__name__,
        )
