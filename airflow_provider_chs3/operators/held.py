"""Publish or drop the rows of periods that loads hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.core.arguments.load_arguments import OF_APPROVAL, templated
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.hooks.airflow_errors import airflow_errors
from airflow_provider_chs3.operators._support.declared import takes
from airflow_provider_chs3.operators.emit_period import emit_periods
from airflow_provider_chs3.operators.ledger import NO_PERIODS, LedgerOperator
from airflow_provider_chs3.operators.period import PeriodOperator

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_chs3.core.load.load_result import LoadResult
    from airflow_provider_chs3.core.periods.discard import DiscardedPeriod


@takes(*OF_APPROVAL)
class ApprovePeriodsOperator(PeriodOperator):
    """Publish the rows of periods that loads hold, as with `policies={'on_failed_check': 'hold'}`.

    Held rows are published only if their objects, and the period in the table, are as they were when the rows were
    checked; otherwise the task fails: load the period. They are published as by a load: a retry repeats an approval
    that was killed. The load's arguments are not needed, as its record has what counts. `periods` is required.

    Returns:
        The result of each period, as of a load.
    """

    template_fields: Sequence[str] = (*PeriodOperator.template_fields, *templated(OF_APPROVAL))
    ui_color = LedgerOperator.ui_color

    def __init__(
        self,
        *,
        periods: Sequence[str] | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.periods = periods

    def approved(self) -> list[LoadResult]:
        """Publish what is held of the periods, and return the results as objects.

        Raises:
            AirflowFailException: If no periods are given, or a retry would end the same way.
        """
        from airflow_provider_chs3.core.load.load_request import LoadRequest
        from airflow_provider_chs3.core.load.protocol import load_periods
        from airflow_provider_chs3.core.load.reload import Reload
        from airflow_provider_chs3.core.model.period import parse_periods
        from airflow_provider_chs3.operators._support.load_request import what_is_loaded

        with airflow_errors():
            if not self.periods:
                raise ConfigurationError(NO_PERIODS)
            listing, periods = self.listing(), parse_periods(self.periods)
            loaded = what_is_loaded(self, listing, {})
            reload = Reload(target=loaded["target"], periods=periods, approve=True)
            request = LoadRequest(**loaded, period=periods[0], reload=reload)
            outcome = self.runner(listing).run(load_periods(request, periods))
            if outcome.error:
                raise outcome.error
            return [outcome.results[period] for period in periods]

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Publish what is held of the periods, with the events of the task's assets."""
        results = [period.as_json() for period in self.approved()]
        emit_periods(self, context, results)
        return results


@takes()
class DiscardPeriodsOperator(LedgerOperator):
    """Drop the rows of periods that loads hold. The table stays as it is, and the next load loads the periods.

    `periods` is required.

    Returns:
        For each period whether anything was held of it, and why, as JSON-safe values.
    """

    def discarded(self) -> list[DiscardedPeriod]:
        """Discard what is held, and return the periods as objects.

        Raises:
            AirflowFailException: If no periods are given, or a retry would end the same way.
        """
        from airflow_provider_chs3.core.periods.discard import discard_periods

        with airflow_errors():
            return self.runner().run(discard_periods(self._request_of_named()))

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Discard what is held."""
        return [period.as_json() for period in self.discarded()]
