"""The loads and tables that a command is about: of a DAG, of a file, or of the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.cli.arguments import DOCTOR, flag, storage_of, storage_options
from airflow_provider_chs3.core.arguments.declaration import CONFIGURED, declared, is_of_a_run
from airflow_provider_chs3.core.model.period import Period, example_of
from airflow_provider_chs3.defaults import CLICKHOUSE_CONN_ID
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
from airflow_provider_chs3.load import Load
from airflow_provider_chs3.table import Table

if TYPE_CHECKING:
    from airflow.sdk import DAG


@dataclass(frozen=True, kw_only=True)
class ChosenLoad:
    """A load that a command is about, or a table of which nothing more is known."""

    name: str
    open_table: Callable[[], Table]
    load: Load | None
    is_declared: bool

    @cached_property
    def table(self) -> Table:
        """The table, whose connection is looked up now."""
        return self.open_table()

    @property
    def known_load(self) -> Load:
        """The load, for commands that read its objects: their options say where these are."""
        assert self.load is not None
        return self.load

    def periods(self, named: Sequence[str], *, spans: bool = False, arrivals: bool = False) -> tuple[str, ...]:
        """Return the periods that a command line names, as the table of a load has them.

        Args:
            named: Their names; of a table without a load, its own.
            spans: Whether periods of another length mean all that have a moment in common with them. Default: False.
            arrivals: Whether they are those in which objects arrive, if the load is by arrival. Default: False.
        """
        if not (named and self.is_declared):
            return tuple(named)
        load = self.known_load
        grain = self.table.grain(load if arrivals else None, may_lack=load.create_table != "never")
        parts: set[Period] = set()
        for period in map(Period.parse, named):
            if period.grain is not grain and not (spans and period.parts(grain)):
                raise ConfigurationError(
                    f"{period} is no period of {self.table.name}: name one as its partition key has them, such as "
                    f"{example_of(grain)}."
                )
            parts |= {*period.parts(grain)}
        return tuple(map(str, sorted(parts)))


def choose_loads(given: argparse.Namespace) -> list[ChosenLoad]:
    """Return the loads that a command line names."""
    ways = [f"--{name}" for name in ("table", "loads", "dag") if getattr(given, name)]
    if given.task and not given.dag:
        raise ConfigurationError("--task is a task of a DAG: pass --dag, too.")
    if not ways and given.command == DOCTOR:
        return [_of_options(given)]
    if len(ways) != 1:
        told = f"{' and '.join(ways)}: pass one of them" if ways else "Nothing says which table: pass one"
        raise ConfigurationError(
            f"{told} of --table, --loads FILE (all its loads, or those named after it) and --dag ID."
        )
    if given.table:
        return [_of_options(given)]
    said = [
        name for name in ("database", "cluster", "staging_database", *storage_options()) if getattr(given, name, None)
    ]
    if said:
        raise ConfigurationError(f"{', '.join(map(flag, said))}: {ways[0]} says this. Leave it out.")
    loads = _of_file(given) if given.loads else list(_of_dag(given))
    return [
        ChosenLoad(name=name, open_table=partial(_table_of, given, load), load=load, is_declared=True)
        for name, load in loads
    ]


def _table_of(given: argparse.Namespace, load: Load) -> Table:
    return Table.of(hook_of(given, load), load, log=given.progress.log)


def hook_of(given: argparse.Namespace, load: Load | None = None) -> ClickHouseHook:
    """Return the connection of a command: the one named there, else the load's, else the configured one."""
    of_load = load.clickhouse_conn_id if load and load.clickhouse_conn_id != CONFIGURED else None
    return ClickHouseHook(clickhouse_conn_id=given.conn_id or of_load or CLICKHOUSE_CONN_ID)


def _of_options(given: argparse.Namespace) -> ChosenLoad:
    names: dict[str, Any] = {name: getattr(given, name, None) for name in ("database", "cluster", "staging_database")}
    storage, name = storage_of(given) if "storage" in given else None, given.table or ""
    files = {"file_format": given.file_format} if getattr(given, "file_format", None) else None
    of_files: dict[str, Any] = {"csv": getattr(given, "csv", None), "files": files}
    load = Load(table=name, objects=storage, **names, **of_files) if storage else None
    return ChosenLoad(
        name=name,
        open_table=lambda: Table(hook_of(given), name, **names, log=given.progress.log),
        load=load,
        is_declared=False,
    )


