"""From a task's arguments to what is asked of a load."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.client.detached_runner import DetachingRunner
from airflow_provider_chs3.client.listing import Listing
from airflow_provider_chs3.client.runner import Runner
from airflow_provider_chs3.core.load.cancel import StopRequest, stop_load
from airflow_provider_chs3.core.load.load_request import LoadRequest
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.sql.complete_answers import is_about_reading
from airflow_provider_chs3.core.steps.operations import Insert
from airflow_provider_chs3.hooks.running_task import owner_of

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_chs3.operators._support.tasks import LoadTask


def load_request(
    task: LoadTask, context: Context, listing: Listing, *, resumes: str | None, period: Period
) -> LoadRequest:
    """Return one attempt at the periods of a task."""
    reload = task.reload_of_run(context)
    if left_out := sorted(name for name in task.hook().options.settings if is_about_reading(name)):
        task.log.warning(
            "Ignoring the connection's settings %s, as they change what is read from files: set them in the "
            "operator's settings if the files need them.",
            ", ".join(left_out),
        )
    return task.on_connection(task.hook()).request(
        task.as_load(),
        period,
        listing=listing,
        parallel_loads=task.parallel_loads,
        reload=reload,
        owner=owner_of(context),
        is_durable=task.detaches_inserts,
        resumes=resumes,
    )


def end_load(request: LoadRequest, periods: Sequence[Period], **runner_arguments: Any) -> None:
    """End a load from outside, in a handler of a signal."""
    stop = StopRequest.of(request, periods)
    Runner(**runner_arguments, in_turns=True).run(stop_load(stop))


def load_runner(task: LoadTask, listing: Listing, *, wait: Callable[[Insert], None], **arguments: Any) -> Runner:
    """Return the runner of a task's load."""
    if task.detaches_inserts:
        return DetachingRunner(listing=listing, wait=wait if task.deferrable else None, **arguments)
    return Runner(listing=listing, **arguments)
