"""Base of all tasks that work period by period, whatever the storage: the table, the period, the objects."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import BaseOperator

from airflow_provider_chs3.core.arguments.declaration import declared, is_of_a_run
from airflow_provider_chs3.core.arguments.load_arguments import OF_PERIOD_TASKS, is_by_arrival
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.load import Load
from airflow_provider_chs3.operators._support.on_table import OnTable
from airflow_provider_chs3.operators._support.schedules import (
    check_schedule,
    data_interval,
    next_partition,
    timezone_of_keys,
)
from airflow_provider_chs3.operators._support.template_files import read_files

if TYPE_CHECKING:
    import jinja2
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_chs3.core.files.key_template import KeyTemplate
    from airflow_provider_chs3.core.load.retry_policy import Reload
    from airflow_provider_chs3.core.model.period import Grain, Period
    from airflow_provider_chs3.hooks.clickhouse import PooledClickHouseHook
    from airflow_provider_chs3.operators._support.run_period import DagRun
    from airflow_provider_chs3.sources.storage import Storage


#: XCom of tasks that load nothing in a run which asks for a reload: the reason.
_LOADS_NOTHING = "chs3_loads_nothing"


class PeriodTask(OnTable, BaseOperator, takes=OF_PERIOD_TASKS):
    """Work on periods of objects and a table."""

    timezone: str | None
    staging_database: str | None
    objects: Storage | None
    #: Whether it loads periods, or names the periods to load.
    loads_periods: ClassVar[bool] = False

    def _arguments_taken(self) -> None:
        # Airflow renders it in place, and tasks may share one.
        self.objects = copy(self.objects)

    def prepare_template(self) -> None:
        """Check, while the DAG is parsed, what its arguments say together."""
        super().prepare_template()
        read_files(self, self.file_fields, self.get_template_env)
        store = self.store
        if "key" in store.options and not is_of_a_run(store.template):
            self._check_key(store.template)
        if name := self.argument_for_period:
            check_schedule(self, instead=f'{name}="{{{{ ds[:7] }}}}" or other periods')

    def _do_render_template_fields(
        self,
        parent: Any,
        template_fields: Iterable[str],
        context: Context,
        jinja_env: jinja2.Environment,
        seen_oids: set[int],
    ) -> None:
        # Mapped tasks, and those of `dag.test()`, come here without `prepare_template`.
        if parent is self:
            read_files(self, self.file_fields, lambda: jinja_env)
        super()._do_render_template_fields(parent, template_fields, context, jinja_env, seen_oids)
        # Also where nothing uses it, as the task is given its period: it is a mistake all the same.
        if parent is self and self.timezone:
            from airflow_provider_chs3.core.model.period import zone_of

            zone_of(self.timezone)

    def _check_key(self, text: str) -> None:
        """Check the template of keys, and that it distinguishes the periods that the DAG file names."""
        from airflow_provider_chs3.core.model.period import parse_periods

        template = _template_of(text)
        for given in (getattr(self, name, None) for name in ("period", "periods", "last_period")):
            texts = [given] if isinstance(given, str) else given
            if isinstance(texts, list | tuple) and texts and not any(map(is_of_a_run, texts)):
                template.at(parse_periods(given)[0].grain)

    @property
    def argument_for_period(self) -> str | None:
        """The argument that would set the task's period; None where the task does not take that of its run."""
        return None

    @property
    def store(self) -> Storage:
        """The place of the objects."""
        assert self.objects is not None  # what does without it has a store of its own
        return self.objects

    def reload_of_run(self, context: Context) -> Reload | None:
        """Return the reload that the run's conf asks for; None if it asks for none."""
        from airflow_provider_chs3.core.load.retry_policy import reload_of

        return reload_of(getattr(context.get("dag_run"), "conf", None))

    def refuse_to_reload_nothing(self, context: Context, reason: str) -> None:
        """Fail if the run asks for a reload, and neither this task nor another one of its DAG loads any of it.

        Otherwise such a run would be skipped, and look as if it had loaded the periods. The last task to come here
        fails.
        """
        reload = self.reload_of_run(context)
        if reload and self.has_dag() and _loads_nothing(self.dag.tasks, context["ti"], reason):
            raise ConfigurationError(
                f"This run reloads {reload}, but no task of the DAG loads it. The last one that could, "
                f"{self.task_id!r}, does not: {reason}. If the DAG takes the table or the period from a run's conf or "
                "data interval, set the same for this run."
            )

    def refuse_to_reload_without_objects(self, context: Context, periods: Iterable[str]) -> None:
        """Fail if the run asks for a reload of periods that have no objects.

        A run that was to load periods again is not to look as if it had, even where periods without objects are no
        error.
        """
        if (reload := self.reload_of_run(context)) and (names := ", ".join(periods)):
            raise ConfigurationError(
                f"This run reloads {reload}, but {names} has no objects, and the table keeps what it has. Put the "
                "objects back; or, if the rows should go, set policies={'on_no_objects': 'empty'}."
            )

    def grain(self) -> Grain:
        """Return the length of periods: of arrivals as keys name them, else as the servers partition the table."""
        load = self.as_load() if is_by_arrival(getattr(self, "policies", None)) else None
        return self.on_connection().grain(load, may_lack=getattr(self, "create_table", "never") != "never")

    def as_load(self) -> Load:
        """Return the load that the task's arguments are, once they are rendered."""
        given = {name: value for name, value in vars(self).items() if name in declared(Load)}
        if given.get("fresh_by") and not self.timezone and self.has_dag():
            given["timezone"] = self.dag.timezone.name
        return Load(**given)

    def period_of_run(self, context: Context, grain: Grain) -> Period:
        """Return the run's period: that of its partition key, else of its data interval."""
        from airflow_provider_chs3.operators._support.run_period import period_of_run

        return period_of_run(self._run(context), grain)

    def periods_of_run(self, context: Context, grain: Grain) -> tuple[Period, ...]:
        """Return the run's periods: those of its partition key, else those that its data interval touches."""
        from airflow_provider_chs3.operators._support.run_period import periods_of_run

        return periods_of_run(self._run(context), grain, argument=self.argument_for_period or "period")

    def _run(self, context: Context) -> DagRun:
        from airflow_provider_chs3.core.model.period import zone_of
        from airflow_provider_chs3.operators._support.run_period import DagRun

        dag_run, dag = context["dag_run"], self.dag if self.has_dag() else None
        timetable = dag and dag.timetable
        start, end = data_interval(dag_run, timetable)
        timezone = zone_of(self.timezone) if self.timezone else self.dag.timezone
        conf = getattr(dag_run, "conf", None) or {}
        return DagRun(
            partition_key=getattr(dag_run, "partition_key", None),
            partition_date=(date := getattr(dag_run, "partition_date", None)),
            partition_end=next_partition(timetable, date) if date else None,
            key_timezone=timezone_of_keys(timetable),
            start=start,
            end=end,
            timezone=timezone,
            is_scheduled=dag is None or dag.schedule is not None,
            conf={name: value for name, value in conf.items() if dag is None or name not in dag.params},
        )

    def pooled_hook(self) -> PooledClickHouseHook:
        """Return a connection for many queries, until the task's time is over: it stays open until it is closed."""
        from airflow_provider_chs3.hooks.clickhouse import PooledClickHouseHook
        from airflow_provider_chs3.hooks.running_task import TaskDeadline

        hook = PooledClickHouseHook(clickhouse_conn_id=self.clickhouse_conn_id)
        hook.deadline = TaskDeadline(self.execution_timeout, lambda: self.is_ended)
        return hook


