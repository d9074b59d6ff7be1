"""Find the periods to load, for loads that are mapped over them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import conf

from airflow_provider_chs3.core.arguments.load_arguments import LOOKBACK, OF_PLANS, PERIODS_PER_TASK, check_groups
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.hooks.metrics import gauge_freshness
from airflow_provider_chs3.hooks.running_task import airflow_errors
from airflow_provider_chs3.operators.period import PeriodOperator
from airflow_provider_chs3.plugin.constants import PLAN_KEY

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_chs3.core.model.period import Grain, Period
    from airflow_provider_chs3.core.periods.plan import PlannedPeriod, WantedPeriods

#: A plan over a whole bucket reports only the newest periods to the page.
_MOST_SHOWN = 1_200


class PlanLoadsOperator(PeriodOperator, takes=OF_PLANS):
    """Find the periods whose objects or partition changed since they were published.

    The operator lists the objects, queries ClickHouse once for all periods, and logs for each period why it will be
    loaded or not. Pass its output to `S3ToClickHouseOperator` with `.expand(period=plan.output)`.

    Without `periods`, `lookback` and `all_periods` it checks the periods of the run's partition key or data
    interval; `periods` override the others, and an empty value counts as not given. In a run that asks to reload
    periods (`core.load.retry_policy`) it returns those periods, whatever its arguments.

    Returns:
        The periods to load, such as `2026-10`, in order; with `periods_per_task` a list of them for each group.

    Raises:
        AirflowFailException: If a task is mapped over more of them than Airflow allows (`[core] max_map_length`, 1,024
            by default).
    """

    loads_periods = True
    ui_color = "#e8f0d8"
    periods: Sequence[str] | str | None
    lookback: int | str | None
    last_period: str | None
    all_periods: bool
    periods_per_task: int | None
    create_table: str
    views: str

    def _arguments_taken(self) -> None:
        PERIODS_PER_TASK.checked(self.periods_per_task)
        if self.all_periods and self.lookback is not None:
            raise ConfigurationError("Set either all_periods or lookback.")
        check_groups(vars(self))

    @property
    def argument_for_period(self) -> str | None:
        """The argument that would set the task's period; see `PeriodTask`."""
        if self.periods or self.all_periods or self.last_period:
            return None
        return "periods" if self.lookback is None else "last_period"

    def planned(self, context: Context) -> list[PlannedPeriod]:
        """Return each period, compared with its published state."""
        with airflow_errors(), closing(self.pooled_hook()) as hook:
            reload = self.reload_of_run(context)
            return self.on_connection(hook).plan(
                self.as_load(),
                reload.periods if reload else self._periods(context),
                compares_definition=self.is_compared,
                leave_out_empty=self._is_looking_back and not reload,
                reload=reload,
                # Of all periods, the newest has all columns of a table to create.
                writes=True,
            )

    def execute(self, context: Context) -> list[str] | list[list[str]]:
        """Compare, and return the periods to load."""
        planned = self.planned(context)
        if (ti := context.get("ti")) is not None and planned:
            ti.xcom_push(key=PLAN_KEY, value=self._found(planned))
        gauge_freshness(self, self.as_load().due, [period.period for period in planned if period.is_as_published])
        to_load = [str(period.period) for period in planned if period.is_to_load]
        self.log.info("%d of %d periods to load: %s", len(to_load), len(planned), ", ".join(to_load) or "none")
        if planned and not to_load and not any(period.objects.count for period in planned):
            # A look-back skips such periods, so that a wrong bucket or key would be green every night, without a word.
            self.log.warning(
                "None of these periods has objects: if you expect some, check where the task looks for them."
            )
        if not to_load:
            with airflow_errors():
                self.refuse_to_reload_nothing(
                    context, "; ".join(map(str, planned)) or f"it plans {self.on_connection().name}"
                )
        tasks: list[str] | list[list[str]] = to_load
        if self.periods_per_task is not None:
            tasks = self._groups(planned, most_periods=self.periods_per_task)
        with airflow_errors():
            self._check_number(tasks)
        return tasks

    def _check_number(self, tasks: Sequence[object]) -> None:
        """Check that Airflow maps over this many; otherwise it would fail on its own, and retry."""
        most = self._most_tasks
        # Some of them alone would leave periods out of a run that is green.
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
