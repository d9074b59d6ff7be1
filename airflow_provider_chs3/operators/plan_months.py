"""Find the months whose load is due, for loads that are mapped over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.core.values.arguments import check_definition
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.hooks.airflow_errors import airflow_errors
from airflow_provider_chs3.operators.monthly import MonthlyOperator
from airflow_provider_chs3.plugin.constants import PLAN_KEY

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_chs3.core.months.plan import PlannedMonth, PlanRequest
    from airflow_provider_chs3.core.request.reload import Reload
    from airflow_provider_chs3.core.values.models import Month, SettingValue, SettingValues
    from airflow_provider_chs3.hooks.s3 import S3Listing

#: A plan over a whole bucket tells the page of the newest months.
_TOLD_MONTHS = 1_200


class PlanMonthsOperator(MonthlyOperator):
    """Find the months whose objects, or whose partition, are not as they were published.

    It lists the objects, asks ClickHouse once for all months, and logs each month with the reason why it is to be
    loaded or not. Its output is for `.expand(month=plan.output)` of `S3ToClickHouseOperator`.

    Besides the arguments of `MonthlyOperator` (table, objects, credentials) it takes these; without any of them it
    looks at the months of the run's partition key or data interval. In a run that is asked to reload months
    (`core.request.reload`) it gives these, whatever else it is told.

    Args:
        months: Months to look at, `YYYY-MM`, as a list or with commas between them. They go before the others; empty is
            as if not given.
        lookback_months: Look at the run's month, the last of its data interval, and so many before it. Of these, months
            that were never loaded and have no objects are left out.
        last_month: `YYYY-MM`, instead of the run's month, to look back from. Without it a run needs a data interval or
            a partition key.
        all_months: Look at all months that are in the bucket.
        definition: What the load is told to make of the objects: those of its arguments `columns`, `select`,
            `null_as_default`, `lossy_columns`, `naive_timestamps`, `csv`, `on_other_months`, `distribution`,
            `file_format`, `compression`, `settings` that are given, `{}` for none. A change of it, or of the table's
            columns, is a reason to load; settings are compared where they are in it. Default: none of that is compared
            here, only by the load.

    Returns:
        The months to load, `YYYY-MM`, in their order.
    """

    template_fields: Sequence[str] = (
        *MonthlyOperator.template_fields,
        "months",
        "lookback_months",
        "last_month",
        "definition",
    )
    ui_color = "#e8f0d8"

    def __init__(
        self,
        *,
        months: Sequence[str] | str | None = None,
        lookback_months: int | str | None = None,
        last_month: str | None = None,
        all_months: bool = False,
        definition: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.months = months
        self.lookback_months = lookback_months
        self.last_month = last_month
        self.all_months = all_months
        self.definition = definition
        if all_months and lookback_months is not None:
            raise ConfigurationError("all_months and lookback_months exclude each other: give one of them.")
        check_definition(definition or {})

    def planned(self, context: Context) -> list[PlannedMonth]:
        """Compare."""
        from airflow_provider_chs3.core.months.plan import plan_months
        from airflow_provider_chs3.runners.blocking import Runner

        with airflow_errors(), closing(self.pooled_hook()) as hook:
            reload = self.reload_of_run(context)
            months = reload.months if reload else self._months(context)
            listing = self.listing()
            # It asks little and inserts nothing: there is no progress to tell.
            runner = Runner(hook=hook, listing=listing, log=self.log, progress_interval_seconds=10)
            return runner.run(plan_months(self._request(months, reload, listing)))

    def execute(self, context: Context) -> list[str]:
        """Compare, and give the months to load."""
        planned = self.planned(context)
        if (ti := context.get("ti")) is not None and planned:
            ti.xcom_push(key=PLAN_KEY, value=self._found(planned))
        to_load = [str(each.month) for each in planned if each.is_to_load]
        self.log.info("%d of %d months to load: %s", len(to_load), len(planned), ", ".join(to_load) or "none")
        return to_load

    def _found(self, planned: Sequence[PlannedMonth]) -> dict[str, Any]:
        """What the months page shows of it: of each month why its objects are others than those published, or None."""
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
            last = Month.parse(self.last_month) if self.last_month else self.months_of_run(context)[-1]
            return tuple(last.shifted(-back) for back in range(self._lookback(), -1, -1))
        return self.months_of_run(context)

    @property
    def _is_looking_back(self) -> bool:
        return self.lookback_months is not None and not self.months

    def _lookback(self) -> int:
        try:
            count = int(self.lookback_months or 0)
        except ValueError:
            count = -1
        if count < 0:
            raise ConfigurationError(f"lookback_months={self.lookback_months!r}: give a number of months, 0 or more.")
        return count

    def _request(self, months: tuple[Month, ...] | None, reload: Reload | None, listing: S3Listing) -> PlanRequest:
        from airflow_provider_chs3.core.months.plan import PlanRequest
        from airflow_provider_chs3.core.values.models import TableName

        options = self.hook().options
        return PlanRequest(
            source=self.source(listing),
            target=TableName(self.database or options.database, self.table),
            cluster=self.cluster or None,
            default_cluster=options.cluster,
            staging_database=self.staging_database,
            months=months,
            leave_out_empty=self._is_looking_back and not reload,
            reload=reload,
            **_compared(options.settings, **(self.definition or {})) if self.definition is not None else {},
        )


def _compared(
    of_connection: SettingValues,
    *,
    settings: Mapping[str, SettingValue] | None = None,
    on_other_months: str = "fail",
    distribution: str = "where_read",
    file_format: str | None = None,
    compression: str | None = None,
    **selected: Any,
) -> dict[str, Any]:
    """What a plan compares beside the objects: the arguments of `PlanRequest` that tell it."""
    from airflow_provider_chs3.core.files.loaded_columns import selection_of
    from airflow_provider_chs3.core.request.load_request import definition_of
    from airflow_provider_chs3.core.source.formats import format_named
    from airflow_provider_chs3.core.tuning.insert_settings import tunable
    from airflow_provider_chs3.hooks.connection import check_settings

    selection = selection_of(**selected)
    definition = definition_of(
        selection,
        on_other_months=on_other_months,
        distribution=distribution,
        file_format=format_named(file_format) if file_format else None,
        compression=compression or "auto",
    )
    own = None if settings is None else {**tunable(of_connection), **check_settings(settings, where="settings")}
    return {"definition": definition, "distribution": distribution, "settings": own}
