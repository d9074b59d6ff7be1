"""The arguments of tasks that load files, as far as several modules read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.core.arguments.arrivals import is_by_arrival
from airflow_provider_chs3.core.arguments.load_arguments import OF_LOADS, check_groups
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.operators._support.period_task import PeriodTask

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context


class LoadTask(PeriodTask, takes=OF_LOADS):
    """Load a period, or several."""

    period: str | None
    periods: Sequence[str] | str | None
    create_table: str
    views: str
    checks: Mapping[str, Any] | None
    parallel_loads: int | None
    progress_interval_seconds: float
    deferrable: bool
    durable: bool
    wait_for_merges: bool
    merge_health: Mapping[str, Any] | None
    settings: Mapping[str, Any] | None
    policies: Mapping[str, Any] | None
    tuning: Mapping[str, Any] | None
    cancel_on_kill: bool

    def _arguments_taken(self) -> None:
        self.has_period, self.has_periods = self.period is not None, self.periods is not None
        if self.has_period and self.has_periods:
            raise ConfigurationError(f"period={self.period!r}, periods={self.periods!r}: set one of the two.")
        check_groups(vars(self))

    @property
    def argument_for_period(self) -> str | None:
        """The argument that would set the task's period; see `PeriodTask`."""
        return None if self.has_period or self.has_periods else "period"

    @property
    def detaches_inserts(self) -> bool:
        """Return whether inserts continue without their worker."""
        # The insert of an arrival is one of several steps that only its own process knows.
        return (self.deferrable or self.durable) and not is_by_arrival(self.policies)

    def done(
        self, context: Context, results: Sequence[dict[str, object]], merges: Any = None, *, since: float | None = None
    ) -> Any:
        """End with results and the verdicts on their merges; `since` is the start of the wait for them."""
        raise NotImplementedError
