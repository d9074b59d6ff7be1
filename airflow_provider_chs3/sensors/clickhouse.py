"""Wait for what a statement returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowFailException, BaseSensorOperator, PokeReturnValue, conf

from airflow_provider_chs3.hooks.running_task import TaskDeadline
from airflow_provider_chs3.operators._support.statement_task import BaseClickHouseOperator

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

Rows = Sequence[Sequence[Any]]


class ClickHouseSensor(BaseClickHouseOperator, BaseSensorOperator):
    """Wait until the last of some statements returns the expected result.

    Args:
        is_success: Takes the list of rows, and says whether the wait is over. Default: it is when the first value of
            the first row is neither 0 nor empty, so that `SELECT count() …` waits for a row.
        is_failure: Takes the list of rows, and says whether to fail at once, without retries; asked before
            `is_success`. Default: never.
        deferrable: Whether to leave the worker between two pokes: the `mode` is then `reschedule`, unless one is given.
            Default: Airflow's `[operators] default_deferrable`.
        **kwargs: As for `BaseClickHouseOperator`, and Airflow's own of sensors.

    Returns:
        The rows, as JSON.
    """

    def __init__(
        self,
        *,
        is_success: Callable[[Rows], object] | None = None,
        is_failure: Callable[[Rows], object] | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        if deferrable:
            # Not in a trigger: Airflow shows the arguments of triggers, and parameters may be secrets.
            kwargs.setdefault("mode", "reschedule")
        super().__init__(**kwargs)
        self.is_success = is_success
        self.is_failure = is_failure
        self.deferrable = deferrable

    def execute(self, context: Context) -> Any:
        """Poke until the wait is over."""
        self._deadline = TaskDeadline(self.execution_timeout)
        return super().execute(context)

    def poke(self, context: Context) -> PokeReturnValue:
        """Run the statements once.

        Raises:
            AirflowFailException: If `is_failure` matches the result, or a retry would end the same way.
        """
        from airflow_provider_chs3.core.model.models import as_json

        rows = self.run_statements()
        if self.is_failure and self.is_failure(rows):
            raise AirflowFailException(f"is_failure matched the result: {as_json(rows[:3])}.")
        is_done = self.is_success(rows) if self.is_success else rows and rows[0][0]
        return PokeReturnValue(is_done=bool(is_done), xcom_value=as_json(rows))
