"""A task group for a nightly DAG: plan → load, wait for merges and emit events, period by period → end."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any

from airflow.providers.common.compat.sdk import Asset, BaseOperator, TaskGroup, TriggerRule, task_group
from airflow.providers.standard.operators.empty import EmptyOperator

from airflow_provider_chs3.core.arguments.declaration import declared
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.load import Load
from airflow_provider_chs3.operators._support.declared import said_twice
from airflow_provider_chs3.operators.emit_period import EmitPeriodOperator
from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator
from airflow_provider_chs3.sensors.merge_health import ClickHouseMergeHealthSensor
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator


@cache
def _arguments_of_loads() -> frozenset[str]:
    names = (name for taking in (S3ToClickHouseOperator, BaseOperator) for name in inspect.signature(taking).parameters)
    return frozenset(names) - {"kwargs", "task_id"}


#: The outcome, once the load has ended.
_OUTCOME = "{{ ': ' ~ outcome if outcome is defined else '' }}"
_CHANGED = "{{ period }}" + _OUTCOME
#: Airflow 3.2 and later know the periods before the task runs; in older versions the task sets it. Airflow keeps 250
#: characters of it, which are fewer than 60 periods take. No `default`: it would look at periods that 3.1 has not
#: rendered.
_LABEL = (
    "{{ period if period is defined else task.periods[0] ~ (' …' if task.periods | length > 1 else '') }}" + _OUTCOME
)
#: Arguments with these values take a load for each period.
_ONE_BY_ONE: Mapping[str, Mapping[str, Any]] = {
    "casts": {"null_as_default": True},
    "policies": {"on_other_periods": "leave_out"},
}


def scheduled_load(
    *,
    load: Load | None = None,
    group_id: str | None = None,
    periods: Sequence[str] | str | None = None,
    lookback: int | str | None = None,
    last_period: str | None = None,
    all_periods: bool = False,
    parallel_loads: int = 2,
    periods_per_task: int = 60,
    merge_health: Mapping[str, Any] | None = None,
    outlets: Sequence[Asset] = (),
    key_format: str | None = None,
    default_args: Mapping[str, Any] | None = None,
    **load_arguments: Any,
) -> TaskGroup:
    """Load the periods that changed since they were published, and wait until their merges have settled.

    The group is plan → (load → merges, mapped over the periods) → end. Tasks after the group run when all periods are
    loaded and healthy, and also when there is nothing to load. A period that fails does not stop the others, but `end`,
    and so the run, fails. Small periods share a task and an insert, unless an argument needs a load for each period.

    With `outlets`, there is a third task, `emit`, after the merges. It emits the assets' events for new periods, each
    with the period as its partition key if Airflow supports that. It is skipped if the load changed nothing; if the
    load failed for some periods of its task, the others are waited for and emitted.

    Args:
        load: The load as a value, in place of its arguments. Default: they are given one by one.
        group_id: Id of the group. Default: the name of `load`, else `scheduled_load`.
        periods: Like the next three, as in `PlanLoadsOperator`. Default of all four: the run's own period.
        lookback: Load the run's periods, those of its data interval, and this many before the last of them.
        last_period: The period to look back from, instead of the run's.
        all_periods: Load all periods in the bucket. Default: False.
        parallel_loads: Number of periods that load at the same time in one run; it limits the tasks and sets each
            load's resource share. Default: 2, the fastest in measurements: one period is read while another is sorted
            and written.
        periods_per_task: How many periods may share a task, if they are small; 1 means a task for each. Default: 60.
        merge_health: Further arguments of `ClickHouseMergeHealthSensor`, such as `on_stuck` or `timeout`.
        outlets: Assets that get an event for each published and settled period. Default: none.
        key_format: The partition keys of these events, as in `EmitPeriodOperator`. Default: the period's text.
        default_args: Arguments of all tasks in the group, such as `retries`. Default: none.
        **load_arguments: Arguments of `S3ToClickHouseOperator`, except `task_id`, `period` and `periods`. `deferrable`
            applies to the sensor, too; `objects` loads from a storage other than S3.

    Returns:
        The group; use `>>` to set the tasks before and after it.

    Raises:
        ConfigurationError: If an argument is unknown.
    """
    _check_names(load_arguments)
    name = group_id or (load.name if load else None) or "scheduled_load"
    with TaskGroup(group_id=name, default_args=dict(default_args or {})) as group:  # type: ignore[arg-type]
        load, of_tasks = _split(load, load_arguments, {**group.dag.default_args, **group.default_args})
        of_the_sensor = {"load": load, "mode": "reschedule", **(merge_health or {})}
        if "deferrable" in of_tasks:
            of_the_sensor = {"deferrable": of_tasks["deferrable"], **of_the_sensor}
        # Each arrival may change any period: a later load would end an earlier one.
        of_the_load = {"load": load, "parallel_loads": 1 if load.is_by_arrival else parallel_loads, **of_tasks}
        plan = PlanLoadsOperator(
            task_id="plan",
            load=load,
            periods=periods,
            lookback=lookback,
            last_period=last_period,
            all_periods=all_periods,
            periods_per_task=periods_per_task if _can_be_grouped(load) else 1,
        )

        # An empty plan skips the periods, but must not skip the tasks that follow; a failed period must.
        end = EmptyOperator(task_id="end", trigger_rule=TriggerRule.NONE_FAILED)
        events = {"outlets": list(outlets), "key_format": key_format}
        _loads(plan, of_the_load, of_the_sensor, events, end) >> end
    return group


def _loads(
    plan: PlanLoadsOperator,
    of_the_load: Mapping[str, Any],
    of_the_sensor: Mapping[str, Any],
    events: Mapping[str, Any],
    end: EmptyOperator,
) -> Any:
    # A load that failed for a period has loaded others, which have events, too.
    is_by_arrival = of_the_load["load"].is_by_arrival
    then = TriggerRule.NONE_SKIPPED if events["outlets"] else TriggerRule.ALL_SUCCESS

    @task_group(group_id="period")
    def load_each(periods: Sequence[str]) -> None:
        load = S3ToClickHouseOperator(
            task_id="load",
            periods=periods,
            max_active_tis_per_dagrun=of_the_load["parallel_loads"],
            map_index_template=_LABEL,
            **of_the_load,
        )
        waiting: dict[str, Any] = {"periods": periods, "map_index_template": _LABEL}
        if is_by_arrival:
            # The load knows which periods its arrivals changed.
            waiting = {"periods": load.output, "map_index_template": _CHANGED}
        merges = ClickHouseMergeHealthSensor(task_id="merges", **{"trigger_rule": then, **waiting, **of_the_sensor})
        load >> merges
        if events["outlets"]:
            EmitPeriodOperator(
                task_id="emit",
                result=load.output,
                merges=merges.output,
                trigger_rule=then,
                map_index_template=_CHANGED,
                **events,
            )
            # Where they fail, no event is emitted, and nothing failed.
            [load, merges] >> end

    return load_each.expand(periods=plan.output)


def _check_names(load_arguments: Mapping[str, Any]) -> None:
    """Check the names of a load's arguments: Airflow would name a task that the DAG file does not have."""
    where = f"scheduled_load of table {load_arguments.get('table')!r}"
    if "period" in load_arguments:
        raise ConfigurationError(f"{where} got period={load_arguments['period']!r}: use periods=…, which it plans.")
    known = _arguments_of_loads()
    if unknown := sorted(load_arguments.keys() - known):
        near = get_close_matches(unknown[0], known, n=1)
        meant = f": do you mean {near[0]}?" if near else "."
        raise ConfigurationError(f"{where} has no argument {', '.join(unknown)}{meant}")


def _can_be_grouped(load: Load) -> bool:
    groups = {name: getattr(load, name) for name in _ONE_BY_ONE}
    return not any(
        isinstance(group, Mapping) and _ONE_BY_ONE[name].items() <= group.items() for name, group in groups.items()
    )


def _split(
    load: Load | None, given: Mapping[str, Any], by_default: Mapping[str, Any]
) -> tuple[Load, Mapping[str, Any]]:
    """Return the load, and the arguments that are not its own, but its tasks'."""
    fields = declared(Load)
    of_load = {name: value for name, value in given.items() if name in fields}
    of_tasks = {name: value for name, value in given.items() if name not in fields}
    if load is None:
        return Load.of({name: value for name, value in {**by_default, **of_load}.items() if name in fields}), of_tasks
    if of_load:
        raise said_twice(load, of_load)
    return load, of_tasks
