"""Find the months to load, for loads that are mapped over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import conf

from airflow_provider_chs3.core.values.load_arguments import (
    LOOKBACK_MONTHS,
    MONTHS_PER_TASK,
    OF_PLANS,
    check_definition,
    templated,
)
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.hooks.airflow_errors import airflow_errors
from airflow_provider_chs3.operators._support.declared import takes
from airflow_provider_chs3.operators.monthly import MonthlyOperator
from airflow_provider_chs3.plugin.constants import PLAN_KEY

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_chs3.core.months.plan import PlannedMonth, PlanRequest
    from airflow_provider_chs3.core.request.reload import Reload
    from airflow_provider_chs3.core.values.models import Month, TableName
    from airflow_provider_chs3.sources.listing import Listing

#: A plan over a whole bucket reports only the newest months to the page.
_TOLD_MONTHS = 1_200


@takes(*OF_PLANS)
class PlanMonthsOperator(MonthlyOperator):
    """Find the months whose objects or partition changed since they were published.

    The operator lists the objects, queries ClickHouse once for all months, and logs for each month why it will be
    loaded or not. Pass its output to `S3ToClickHouseOperator` with `.expand(month=plan.output)`.

    Without `months`, `lookback_months` and `all_months` it checks the months of the run's partition key or data
    interval; `months` override the others, and an empty value counts as not given. In a run that asks to reload months
    (`core.request.reload`) it returns those months, whatever its arguments.

    Returns:
        The months to load, `YYYY-MM`, in order; with `months_per_task` a list of them for each group.

    Raises:
        AirflowFailException: If a task is mapped over more of them than Airflow allows (`[core] max_map_length`, 1,024
            by default).
    """

    loads_months = True
    template_fields: Sequence[str] = (*MonthlyOperator.template_fields, *templated(OF_PLANS))
    file_fields: ClassVar[Sequence[str]] = ("definition",)
    ui_color = "#e8f0d8"

    def __init__(
        self,
        *,
        months: Sequence[str] | str | None = None,
        lookback_months: int | str | None = None,
        last_month: str | None = None,
        all_months: bool = False,
        definition: Mapping[str, Any] | None = None,
        months_per_task: int | None = None,
        create_table: str = "never",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.months = months
        self.lookback_months = lookback_months
        self.last_month = last_month
        self.all_months = all_months
        self.definition = definition
        self.months_per_task = months_per_task
        self.create_table = create_table
        MONTHS_PER_TASK.checked(months_per_task)
        if all_months and lookback_months is not None:
            raise ConfigurationError("Give either all_months or lookback_months.")
        check_definition(definition)

    @property
    def argument_for_month(self) -> str | None:
        """The argument that would give the task a month; see `MonthTask`."""
        if self.months or self.all_months or self.last_month:
            return None
        return "months" if self.lookback_months is None else "last_month"

    def planned(self, context: Context) -> list[PlannedMonth]:
        """Return each month, compared with its published state."""
        from airflow_provider_chs3.core.months.plan import plan_months
        from airflow_provider_chs3.runners.blocking import Runner

        with airflow_errors(), closing(self.pooled_hook()) as hook:
            reload = self.reload_of_run(context)
            months = reload.months if reload else self._months(context)
            listing = self.listing()
            # It runs few queries and no inserts: there is no progress to log.
            runner = Runner(hook=hook, listing=listing, log=self.log, progress_interval_seconds=10)
            return runner.run(plan_months(self._request(months, reload, listing)))

    def execute(self, context: Context) -> list[str] | list[list[str]]:
        """Compare, and return the months to load."""
        planned = self.planned(context)
        if (ti := context.get("ti")) is not None and planned:
            ti.xcom_push(key=PLAN_KEY, value=self._found(planned))
        to_load = [str(each.month) for each in planned if each.is_to_load]
        self.log.info("%d of %d months to load: %s", len(to_load), len(planned), ", ".join(to_load) or "none")
        if planned and not to_load and not any(each.objects.count for each in planned):
            # A look-back skips such months, so that a wrong bucket or key would be green every night, without a word.
            self.log.warning(
                "None of these months has objects: if you expect some, check where the task looks for them."
            )
        if not to_load:
            with airflow_errors():
                self.refuse_to_reload_nothing(context, "; ".join(map(str, planned)) or f"it plans {self._target()}")
        tasks: list[str] | list[list[str]] = to_load
        if self.months_per_task is not None:
            tasks = self._groups(planned, most_months=self.months_per_task)
        with airflow_errors():
            self._check_number(tasks)
        return tasks

    def _check_number(self, tasks: Sequence[object]) -> None:
        """Check that Airflow maps over this many; otherwise it would fail on its own, and retry.

        Raises:
            ConfigurationError: If there are more. Some of them alone would leave months out of a run that is green.
        """
        most = conf.getint("core", "max_map_length", fallback=1_024)
        if len(tasks) > most and self.has_dag() and any(self.iter_mapped_dependants()):
            raise ConfigurationError(
                f"The plan takes {len(tasks):,} tasks, and Airflow maps over at most {most:,}: raise [core] "
                "max_map_length, or plan fewer months at a time, with months=… or by a run that asks to reload some. "
                "Small months share a task in monthly_load, unless it is deferrable or has outlets."
            )

    def _groups(self, planned: Sequence[PlannedMonth], *, most_months: int) -> list[list[str]]:
        from airflow_provider_chs3.core.months.grouping import group_months

        groups = [[str(month) for month in group] for group in group_months(planned, most_months=most_months)]
        self.log.info("Tasks to load them: %d", len(groups))
        return groups

    def _found(self, planned: Sequence[PlannedMonth]) -> dict[str, Any]:
        """Return the plan for the months page: per month, why its objects differ from those published, or None."""
        newest = sorted(planned, key=lambda each: each.month)[-_TOLD_MONTHS:]
        target = planned[0].target
        return {
            "conn_id": self.clickhouse_conn_id,
            "database": target.database,
            "table": target.table,
            "months": {
                str(each.month): {"reason": str(each), "attempts": list(each.attempts)}
                if each.has_changed_objects
                else None
                for each in newest
            },
        }

    def _months(self, context: Context) -> tuple[Month, ...] | None:
        from airflow_provider_chs3.core.values.models import Month
        from airflow_provider_chs3.core.values.run_month import parse_months

        if self.months:
            return parse_months(self.months)
        if self.all_months:
            return None
        if self._is_looking_back:
            of_run = (Month.parse(self.last_month),) if self.last_month else self.months_of_run(context)
            # All of them: with no look-back, the night into a new month would miss what came on the old one's last day.
            return tuple(sorted({*of_run, *self._back_from(of_run[-1])}))
        return self.months_of_run(context)

    @property
    def _is_looking_back(self) -> bool:
        return self.lookback_months is not None and not self.months

    def _back_from(self, last: Month) -> tuple[Month, ...]:
        count = LOOKBACK_MONTHS.checked(self.lookback_months) or 0
        try:
            return tuple(last.shifted(-back) for back in range(count, -1, -1))
        except ConfigurationError as error:
            raise ConfigurationError(f"lookback_months={count} before {last} are too many: {error}") from error

    def _target(self) -> TableName:
        from airflow_provider_chs3.core.values.models import TableName

        return TableName.of(self.table, self.database, default_database=self.hook().options.database)

    def _request(self, months: tuple[Month, ...] | None, reload: Reload | None, listing: Listing) -> PlanRequest:
        from airflow_provider_chs3.core.months.plan import PlanRequest
        from airflow_provider_chs3.operators._support.load_request import what_is_loaded
        from airflow_provider_chs3.operators._support.new_table import new_table_of

        loaded = what_is_loaded(self, listing, self.definition or {})
        table = {name: loaded[name] for name in ("target", "cluster", "default_cluster", "staging_database")}
        return PlanRequest(
            **table,
            source=loaded["source"],
            months=months,
            leave_out_empty=self._is_looking_back and not reload,
            reload=reload,
            new_table=new_table_of(self.create_table, loaded, cluster=table["cluster"] or table["default_cluster"]),
            **_compared(loaded, with_settings="settings" in self.definition) if self.definition is not None else {},
        )


def _compared(loaded: Mapping[str, Any], *, with_settings: bool) -> dict[str, Any]:
    """Return the arguments of `PlanRequest` for what a plan compares besides the objects."""
    from airflow_provider_chs3.core.request.load_request import definition_of

    policies = loaded["policies"]
    return {
        "definition": definition_of(
            loaded["selection"],
            on_other_months=policies.on_other_months,
            distribution=policies.distribution,
            file_format=loaded["format"],
            compression=loaded["compression"],
        ),
        "policies": policies,
        "settings": loaded["settings"] if with_settings else None,
    }
