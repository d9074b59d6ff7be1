"""One call for a nightly DAG: plan → load, wait for merges and tell of it, month by month → end."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from airflow.providers.common.compat.sdk import Asset, TaskGroup, TriggerRule, task_group
from airflow.providers.standard.operators.empty import EmptyOperator

from airflow_provider_chs3.core.values.arguments import DEFINING
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.operators.assets import EmitMonthOperator
from airflow_provider_chs3.operators.monthly import MonthlyOperator
from airflow_provider_chs3.operators.plan_months import PlanMonthsOperator
from airflow_provider_chs3.operators.s3_to_clickhouse import S3ToClickHouseOperator
from airflow_provider_chs3.sensors.merge_health import ClickHouseMergeHealthSensor

_SHARED = frozenset(inspect.signature(MonthlyOperator.__init__).parameters) - {"self", "kwargs"}
_OF_THE_SENSOR = (_SHARED | {"deferrable"}) & set(inspect.signature(ClickHouseMergeHealthSensor.__init__).parameters)

#: Known before the task runs where Airflow has rendered the task by then (3.2), else when the task tells it.
_LABEL = "{{ month | default(task.month) }}"


def monthly_load(
    *,
    group_id: str = "monthly_load",
    months: Sequence[str] | str | None = None,
    lookback_months: int | str | None = None,
    last_month: str | None = None,
    all_months: bool = False,
    parallel_months: int = 2,
    merge_health: Mapping[str, Any] | None = None,
    outlets: Sequence[Asset] = (),
    default_args: Mapping[str, Any] | None = None,
    **load_arguments: Any,
) -> TaskGroup:
    """Load the months that are not as published, and wait until their merges have settled.

    The group is plan → (load → merges, mapped over the months) → end. What follows the group runs when all months are
    there and healthy, and in a night with nothing to load too. A month that fails does not hold back the others, but
    the end, and so the run, fails.

    With `outlets`, each month has a third task, `emit`, after its merges: it emits the event of the assets, with the
    month as its partition key where Airflow has that, or is skipped if the load changed nothing after all.

    Args:
        group_id: Id of the group. Default: `monthly_load`.
        months: See `PlanMonthsOperator`, as for the next three; without any of them it is about the run's own month.
        lookback_months: The run's month, and so many before it.
        last_month: The month to look back from, instead of the run's.
        all_months: All months in the bucket.
        parallel_months: Months that load side by side, in one run: it limits the tasks, and sets each load's share of
            the nodes. Default: 2, which was seen to be the fastest: while one is read, the other is sorted and written.
        merge_health: Further arguments of `ClickHouseMergeHealthSensor`, such as `on_stuck` or `timeout`.
        outlets: Assets that get an event for each month that was published and has settled. Default: none.
        default_args: What all tasks of the group get, such as `retries`.
        **load_arguments: Those of `S3ToClickHouseOperator`, but not `task_id` and `month`. With `deferrable` the sensor
            is deferred, too.

    Returns:
        The group; `>>` sets what comes before and after it.

    Raises:
        ConfigurationError: If rows would be appended: a plan compares with what was published, and nothing is then.
    """
    _refuse_append(load_arguments)
    load_arguments["parallel_months"] = parallel_months
    shared = {name: value for name, value in load_arguments.items() if name in _SHARED}
    of_the_sensor = {name: value for name, value in load_arguments.items() if name in _OF_THE_SENSOR}
    with TaskGroup(group_id=group_id, default_args=dict(default_args or {})) as group:  # type: ignore[arg-type]
        plan = PlanMonthsOperator(
            task_id="plan",
            months=months,
            lookback_months=lookback_months,
            last_month=last_month,
            all_months=all_months,
            definition=_compared(load_arguments),
            **shared,
        )

        @task_group(group_id="month")
        def load_one(month: str) -> None:
            load = S3ToClickHouseOperator(
                task_id="load",
                month=month,
                max_active_tis_per_dagrun=parallel_months,
                map_index_template=_LABEL,
                **load_arguments,
            )
            merges = ClickHouseMergeHealthSensor(
                task_id="merges",
                month=month,
                map_index_template=_LABEL,
                **{"mode": "reschedule", **of_the_sensor, **(merge_health or {})},
            )
            load >> merges
            if outlets:
                merges >> _emit(load, outlets)

        # An empty plan skips the months, which is no reason to skip what follows; a failed month is.
        end = EmptyOperator(task_id="end", trigger_rule=TriggerRule.NONE_FAILED)
        load_one.expand(month=plan.output) >> end
    return group


def _emit(load: S3ToClickHouseOperator, outlets: Sequence[Asset]) -> EmitMonthOperator:
    return EmitMonthOperator(
        task_id="emit", result=load.output, outlets=list(outlets), map_index_template="{{ month }}"
    )


def _compared(load_arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What the plan compares beside the objects. Settings are compared also where the load has none any more."""
    given = {name: value for name, value in load_arguments.items() if name in DEFINING}
    return {"settings": load_arguments.get("settings") or {}, **given}


def _refuse_append(load_arguments: Mapping[str, Any]) -> None:
    if load_arguments.get("write_mode", "replace") == "append":
        raise ConfigurationError(
            "monthly_load loads what is not as published, and write_mode='append' publishes nothing, so that each run "
            "would append the same rows again: leave write_mode out, or map S3ToClickHouseOperator over months."
        )
