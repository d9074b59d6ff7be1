"""Steps 1 and 2 of a load, in parallel: list the objects, and inspect the nodes."""

from __future__ import annotations

from airflow_provider_chs3.core.cluster.absent_replicas import leave_out_absent
from airflow_provider_chs3.core.cluster.node_facts import TargetContext, look_at
from airflow_provider_chs3.core.cluster.row_policies import OF_A_LOAD
from airflow_provider_chs3.core.cluster.topology import (
    TableLocation,
    check_distribution,
    check_versions,
    resolve_table,
)
from airflow_provider_chs3.core.preflight.privileges import check_privileges
from airflow_provider_chs3.core.preflight.profile_constraints import check_constraints, explain_refusal
from airflow_provider_chs3.core.request.load_request import LoadRequest
from airflow_provider_chs3.core.request.privileges import privileges_of_load
from airflow_provider_chs3.core.source.csv_dialect import reading_settings
from airflow_provider_chs3.core.source.source import Source
from airflow_provider_chs3.core.tuning.exact_settings import needed_settings
from airflow_provider_chs3.core.tuning.insert_settings import names_to_look_up
from airflow_provider_chs3.core.values.error_codes import SETTING_CONSTRAINT
from airflow_provider_chs3.core.values.models import Manifest, SettingValue
from airflow_provider_chs3.core.workflow.operations import Gather, Steps
from airflow_provider_chs3.core.workflow.step_timer import StepTimer
from airflow_provider_chs3.exceptions import ClickHouseServerError, NotReadyError


def list_ready_month(request: LoadRequest) -> Steps[tuple[Source, Manifest]]:
    """List the month's objects.

    Returns:
        The source, whose base is known now, and the manifest.

    Raises:
        NotReadyError: If the ready marker is missing, an object is too young, or there are no objects and that is an
            error.
    """
    yield from check_ready(request)
    source, manifest = yield from request.source.list_month(request.month)
    check_manifest(request, manifest)
    return source, manifest


def check_manifest(request: LoadRequest, manifest: Manifest) -> None:
    """Check that a month has objects, and that none is too young.

    Args:
        request: The load of the month.
        manifest: Its objects.

    Raises:
        NotReadyError: If there are none and that is an error, or one may not be complete yet.
    """
    policies = request.policies
    if not manifest.objects and policies.on_no_objects == "fail":
        where = f"{request.source.place}/{request.source.pattern}"
        raise NotReadyError(
            f"No {request.source.kind.contents.name} for {request.month} under {where}. If that is right for this "
            "month, policies={'on_no_objects': 'skip'} leaves it unchanged, and 'empty' publishes it without rows."
        )
    youngest = max(manifest.objects, key=lambda each: each.last_modified, default=None)
    # With no age asked for no clock is looked at: the storage's may be ahead, and objects may come after `now`.
    if policies.min_object_age_seconds <= 0 or youngest is None:
        return
    if (request.now - youngest.last_modified).total_seconds() < policies.min_object_age_seconds:
        raise NotReadyError(
            f"{youngest.path} was written at {youngest.last_modified:%Y-%m-%d %H:%M:%S} UTC, less than "
            f"policies['min_object_age_seconds']={policies.min_object_age_seconds:g} ago: it may not be complete yet."
        )


def check_ready(request: LoadRequest) -> Steps[None]:
    """Check that the ready marker is there, if the load asks for one.

    Args:
        request: The load of the month.

    Raises:
        NotReadyError: If it is missing.
        ConfigurationError: If it may be several objects, or none can be there.
    """
    if (ready_key := request.policies.ready_key) is None:
        return
    if missing := (yield from request.source.missing_marker(ready_key, request.month)):
        raise NotReadyError(f"The ready marker {missing} is not there yet, so {request.month} was not loaded.")


def list_and_inspect(
    request: LoadRequest, timer: StepTimer, context: TargetContext | None = None
) -> Steps[tuple[Source, Manifest, TargetContext, StepTimer]]:
    """List the month's objects, and ask every node for its facts.

    Args:
        request: The load.
        timer: The time spent so far.
        context: The nodes' facts, if they are known already.

    Returns:
        The source, whose base is known now, and the manifest; the nodes' facts; the timer at the end of the listing, so
        that the time the nodes took longer counts for the next step.

    Raises:
        NotReadyError: If the objects are not there yet.
        PreflightError: If the cluster, versions or privileges prevent the load.
    """
    if context is not None:
        source, manifest, timer = yield from _list(request, timer)
        return source, manifest, context, timer
    looks = (_list(request, timer), inspect_target_for_load(request))
    (source, manifest, timer), context = yield from Gather(name="List and inspect", workflows=looks)
    return source, manifest, context, timer


def _list(request: LoadRequest, timer: StepTimer) -> Steps[tuple[Source, Manifest, StepTimer]]:
    source, manifest = yield from list_ready_month(request)
    return source, manifest, (yield from timer.end("list"))


def _check_servers(request: LoadRequest, place: TableLocation) -> Steps[None]:
    """Check what takes less time than to connect, one after the other over one connection to each node."""
    yield from check_constraints(place.nodes, needed_by(request), own=request.settings)
    yield from check_versions(place.nodes)
    yield from check_privileges(place.nodes, privileges_of_load(request, place))


def needed_by(request: LoadRequest) -> dict[str, SettingValue]:
    """Return the settings that a profile must allow the load to set: name → value.

    Args:
        request: The load.
    """
    needed = needed_settings(
        null_as_default=request.selection.null_as_default,
        by_sharding_key=request.policies.distribution == "sharding_key",
        store=request.source.kind,
    )
    selection = request.selection
    fields = reading_settings(selection.csv, is_selected=bool(selection.select), has_nested_containers=False)
    return {**fields, **needed}


def inspect_target_for_load(request: LoadRequest) -> Steps[TargetContext]:
    """Ask every node for its facts, and check that a load may start.

    Args:
        request: The load.

    Raises:
        PreflightError: If the cluster, versions, profiles or privileges prevent the load.
    """
    try:
        return (yield from _inspect_target(request))
    except ClickHouseServerError as error:
        if error.code == SETTING_CONSTRAINT:
            yield from explain_refusal(error, needed_by(request), own=request.settings)
        raise


def _inspect_target(request: LoadRequest) -> Steps[TargetContext]:
    place = yield from resolve_table(request)
    place = yield from leave_out_absent(place)
    yield from check_distribution(place, distribution=request.policies.distribution, target=request.target)
    # A server that is too old, or where a grant is missing, may not answer the last one: the first error is reported.
    names = names_to_look_up(request.settings, request.source.kind)
    looks = (_check_servers(request, place), look_at(place, settings=names, policies_on=OF_A_LOAD))
    context: TargetContext = (yield from Gather(name=f"Look at {len(place.nodes)} nodes", workflows=looks))[1]
    return context
