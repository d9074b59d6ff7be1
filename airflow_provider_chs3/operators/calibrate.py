"""Find the settings that load a table's files the fastest on its cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_chs3.core.values.arguments import SHARED
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.hooks.airflow_errors import airflow_errors
from airflow_provider_chs3.operators._support.tasks import ReadsFiles
from airflow_provider_chs3.operators.monthly import MonthlyOperator

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_chs3.core.calibration.report import Calibration
    from airflow_provider_chs3.core.request.load_request import LoadRequest
    from airflow_provider_chs3.runners.blocking import Runner
    from airflow_provider_chs3.sources.listing import Listing


class CalibrateLoadOperator(ReadsFiles, MonthlyOperator):
    """Load a sample of a month's files under a few settings, and keep the best for the table's loads.

    Trials load into separate tables, which are dropped; the table and its months do not change. Settings alternate with
    those of the rules, and win only if they are faster by more than noise. The result is recorded on every node; loads
    of the table use it, and say so, as long as table, format, nodes and ClickHouse's version are the same.

    It takes the arguments of `MonthlyOperator` (table, objects, credentials) and these. Give the same values as the
    table's loads have.

    Args:
        month: `YYYY-MM`: whose files are the sample. Default: the run's partition key, else the month of its data
            interval.
        budget_seconds: Time limit for all trials; the sample is as large as fits. Default: 300.
        least_try_seconds: A sample that loads in less is too small to measure, and is an error. Default: 1.
        file_format: As for loads.
        compression: As for loads.
        columns: As for loads.
        select: As for loads.
        null_as_default: As for loads.
        lossy_columns: As for loads.
        naive_timestamps: As for loads.
        csv: As for loads.
        distribution: As for loads.
        settings: As for loads; they override what is tried.
        node_specs: As for loads.
        memory_share: As for loads; no trial may take more memory than a load.
        cancel_on_kill: End the trials on all nodes, and drop their tables, if a person ends the task, or the worker has
            to stop. Default: True.

    Returns:
        The profile, how many times as fast as the rules it is, and why it was chosen; the trials with their seconds,
        parts and memory; sample, versions and node specs. As JSON-safe values.
    """

    template_fields: Sequence[str] = (
        *MonthlyOperator.template_fields,
        "month",
        "budget_seconds",
        "file_format",
        "compression",
        "columns",
        "select",
        "lossy_columns",
        "naive_timestamps",
        "csv",
        "distribution",
        "settings",
        "node_specs",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = dict.fromkeys(("select", "settings", "node_specs"), "json")
    file_fields: ClassVar[Sequence[str]] = ("select", "csv", "settings", "node_specs")
    ui_color = "#e3e0f0"

    def __init__(
        self,
        *,
        month: str | None = None,
        budget_seconds: float | str = 300,
        least_try_seconds: float = 1,
        file_format: str | None = None,
        compression: str | None = None,
        columns: Sequence[str] | None = None,
        select: Mapping[str, str] | str | None = None,
        null_as_default: bool = False,
        lossy_columns: Sequence[str] | None = None,
        naive_timestamps: str | None = None,
        csv: Mapping[str, Any] | str | None = None,
        distribution: str = "where_read",
        settings: Mapping[str, str | int] | str | None = None,
        node_specs: Mapping[str, Mapping[str, Any]] | str | None = None,
        memory_share: float = SHARED,
        cancel_on_kill: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.month = month
        self.has_month = month is not None
        self.budget_seconds = budget_seconds
        self.least_try_seconds = least_try_seconds
        self.file_format = file_format
        self.compression = compression
        self.columns = columns
        self.select = select
        self.null_as_default = null_as_default
        self.lossy_columns = lossy_columns
        self.naive_timestamps = naive_timestamps
        self.csv = csv
        self.distribution = distribution
        self.settings = settings
        self.node_specs = node_specs
        self.memory_share = memory_share
        self.cancel_on_kill = cancel_on_kill
        self._request: LoadRequest | None = None

    @property
    def argument_for_month(self) -> str | None:
        """The argument that would give the task a month; see `MonthTask`."""
        return None if self.has_month else "month"

    def execute(self, context: Context) -> dict[str, Any]:
        """Calibrate."""
        return self.calibrated(context).as_json()

    def calibrated(self, context: Context) -> Calibration:
        """Calibrate, and return the result as an object; without a context the month must be given.

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
                budget_seconds=_seconds(self.budget_seconds),
                least_try_seconds=self.least_try_seconds,
            )
            self._request = request.load
            found = self._runner(listing).run(calibrate(request))
        self._request = None
        return found

    def on_kill(self) -> None:
        """End the trials on every node, and drop their tables."""
        from airflow_provider_chs3.core.calibration.run import stop_calibration

        self.is_ended = self.cancel_on_kill
        if self._request is None or not self.cancel_on_kill:
            return
        self.log.info("Ending the trials of this calibration, and dropping their tables.")
        self._runner(None, in_turns=True).run(stop_calibration(self._request))

    def _load_request(self, context: Context, listing: Listing) -> LoadRequest:
        from airflow_provider_chs3.core.request.load_request import LoadRequest, Policies
        from airflow_provider_chs3.core.tuning.resource_share import ShareOptions
        from airflow_provider_chs3.core.values.run_month import given_month
        from airflow_provider_chs3.operators._support.load_request import what_is_loaded

        return LoadRequest(
            **what_is_loaded(self, listing),
            month=given_month(self.month) if self.has_month else self.month_of_run(context),
            policies=Policies(distribution=self.distribution, on_no_objects="empty"),
            share=ShareOptions(memory_share=self.memory_share),
        )

    def _runner(self, listing: Listing | None, *, in_turns: bool = False) -> Runner:
        from airflow_provider_chs3.runners.blocking import Runner

        # What ends the trials comes after the task's time.
        hook = self.hook() if in_turns else self.hook_in_time()
        return Runner(hook=hook, listing=listing, log=self.log, progress_interval_seconds=10, in_turns=in_turns)


def _seconds(given: float | str) -> float:
    try:
        return float(given)
    except ValueError:
        raise ConfigurationError(f"budget_seconds={given!r}: give a number of seconds, such as 300.") from None