def _of_file(given: argparse.Namespace) -> list[tuple[str, Load]]:
    file, *names = given.loads
    loads = {str(load.name): load for load in Load.read(file)}
    if unknown := [name for name in names if name not in loads]:
        raise ConfigurationError(f"{file} has no load {', '.join(unknown)}: it has {', '.join(loads)}.")
    return [(name, loads[name]) for name in dict.fromkeys(names or loads)]


def _of_dag(given: argparse.Namespace) -> Iterator[tuple[str, Load]]:
    """Yield the loads of a DAG's tasks, each once."""
    from airflow_provider_chs3.operators._support.period_load_task import PeriodLoadTask
    from airflow_provider_chs3.operators._support.period_task import class_of

    dag = _parsed(given.dag)
    tasks = {task.task_id: task for task in dag.tasks if issubclass(class_of(task), PeriodLoadTask)}
    wanted = {name for name in tasks if not given.task or given.task in (name, name.partition(".")[0])}
    if not wanted:
        what = f"no load {given.task!r}" if given.task else "no task that loads periods"
        known = f": it has {', '.join(tasks)}" if tasks else ""
        raise ConfigurationError(f"DAG {given.dag!r} has {what}{known}.")
    for name in filter(wanted.__contains__, tasks):
        yield name, _load_of(tasks[name], dag)


def _parsed(dag_id: str) -> DAG:
    """Parse the DAG files as Airflow does, and return a DAG; nothing is written to Airflow's database."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager

    try:
        from airflow.dag_processing.dagbag import DagBag
    except ModuleNotFoundError:  # Airflow 3.1
        from airflow.models.dagbag import DagBag  # type: ignore[no-redef]
    errors: dict[str, str] = {}
    for bundle in DagBundlesManager().get_all_dag_bundles():
        bundle.initialize()
        sys.path.append(str(bundle.path))
        bag = DagBag(dag_folder=str(bundle.path))
        if dag := bag.dags.get(dag_id):
            return dag
        errors |= bag.import_errors
    broken = "".join(f" {file} has an error: {text.strip().splitlines()[-1]}" for file, text in errors.items())
    raise ConfigurationError(f"There is no DAG {dag_id!r} in Airflow's DAG bundles.{broken}")


def _load_of(task: Any, dag: DAG) -> Load:
    """Return the load of a task, with its templates rendered as far as that needs no run."""
    if (given := getattr(task, "partial_kwargs", None)) is None:
        load = task.as_load()
    elif (load := given.get("load")) is None:
        load = Load(**{name: value for name, value in given.items() if name in declared(Load)})
    rendered = {name: _rendered(task, dag, name, getattr(load, name)) for name in declared(Load)}
    if rendered["fresh_by"]:
        rendered["timezone"] = rendered["timezone"] or dag.timezone.name
    return replace(load, **rendered)


def _rendered(task: Any, dag: DAG, name: str, value: Any) -> Any:
    from jinja2 import StrictUndefined, UndefinedError

    is_storage = hasattr(value, "template_fields")
    fields = [getattr(value, field) for field in value.template_fields] if is_storage else [value]
    if not any(map(is_of_a_run, fields)):
        return value
    environment = dag.get_template_env()
    environment.undefined = StrictUndefined
    context = {"params": dag.params.dump(), "dag": dag, "task": task, **_accessors()}
    try:
        if not is_storage:
            return _text_of(environment, value, context)
        rendered = copy(value)
        for field in value.template_fields:
            setattr(rendered, field, _text_of(environment, getattr(value, field), context))
        return rendered
    except UndefinedError as error:
        raise ConfigurationError(
            f"{name}={value!r} of task {task.task_id!r} is known only in a run ({error.message}): name the load in "
            "another way, with --table or --loads."
        ) from None


def _text_of(environment: Any, value: Any, context: Mapping[str, Any]) -> Any:
    if isinstance(value, str):
        return environment.from_string(value).render(**context)
    if isinstance(value, Mapping):
        return {key: _text_of(environment, element, context) for key, element in value.items()}
    if isinstance(value, list | tuple):
        return [_text_of(environment, element, context) for element in value]
    return value


def _accessors() -> dict[str, Any]:
    """Return Airflow's variables, connections and macros, as templates name them."""
    from airflow.sdk.execution_time.context import ConnectionAccessor, MacrosAccessor, VariableAccessor

    variables = {"value": VariableAccessor(deserialize_json=False), "json": VariableAccessor(deserialize_json=True)}
    return {"var": variables, "conn": ConnectionAccessor(), "macros": MacrosAccessor()}
