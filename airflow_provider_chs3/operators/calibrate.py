"""Find the settings that load a table's files the fastest on its cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.core.values.load_arguments import (
    BUDGET_SECONDS,
    LEAST_TRY_SECONDS,
    OF_CALIBRATION,
    templated,
)
from airflow_provider_chs3.hooks.airflow_errors import airflow_errors
from airflow_provider_chs3.operators._support.declared import takes
from airflow_provider_chs3.operators._support.tasks import ReadsFiles
from airflow_provider_chs3.operators.period import PeriodOperator

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_chs3.core.calibration.report import Calibration
    from airflow_provider_chs3.core.request.load_request import LoadRequest
    from airflow_provider_chs3.sources.listing import Listing


@takes(*OF_CALIBRATION)
class CalibrateLoadOperator(ReadsFiles, PeriodOperator):
    """Load a sample of a period's files under a few settings, and keep the best for the table's loads.

    Trials load into separate tables, which are dropped; the table and its periods do not change. Settings alternate
    with those of the rules, and win only if they are faster by more than noise. The result is recorded on every node;
    loads of the table use it, and say so, as long as table, format, nodes and ClickHouse's version are the same.

    Give the same values as the table's loads have; no trial may take more memory than a load.

    Returns:
        The profile, how many times as fast as the rules it is, and why it was chosen; the trials with their seconds,
        parts and memory; sample, versions and node specs. As JSON-safe values.
    """

    template_fields: Sequence[str] = (
        *dict.fromkeys((*PeriodOperator.template_fields, *ReadsFiles.template_fields)),
        *templated(OF_CALIBRATION),
    )
    ui_color = "#e3e0f0"

    def __init__(self, *, budget_seconds: float | str = 300, least_try_seconds: float = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.budget_seconds = budget_seconds
        self.least_try_seconds = least_try_seconds
        self._request: LoadRequest | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        """Calibrate."""
        return self.calibrated(context).as_json()

    def calibrated(self, context: Context) -> Calibration:
        """Calibrate, and return the result as an object; without a context the period must be given.

        Args:
            context: Airflow's context.

        Raises:
            AirflowFailException: For an error that no retry can fix.
        """
        from airflow_provider_chs3.core.calibration.run import CalibrationRequest, calibrate

        with airflow_errors():
            listing = self.listing()
            request = CalibrationRequest(
                load=self._load_request(context, listing),
                budget_seconds=BUDGET_SECONDS.checked(self.budget_seconds),
                least_try_seconds=LEAST_TRY_SECONDS.checked(self.least_try_seconds),
            )
            self._request = request.load
            found = self.runner(listing).run(calibrate(request))
        self._request = None
        return found

    def on_kill(self) -> None:
        """End the trials on every node, and drop their tables."""
        from airflow_provider_chs3.core.calibration.run import stop_calibration

        self.is_ended = self.cancel_on_kill
        if self._request is None or not self.cancel_on_kill:
            return
        self.log.info("Ending the trials of this calibration, and dropping their tables.")
        self.runner(in_turns=True).run(stop_calibration(self._request))

    def _load_request(self, context: Context, listing: Listing) -> LoadRequest:
        from airflow_provider_chs3.core.request.load_request import LoadRequest
        from airflow_provider_chs3.core.tuning.resource_share import ShareOptions
        from airflow_provider_chs3.core.values.load_arguments import Tuning
        from airflow_provider_chs3.core.values.run_period import given_period
        from airflow_provider_chs3.operators._support.load_request import of_the_nodes, what_is_loaded

        loaded = what_is_loaded(self, listing, vars(self))
        loaded["policies"] = replace(loaded["policies"], on_no_objects="empty")
        return LoadRequest(
            **loaded,
            **of_the_nodes(self),
            period=given_period(self.period) if self.has_period else self.period_of_run(context, self.grain()),
            share=ShareOptions.merged(Tuning.of(self.tuning)),
        )
