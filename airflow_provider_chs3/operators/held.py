"""Publish or drop the rows of periods that loads hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.core.arguments.load_arguments import OF_APPROVAL
from airflow_provider_chs3.hooks.running_task import airflow_errors
from airflow_provider_chs3.operators.emit_period import emit_periods
from airflow_provider_chs3.operators.ledger import LedgerOperator
from airflow_provider_chs3.operators.period import PeriodOperator

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context


class ApprovePeriodsOperator(PeriodOperator, takes=OF_APPROVAL):
    """Publish the rows of periods that loads hold, as with `policies={'on_failed_check': 'hold'}`.

    Held rows are published only if their objects, and the period in the table, are as they were when the rows were
    checked; otherwise the task fails: load the period. They are published as by a load: a retry repeats an approval
    that was killed. The load's arguments are not needed, as its record has what counts; but arrivals
    (`policies={'on_other_periods': 'spread'}`) are loaded once more, without what held them, and need all of them:
    `load=…`. `periods` is required.

    Returns:
        The result of each period, as of a load.
    """

    ui_color = LedgerOperator.ui_color
    periods: Sequence[str] | str | None

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Publish what is held of the periods, with the events of the task's assets."""
        with airflow_errors():
            approved = self.on_connection().approve(self.as_load(), self.periods or ())
        results = [period.as_json() for period in approved]
        emit_periods(self, context, results)
        return results


class DiscardPeriodsOperator(LedgerOperator, takes=()):
    """Drop the rows of periods that loads hold. The table stays as it is, and the next load loads the periods.

    `periods` is required.

    Returns:
        For each period whether anything was held of it, and why, as JSON-safe values.
    """

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Discard what is held."""
        with airflow_errors():
            return [period.as_json() for period in self.on_connection().discard(self.periods or ())]
