"""From a task's arguments to what is asked of a load."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.client.connection import check_settings, parse_node_specs
from airflow_provider_chs3.client.detached_runner import DetachingRunner
from airflow_provider_chs3.client.listing import Listing
from airflow_provider_chs3.client.log_comment import owner_of
from airflow_provider_chs3.client.runner import Runner
from airflow_provider_chs3.core.arguments.check_arguments import Checks
from airflow_provider_chs3.core.arguments.load_arguments import CREATE_TABLE, VIEWS, Tuning
from airflow_provider_chs3.core.files.table_suggestion import NewTableRequest
from airflow_provider_chs3.core.load.cancel import StopRequest, stop_load
from airflow_provider_chs3.core.load.load_request import LoadRequest, parsed_definition
from airflow_provider_chs3.core.load.staging_tables import make_nonce
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.sql.server_defaults import is_about_reading
from airflow_provider_chs3.core.steps.operations import Insert
from airflow_provider_chs3.core.tuning.insert_settings import tunable
from airflow_provider_chs3.core.tuning.resource_share import ShareOptions

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_chs3.operators._support.period_task import PeriodTask
    from airflow_provider_chs3.operators._support.tasks import LoadTask, ReadsFiles


def load_request(
    task: LoadTask, context: Context, listing: Listing, *, resumes: str | None, period: Period
) -> LoadRequest:
    """Return one attempt at the periods of a task.

    Raises:
        ConfigurationError: If an argument is wrong.
    """
    reload = task.reload_of_run(context)
    if left_out := sorted(name for name in task.hook().options.settings if is_about_reading(name)):
        task.log.warning(
            "Ignoring the connection's settings %s, as they change what is read from files: give them in the "
            "operator's settings if the files need them.",
            ", ".join(left_out),
        )
    loaded, tuning = what_is_loaded(task, listing, vars(task)), Tuning.of(task.tuning)
    loaded["policies"] = loaded["policies"].of_run(reload)
    return LoadRequest(
        **loaded,
        **of_the_nodes(task),
        new_table=new_table_of(task.create_table, loaded),
        period=period,
        share=ShareOptions.merged(tuning, parallel_loads=task.parallel_loads),
        owner=owner_of(context),
        is_durable=task.detaches_inserts,
        resumes=resumes,
        reload=reload,
        checks=Checks.of(task.checks),
        follows_views=VIEWS.checked(task.views) == "follow",
    )


def of_the_nodes(task: ReadsFiles) -> dict[str, Any]:
    """Return the part of a request that says how large the nodes are.

    Raises:
        ConfigurationError: If an argument is wrong.
    """
    given = Tuning.of(task.tuning).node_specs or {}
    return {
        "node_specs": parse_node_specs(given, where="tuning['node_specs']"),
        "connection_node_specs": task.hook().options.node_specs,
    }


def end_load(request: LoadRequest, periods: Sequence[Period], **runner_arguments: Any) -> None:
    """End a load from outside, in a handler of a signal."""
    stop = StopRequest.of(request, periods)
    Runner(**runner_arguments, in_turns=True).run(stop_load(stop))


def what_is_loaded(task: PeriodTask, listing: Listing, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a request that defines what is read, where it goes, and how.

    Raises:
        ConfigurationError: If an argument is wrong.
    """
    options, source = task.hook().options, task.source(listing)
    how, settings = parsed_definition(arguments), check_settings(arguments.get("settings") or {}, where="settings")
    return {
        "source": source.leaving_out() if how["policies"].on_other_periods == "leave_out" else source,
        **task.of_table(options),
        "staging_database": task.staging_database,
        "nonce": make_nonce(datetime.now(UTC)),
        "now": datetime.now(UTC),
        **how,
        "settings": {**tunable(options.settings, source.kind), **settings},
    }


def new_table_of(create_table: str, loaded: Mapping[str, Any]) -> NewTableRequest | None:
    """Return the table that is created if it is missing; None if none is.

    Raises:
        ConfigurationError: If the value is unknown, or the source has no files.
    """
    if CREATE_TABLE.checked(create_table) == "never":
        return None
    return NewTableRequest(
        source=loaded["source"],
        table=loaded["target"],
        cluster=loaded["cluster"] or loaded["default_cluster"],
        file_format=loaded["format"],
        compression=loaded["compression"],
        csv=loaded["selection"].csv,
    )


def load_runner(task: LoadTask, listing: Listing, *, wait: Callable[[Insert], None], **arguments: Any) -> Runner:
    """Return the runner of a task's load."""
    if task.detaches_inserts:
        return DetachingRunner(listing=listing, wait=wait if task.deferrable else None, **arguments)
    return Runner(listing=listing, **arguments)
