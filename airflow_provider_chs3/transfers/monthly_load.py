"""A task group for a nightly DAG: plan → load, wait for merges and emit events, month by month → end."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from airflow.providers.common.compat.sdk import Asset, TaskGroup, TriggerRule, task_group
from airflow.providers.standard.operators.empty import EmptyOperator

from airflow_provider_chs3.core.values.load_arguments import PLANNED
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.operators._support.month_task import MonthTask
from airflow_provider_chs3.operators._support.tasks import LoadTask
from airflow_provider_chs3.operators.emit_month import EmitMonthOperator
from airflow_provider_chs3.operators.monthly import MonthlyOperator
from airflow_provider_chs3.operators.plan_months import PlanMonthsOperator
from airflow_provider_chs3.sensors.merge_health import ClickHouseMergeHealthSensor
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator


def _arguments_of(*operators: type) -> frozenset[str]:
    found = (name for each in operators for name in inspect.signature(each).parameters)
    return frozenset(found) - {"kwargs"}


_SHARED = _arguments_of(MonthTask, MonthlyOperator)
_OF_THE_SENSOR = (_SHARED | {"deferrable"}) & _arguments_of(ClickHouseMergeHealthSensor)

#: What came of it, once the load has ended.
_OUTCOME = "{{ ': ' ~ outcome if outcome is defined else '' }}"
#: Airflow 3.2 and later know the months before the task runs; in older versions the task sets it. Airflow keeps 250
#: characters of it, which are fewer than 60 months take. No `default`: it would look at months that 3.1 has not
#: rendered.
_LABEL = "{{ month if month is defined else task.months[0] ~ (' …' if task.months | length > 1 else '') }}" + _OUTCOME
#: Arguments with these values take a load for each month.
_ONE_BY_ONE: Mapping[str, Any] = {
    "deferrable": True,
    "casts": {"null_as_default": True},
    "policies": {"on_other_months": "leave_out"},
}


def monthly_load(
    *,
    group_id: str = "monthly_load",
    months: Sequence[str] | str | None = None,
    lookback_months: int | str | None = None,
    last_month: str | None = None,
    all_months: bool = False,
    parallel_months: int = 2,
    months_per_task: int = 60,
    merge_health: Mapping[str, Any] | None = None,
    outlets: Sequence[Asset] = (),
    default_args: Mapping[str, Any] | None = None,
    **load_arguments: Any,
) -> TaskGroup:
    """Load the months that changed since they were published, and wait until their merges have settled.

    The group is plan → (load → merges, mapped over the months) → end. Tasks after the group run when all months are
    loaded and healthy, and also when there is nothing to load. A month that fails does not stop the others, but `end`,
    and so the run, fails. Small months share a task and an insert, unless they have `outlets`, are deferrable, or take
    an argument that needs a load for each month.

    With `outlets`, each month has a third task, `emit`, after its merges. It emits the assets' event, with the month as
    its partition key if Airflow supports that; it is skipped if the load changed nothing.

    Args:
        group_id: Id of the group. Default: `monthly_load`.
        months: Like the next three, as in `PlanMonthsOperator`. Default of all four: the run's own month.
        lookback_months: Load the run's months, those of its data interval, and this many before the last of them.
        last_month: The month to look back from, instead of the run's.
        all_months: Load all months in the bucket. Default: False.
        parallel_months: Number of months that load at the same time in one run; it limits the tasks and sets each
            load's resource share. Default: 2, the fastest in measurements: one month is read while another is sorted
            and written.
        months_per_task: How many months may share a task, if they are small; 1 gives each its own task. Default: 60.
        merge_health: Further arguments of `ClickHouseMergeHealthSensor`, such as `on_stuck` or `timeout`.
        outlets: Assets that get an event for each published and settled month. Default: none.
        default_args: Arguments of all tasks in the group, such as `retries`. Default: none.
        **load_arguments: Arguments of `S3ToClickHouseOperator`, except `task_id`, `month` and `months`. `deferrable`
            applies to the sensor, too; `objects` loads from a storage other than S3.

    Returns:
        The group; use `>>` to set the tasks before and after it.

    Raises:
        ConfigurationError: If `write_mode` is `append`: it publishes nothing that a plan could compare with.
    """
    _refuse_append(load_arguments)
    load_arguments["parallel_months"] = parallel_months
    shared = {name: value for name, value in load_arguments.items() if name in _SHARED}
    of_the_sensor = {name: value for name, value in load_arguments.items() if name in _OF_THE_SENSOR}
    of_the_sensor = {"mode": "reschedule", **of_the_sensor, **(merge_health or {})}
    with TaskGroup(group_id=group_id, default_args=dict(default_args or {})) as group:  # type: ignore[arg-type]
        plan = PlanMonthsOperator(
            task_id="plan",
            months=months,
            lookback_months=lookback_months,
            last_month=last_month,
            all_months=all_months,
            definition=_compared(load_arguments),
            months_per_task=months_per_task if not outlets and _can_be_grouped(load_arguments) else 1,
            create_table=load_arguments.get("create_table", "never"),
            **shared,
        )

        loads = _loads(plan, load_arguments, of_the_sensor, outlets)
        # An empty plan skips the months, but must not skip the tasks that follow; a failed month must.
        end = EmptyOperator(task_id="end", trigger_rule=TriggerRule.NONE_FAILED)
        loads >> end
    return group


def _loads(
    plan: PlanMonthsOperator,
    load_arguments: Mapping[str, Any],
    of_the_sensor: Mapping[str, Any],
    outlets: Sequence[Asset],
) -> Any:
    @task_group(group_id="month")
    def load_each(months: Sequence[str]) -> None:
        load = S3ToClickHouseOperator(
            task_id="load",
            months=months,
            max_active_tis_per_dagrun=load_arguments["parallel_months"],
            map_index_template=_LABEL,
            **load_arguments,
        )
        merges = ClickHouseMergeHealthSensor(
            task_id="merges", months=months, map_index_template=_LABEL, **of_the_sensor
        )
        load >> merges
        if outlets:
            label = "{{ month }}" + _OUTCOME
            merges >> EmitMonthOperator(
                task_id="emit", result=load.output, outlets=list(outlets), map_index_template=label
            )

    return load_each.expand(months=plan.output)


def _can_be_grouped(load_arguments: Mapping[str, Any]) -> bool:
    defaults = inspect.signature(LoadTask.__init__).parameters

    def has(name: str, value: Any) -> bool:
        if isinstance(value, Mapping):
            group = load_arguments.get(name)
            return isinstance(group, Mapping) and value.items() <= group.items()
        return bool(load_arguments.get(name, defaults[name].default) == value)

    return not any(has(name, value) for name, value in _ONE_BY_ONE.items())


def _compared(load_arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that the plan compares besides the objects; settings also if the load has none now."""
    given = {name: value for name, value in load_arguments.items() if name in PLANNED}
    return {**given, "settings": load_arguments.get("settings") or {}}


def _refuse_append(load_arguments: Mapping[str, Any]) -> None:
    if load_arguments.get("write_mode", "replace") == "append":
        raise ConfigurationError(
            "monthly_load loads months that changed since publishing, and write_mode='append' publishes nothing, so "
            "each run would append the same rows again: leave write_mode out, or map S3ToClickHouseOperator over "
            "months."
        )
