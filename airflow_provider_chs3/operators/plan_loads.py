"""Find the periods to load, for loads that are mapped over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import conf

from airflow_provider_chs3.core.arguments.load_arguments import (
    LOOKBACK,
    OF_PLANS,
    PERIODS_PER_TASK,
    VIEWS,
    check_definition,
    templated,
)
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.hooks.airflow_errors import airflow_errors
from airflow_provider_chs3.operators._support.declared import takes
from airflow_provider_chs3.operators.period import PeriodOperator
from airflow_provider_chs3.plugin.constants import PLAN_KEY

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_chs3.client.listing import Listing
    from airflow_provider_chs3.core.load.reload import Reload
    from airflow_provider_chs3.core.model.models import TableName
    from airflow_provider_chs3.core.model.period import Grain, Period
    from airflow_provider_chs3.core.periods.plan import PlannedPeriod, PlanRequest, WantedPeriods
    from airflow_provider_chs3.core.steps.operations import Steps

#: A plan over a whole bucket reports only the newest periods to the page.
_MOST_SHOWN = 1_200


@takes(*OF_PLANS)
class PlanLoadsOperator(PeriodOperator):
    """Find the periods whose objects or partition changed since they were published.

    The operator lists the objects, queries ClickHouse once for all periods, and logs for each period why it will be
    loaded or not. Pass its output to `S3ToClickHouseOperator` with `.expand(period=plan.output)`.

    Without `periods`, `lookback` and `all_periods` it checks the periods of the run's partition key or data
    interval; `periods` override the others, and an empty value counts as not given. In a run that asks to reload
    periods (`core.load.reload`) it returns those periods, whatever its arguments.

    Returns:
        The periods to load, such as `2026-10`, in order; with `periods_per_task` a list of them for each group.

    Raises:
        AirflowFailException: If a task is mapped over more of them than Airflow allows (`[core] max_map_length`, 1,024
            by default).
    """

    loads_periods = True
    template_fields: Sequence[str] = (*PeriodOperator.template_fields, *templated(OF_PLANS))
    file_fields: ClassVar[Sequence[str]] = ("definition",)
    ui_color = "#e8f0d8"

    def __init__(
        self,
        *,
        periods: Sequence[str] | str | None = None,
        lookback: int | str | None = None,
        last_period: str | None = None,
        all_periods: bool = False,
        definition: Mapping[str, Any] | None = None,
        periods_per_task: int | None = None,
        create_table: str = "never",
        views: str = "warn",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.periods = periods
        self.lookback = lookback
        self.last_period = last_period
        self.all_periods = all_periods
        self.definition = definition
        self.periods_per_task = periods_per_task
        self.create_table = create_table
        self.views = views
        PERIODS_PER_TASK.checked(periods_per_task)
        if all_periods and lookback is not None:
            raise ConfigurationError("Give either all_periods or lookback.")
        check_definition(definition)

    @property
    def argument_for_period(self) -> str | None:
        """The argument that would give the task a period; see `PeriodTask`."""
        if self.periods or self.all_periods or self.last_period:
            return None
        return "periods" if self.lookback is None else "last_period"

    def planned(self, context: Context) -> list[PlannedPeriod]:
        """Return each period, compared with its published state."""
        from airflow_provider_chs3.client.runner import Runner
        from airflow_provider_chs3.core.periods.plan import plan_loads

        with airflow_errors(), closing(self.pooled_hook()) as hook:
            reload = self.reload_of_run(context)
            periods = reload.periods if reload else self._periods(context)
            listing = self.listing()
            runner = Runner(session=hook, listing=listing, log=self.log)
            planned = runner.run(plan_loads(self._request(periods, reload, listing)))
            if VIEWS.checked(self.views) == "follow" and (planned or reload):
                return runner.run(self._with_views(planned, reload, listing))
            return planned

    def _with_views(
        self, planned: Sequence[PlannedPeriod], reload: Reload | None, listing: Listing
    ) -> Steps[list[PlannedPeriod]]:
        """Return the plan with those periods to load, too, for which the table of a view is behind, or is reloaded."""
        from airflow_provider_chs3.core.load.load_request import LoadRequest
        from airflow_provider_chs3.core.periods.following import behind, find_views
        from airflow_provider_chs3.core.periods.plan import periods_of_other_table
        from airflow_provider_chs3.core.steps.operations import Log
        from airflow_provider_chs3.operators._support.load_request import what_is_loaded

        if not planned and reload:
            planned = yield from periods_of_other_table(self._request(reload.periods, reload, listing), reload)
        if not planned:
            return []
        loaded, periods = what_is_loaded(self, listing, self.definition or {}), [period.period for period in planned]
        request = LoadRequest(**loaded, period=periods[0], reload=reload, follows_views=True)
        views = yield from find_views(request, periods)
        reasons = behind(views, reload)
        periods_with_views = []
        for period in planned:
            if not period.is_to_load and period.period in reasons:
                yield from Log(name=f"{period.period} to load: {reasons[period.period]}.")
                period = replace(period, is_to_load=True, reason=reasons[period.period])
            periods_with_views.append(period)
        return periods_with_views

    def execute(self, context: Context) -> list[str] | list[list[str]]:
        """Compare, and return the periods to load."""
        planned = self.planned(context)
        if (ti := context.get("ti")) is not None and planned:
            ti.xcom_push(key=PLAN_KEY, value=self._found(planned))
        to_load = [str(period.period) for period in planned if period.is_to_load]
        self.log.info("%d of %d periods to load: %s", len(to_load), len(planned), ", ".join(to_load) or "none")
        if planned and not to_load and not any(period.objects.count for period in planned):
            # A look-back skips such periods, so that a wrong bucket or key would be green every night, without a word.
            self.log.warning(
                "None of these periods has objects: if you expect some, check where the task looks for them."
            )
        if not to_load:
            with airflow_errors():
                self.refuse_to_reload_nothing(context, "; ".join(map(str, planned)) or f"it plans {self._target()}")
        tasks: list[str] | list[list[str]] = to_load
        if self.periods_per_task is not None:
            tasks = self._groups(planned, most_periods=self.periods_per_task)
        with airflow_errors():
            self._check_number(tasks)
        return tasks

    def _check_number(self, tasks: Sequence[object]) -> None:
        """Check that Airflow maps over this many; otherwise it would fail on its own, and retry.

        Raises:
            ConfigurationError: If there are more. Some of them alone would leave periods out of a run that is green.
        """
        most = self._most_tasks
        if len(tasks) > most and self.has_dag() and any(self.iter_mapped_dependants()):
            raise ConfigurationError(
                f"The plan takes {len(tasks):,} tasks, and Airflow maps over at most {most:,}: raise [core] "
                "max_map_length, let more periods share a task, with periods_per_task=…, or plan fewer at a time, with "
                "periods=… or by a run that asks to reload some."
            )

    @property
    def _most_tasks(self) -> int:
        return int(conf.getint("core", "max_map_length", fallback=1_024))

    def _groups(self, planned: Sequence[PlannedPeriod], *, most_periods: int) -> list[list[str]]:
        from airflow_provider_chs3.core.periods.plan import group_periods

        groups_of_periods = group_periods(planned, most_periods=most_periods, most_groups=self._most_tasks)
        groups = [[str(period) for period in group] for group in groups_of_periods]
        self.log.info("Tasks to load them: %d", len(groups))
        return groups

    def _found(self, planned: Sequence[PlannedPeriod]) -> dict[str, Any]:
        """Return the plan for the periods page: per period, why its objects differ from those published, or None."""
        newest = sorted(planned, key=lambda period: period.period)[-_MOST_SHOWN:]
        target = planned[0].target
        return {
            "conn_id": self.clickhouse_conn_id,
            "database": target.database,
            "table": target.table,
            "periods": {
                str(period.period): {
                    "reason": ": ".join(filter(None, (period.reason, period.changes)))
                    if period.is_blocked
                    else period.changes or str(period),
                    "attempts": list(period.attempts),
                    "is_blocked": period.is_blocked,
                }
                if period.has_changed_objects
                else None
                for period in newest
            },
        }

    def _periods(self, context: Context) -> WantedPeriods:
        from airflow_provider_chs3.core.model.period import Period, parse_periods

        if self.periods:
            return parse_periods(self.periods)
        if self.all_periods:
            return lambda grain: grain
        if not self._is_looking_back:
            return partial(self.periods_of_run, context)
        if self.last_period:
            return self._back_from(Period.parse(self.last_period))
        return partial(self._back_from_run, context)

    def _back_from_run(self, context: Context, grain: Grain) -> tuple[Period, ...]:
        of_run = self.periods_of_run(context, grain)
        # All of them: with no look-back, the night into a new period would miss what came on the old one's last day.
        return tuple(sorted({*of_run, *self._back_from(of_run[-1])}))

    @property
    def _is_looking_back(self) -> bool:
        return self.lookback is not None and not self.periods

    def _back_from(self, last: Period) -> tuple[Period, ...]:
        count = LOOKBACK.checked(self.lookback) or 0
        try:
            return tuple(sorted({last.shifted(-back) for back in range(count + 1)}))
        except ConfigurationError as error:
            raise ConfigurationError(f"lookback={count} before {last} is too many: {error}") from error

    def _target(self) -> TableName:
        from airflow_provider_chs3.core.model.models import TableName

        return TableName.of(self.table, self.database, default_database=self.hook().options.database)

    def _request(self, periods: WantedPeriods, reload: Reload | None, listing: Listing) -> PlanRequest:
        from airflow_provider_chs3.core.periods.plan import PlanRequest
        from airflow_provider_chs3.operators._support.load_request import new_table_of, what_is_loaded

        loaded = what_is_loaded(self, listing, self.definition or {})
        table = {name: loaded[name] for name in ("target", "cluster", "default_cluster", "staging_database")}
        return PlanRequest(
            **table,
            source=loaded["source"],
            periods=periods,
            leave_out_empty=self._is_looking_back and not reload,
            reload=reload,
            new_table=new_table_of(self.create_table, loaded),
            **_compared(loaded, with_settings="settings" in self.definition) if self.definition is not None else {},
        )


def _compared(loaded: Mapping[str, Any], *, with_settings: bool) -> dict[str, Any]:
    """Return the arguments of `PlanRequest` for what a plan compares besides the objects."""
    from airflow_provider_chs3.core.load.load_request import definition_of, digest_of

    policies, files = loaded["policies"], {"file_format": loaded["format"], "compression": loaded["compression"]}
    return {
        "definition": digest_of(definition_of(loaded["selection"], policies, **files)),
        "policies": policies,
        "settings": loaded["settings"] if with_settings else None,
    }
