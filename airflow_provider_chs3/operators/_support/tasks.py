"""The arguments of tasks that load files, as far as several modules read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import conf

from airflow_provider_chs3.core.arguments.load_arguments import OF_LOADS, OF_READING, check_groups, templated
from airflow_provider_chs3.defaults import PROGRESS_INTERVAL_SECONDS
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.operators._support.declared import takes
from airflow_provider_chs3.operators._support.period_task import PeriodTask

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context


@takes(*OF_READING)
class ReadsFiles(PeriodTask):
    """Read the files of a period."""

    template_fields: Sequence[str] = (*PeriodTask.template_fields, *templated(OF_READING))
    #: Arguments that may be files of the DAG folder.
    file_fields: ClassVar[Sequence[str]] = ("select", "csv", "settings", "files", "casts", "tuning")
    template_fields_renderers: ClassVar[dict[str, str]] = dict.fromkeys(file_fields, "json")

    def __init__(
        self,
        *,
        period: str | None = None,
        columns: Sequence[str] | None = None,
        select: Mapping[str, str] | str | None = None,
        csv: Mapping[str, Any] | str | None = None,
        files: Mapping[str, Any] | str | None = None,
        casts: Mapping[str, Any] | str | None = None,
        distribution: str = "where_read",
        settings: Mapping[str, str | int] | str | None = None,
        tuning: Mapping[str, Any] | str | None = None,
        cancel_on_kill: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.period = period
        self.has_period = period is not None
        self.columns = columns
        # Objects, once the files are read that they may name.
        self.select: Any = select
        self.csv: Any = csv
        self.files: Any = files
        self.casts: Any = casts
        self.distribution = distribution
        self.settings: Any = settings
        self.tuning: Any = tuning
        self.cancel_on_kill = cancel_on_kill
        check_groups({"files": files, "casts": casts, "tuning": tuning})

    @property
    def argument_for_period(self) -> str | None:
        """The argument that would give the task a period; see `PeriodTask`."""
        return None if self.has_period else "period"


@takes(*OF_LOADS)
class LoadTask(ReadsFiles):
    """Load a period, or several."""

    template_fields: Sequence[str] = (*ReadsFiles.template_fields, *templated(OF_LOADS))
    file_fields: ClassVar[Sequence[str]] = (*ReadsFiles.file_fields, "policies", "checks", "increments")
    template_fields_renderers: ClassVar[dict[str, str]] = dict.fromkeys(file_fields, "json")

    def __init__(
        self,
        *,
        periods: Sequence[str] | str | None = None,
        create_table: str = "never",
        views: str = "warn",
        policies: Mapping[str, Any] | str | None = None,
        checks: Mapping[str, Any] | str | None = None,
        increments: Mapping[str, Any] | str | None = None,
        parallel_loads: int | None = None,
        progress_interval_seconds: float = PROGRESS_INTERVAL_SECONDS,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        durable: bool = False,
        wait_for_merges: bool = False,
        merge_health: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if self.has_period and periods is not None:
            raise ConfigurationError(f"period={self.period!r}, periods={periods!r}: give one of the two.")
        self.periods = periods
        self.has_periods = periods is not None
        self.create_table = create_table
        self.views = views
        self.policies: Any = policies
        self.checks: Any = checks
        self.increments: Any = increments
        self.parallel_loads = parallel_loads
        self.progress_interval_seconds = progress_interval_seconds
        self.deferrable = deferrable
        self.durable = durable
        self.wait_for_merges = wait_for_merges
        self.merge_health = merge_health
        check_groups({"policies": policies, "checks": checks, "increments": increments})

    @property
    def argument_for_period(self) -> str | None:
        """The argument that would give the task a period; see `PeriodTask`."""
        return None if self.has_periods else super().argument_for_period

    @property
    def detaches_inserts(self) -> bool:
        """Return whether inserts continue without their worker."""
        return self.deferrable or self.durable

    def done(
        self, context: Context, results: Sequence[dict[str, object]], merges: Any = None, *, since: float | None = None
    ) -> Any:
        """End with results and the verdicts on their merges; `since` is the start of the wait for them."""
        raise NotImplementedError