@cache
def _template_of(key: str) -> KeyTemplate:
    """Return the template of keys, which several tasks of a DAG have."""
    from airflow_provider_chs3.core.files.key_template import KeyTemplate

    return KeyTemplate(key)


def _loads_nothing(tasks: Iterable[Any], ti: Any, reason: str) -> bool:
    """Note that a task loads nothing, and check whether that is so of all tasks that load periods.

    Those that follow such a task are skipped. Each task notes it before it checks, so that of tasks that arrive at the
    same time, the last one sees all others.
    """
    ti.xcom_push(key=_LOADS_NOTHING, value=reason)
    loads = {task.task_id: task for task in tasks if getattr(class_of(task), "loads_periods", False)}

    @cache
    def is_so(task_id: str) -> bool:
        noted = [value for value in ti.xcom_pull(task_ids=[task_id], key=_LOADS_NOTHING) if value is not None]
        # A mapped task that is not expanded yet counts as one.
        if noted and len(noted) >= ti.get_ti_count(dag_id=ti.dag_id, task_ids=[task_id], run_ids=[ti.run_id]):
            return True
        before = loads[task_id].get_flat_relative_ids(upstream=True) & loads.keys()
        return loads[task_id].trigger_rule == "all_success" and any(map(is_so, before))

    last = (name for name, task in loads.items() if not task.get_flat_relative_ids(upstream=False) & loads.keys())
    return all(map(is_so, last))


def class_of(task: Any) -> type:
    """Return the class of a task, mapped or not."""
    return getattr(task, "operator_class", type(task))  # type: ignore[no-any-return]  # that of a mapped one
