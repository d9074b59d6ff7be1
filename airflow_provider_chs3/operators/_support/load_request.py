"""From a task's arguments to what is asked of a load."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.core.files.loaded_columns import selection_of
from airflow_provider_chs3.core.load.cancel import StopRequest, stop_load
from airflow_provider_chs3.core.request.load_request import LoadRequest, Policies
from airflow_provider_chs3.core.request.reload import Reload
from airflow_provider_chs3.core.source.formats import format_named
from airflow_provider_chs3.core.sql.server_defaults import is_about_reading
from airflow_provider_chs3.core.tuning.insert_settings import tunable
from airflow_provider_chs3.core.tuning.resource_share import ShareOptions
from airflow_provider_chs3.core.values.models import Month, TableName
from airflow_provider_chs3.core.values.run_month import given_month
from airflow_provider_chs3.core.workflow.operations import Insert
from airflow_provider_chs3.hooks.connection import check_settings, parse_node_specs
from airflow_provider_chs3.operators._support.new_table import new_table_of
from airflow_provider_chs3.runners.blocking import Runner
from airflow_provider_chs3.runners.detached_insert import DetachingRunner
from airflow_provider_chs3.sources.listing import Listing

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_chs3.operators._support.tasks import LoadTask, ReadsFiles


def load_request(
    task: LoadTask, context: Context, listing: Listing, *, resumes: str | None, month: Month | None = None
) -> LoadRequest:
    """Return one attempt at the month of a task.

    Args:
        task: The task, with its templates rendered.
        context: Airflow's.
        listing: Says how the servers get at the objects.
        resumes: The attempt that the task has waited for; None if there is none.
        month: The month; None takes the task's.

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
    loaded = what_is_loaded(task, listing)
    return LoadRequest(
        **loaded,
        new_table=new_table_of(
            task.create_table,
            loaded["source"],
            loaded["target"],
            cluster=loaded["cluster"] or loaded["default_cluster"],
            file_format=task.file_format,
            compression=task.compression,
            csv=task.csv,
        ),
        month=month or _month(task, context, reload),
        policies=_policies(task, replaces_rows_of_others=reload is not None and reload.replace_rows_of_others),
        share=ShareOptions(memory_share=task.memory_share, parallel_months=task.parallel_months),
        use_calibration=task.use_calibration,
        owner=_owner(context),
        is_durable=task.defers_inserts,
        resumes=resumes,
        reload=reload,
    )


def _policies(task: LoadTask, *, replaces_rows_of_others: bool) -> Policies:
    return Policies(
        write_mode=task.write_mode,
        distribution=task.distribution,
        on_no_objects=task.on_no_objects,
        ready_key=task.ready_key or None,
        min_object_age_seconds=task.min_object_age_seconds,
        max_shrink_fraction=task.max_shrink_fraction,
        replace_unknown=task.replace_unknown or replaces_rows_of_others,
        on_target_changed="reload" if replaces_rows_of_others else task.on_target_changed,
        on_other_months=task.on_other_months,
        incremental=task.incremental,
        max_increments=task.max_increments,
        object_column=task.object_column,
        count_again=task.count_again,
        unproved_codecs=task.unproved_codecs,
        on_new_columns=task.on_new_columns,
    )


def end_load(request: LoadRequest, *, is_of_months: bool = False, **runner_arguments: Any) -> None:
    """End a load from outside, in a handler of a signal.

    Args:
        request: The load.
        is_of_months: Whether it is of several months.
        **runner_arguments: Of the `Runner`.
    """
    stop = StopRequest.of(request, is_of_months=is_of_months)
    Runner(**runner_arguments, listing=None, in_turns=True).run(stop_load(stop))


def what_is_loaded(task: ReadsFiles, listing: Listing) -> dict[str, Any]:
    """Return the part of a request that defines what is read, where it goes, and with which of the user's settings.

    Args:
        task: The task, with its templates rendered.
        listing: Says how the servers get at the objects.

    Raises:
        ConfigurationError: If an argument is wrong.
    """
    options, source = task.hook().options, task.source(listing)
    return {
        "source": source,
        "target": TableName.of(task.table, task.database, default_database=options.database),
        "cluster": task.cluster or None,
        "default_cluster": options.cluster,
        "staging_database": task.staging_database,
        "nonce": uuid.uuid4().hex[:16],
        "now": datetime.now(UTC),
        "format": format_named(task.file_format) if task.file_format else None,
        "compression": task.compression or "auto",
        "selection": selection_of(
            columns=task.columns,
            select=task.select,
            null_as_default=task.null_as_default,
            lossy_columns=task.lossy_columns,
            naive_timestamps=task.naive_timestamps,
            csv=task.csv,
        ),
        "settings": {**tunable(options.settings, source.kind), **check_settings(task.settings or {}, where="settings")},
        "node_specs": parse_node_specs(task.node_specs or {}, where="node_specs"),
        "connection_node_specs": options.node_specs,
    }


def load_runner(task: LoadTask, listing: Listing, *, wait: Callable[[Insert], None], **arguments: Any) -> Runner:
    """Return the runner of a task's load.

    Args:
        task: The task.
        listing: Lists the bucket.
        wait: Called while an insert runs that outlives its worker.
        **arguments: Arguments of `Runner`.
    """
    if task.defers_inserts:
        return DetachingRunner(listing=listing, wait=wait, **arguments)
    return Runner(listing=listing, **arguments)


def _month(task: LoadTask, context: Context, reload: Reload | None) -> Month:
    if task.has_month:
        return given_month(task.month)
    return reload.month if reload else task.month_of_run(context)


def _owner(context: Context) -> str:
    """Names the task instance, whatever its try."""
    ti = context.get("ti")
    return "" if ti is None else json.dumps([ti.dag_id, ti.run_id, ti.task_id, ti.map_index])
