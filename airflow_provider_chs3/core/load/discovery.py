"""Steps 1 and 2 of a load, in parallel: list the objects, and inspect the nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from airflow_provider_chs3.core.files.csv_dialect import reading_settings
from airflow_provider_chs3.core.files.source import Source
from airflow_provider_chs3.core.load.load_request import LoadRequest
from airflow_provider_chs3.core.model.error_codes import SETTING_CONSTRAINT
from airflow_provider_chs3.core.model.models import Manifest, SettingValue
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.sql.quoting import table
from airflow_provider_chs3.core.steps.operations import Gather, Steps
from airflow_provider_chs3.core.steps.step_timer import StepTimer
from airflow_provider_chs3.core.target.node_facts import Target, look_at
from airflow_provider_chs3.core.target.privileges import (
    OF_A_LOAD,
    check_privileges,
    privilege_of_filling,
    privileges_of_attaching,
    privileges_of_detaching,
    privileges_of_loading,
)
from airflow_provider_chs3.core.target.profile_constraints import check_constraints, explain_refusal
from airflow_provider_chs3.core.target.topology import (
    TableLocation,
    check_distribution,
    leave_out_absent,
    resolve_table,
)
from airflow_provider_chs3.core.tuning.exact_settings import needed_settings
from airflow_provider_chs3.core.tuning.insert_settings import names_to_look_up
from airflow_provider_chs3.exceptions import Chs3Error, ClickHouseServerError, ConfigurationError, NotReadyError

#: Workflows that ask the storage at the same time.
_READY_AT_ONCE = 8


class Listed(NamedTuple):
    """The objects of periods that are ready to be loaded."""

    source: Source
    manifests: Mapping[Period, Manifest]
    failed: Mapping[Period, Chs3Error]


def list_ready(request: LoadRequest, periods: Sequence[Period]) -> Steps[Listed]:
    """List the objects of periods that are ready.

    A period fails with a `NotReadyError` if its marker is missing or an object is too young.
    """
    failed = dict[Period, Chs3Error]()
    for first in range(0, len(periods) if request.policies.ready_key else 0, _READY_AT_ONCE):
        batch = periods[first : first + _READY_AT_ONCE]
        asked = tuple(_why_not_ready(request, period) for period in batch)
        errors = yield from Gather(name="Look for ready markers", workflows=asked)
        failed |= {period: error for period, error in zip(batch, errors, strict=True) if error}
    if len(failed) == len(periods):
        return Listed(request.source, {}, failed)
    source, manifests = yield from request.source.list_periods([period for period in periods if period not in failed])
    ready = dict[Period, Manifest]()
    for period, manifest in manifests.items():
        try:
            _check_manifest(request, period, manifest)
        except NotReadyError as error:
            failed[period] = error
        else:
            ready[period] = manifest
    return Listed(source, ready, failed)


def list_ready_period(request: LoadRequest) -> Steps[tuple[Source, Manifest]]:
    """List the period's objects.

    Returns:
        The source with its base, and the manifest.

    Raises:
        NotReadyError: As in `list_ready`.
    """
    listed = yield from list_ready(request, [request.period])
    for error in listed.failed.values():
        raise error
    return listed.source, listed.manifests[request.period]


def _why_not_ready(request: LoadRequest, period: Period) -> Steps[Chs3Error | None]:
    """Return the error of a missing ready marker; None if the period is ready."""
    ready_key = request.policies.ready_key or ""
    try:
        missing = yield from request.source.missing_marker(ready_key, period)
    except ConfigurationError as error:
        return error
    if not missing:
        return None
    return NotReadyError(
        f"The ready marker {missing} does not exist yet, so {period} was not loaded. Retries look again: set enough "
        "retries, or leave out policies['ready_key'] if nothing writes a marker."
    )


def _check_manifest(request: LoadRequest, period: Period, manifest: Manifest) -> None:
    """Check that no object is too young."""
    policies = request.policies
    youngest = max(manifest.objects, key=lambda unit: unit.last_modified, default=None)
    # Without a minimum age, clocks do not matter: the storage's may be ahead, and objects may come after `now`.
    if policies.min_object_age_seconds <= 0 or youngest is None:
        return
    if (request.now - youngest.last_modified).total_seconds() < policies.min_object_age_seconds:
        raise NotReadyError(
            f"{youngest.path} was written at {youngest.last_modified:%Y-%m-%d %H:%M:%S} UTC, less than "
            f"policies['min_object_age_seconds']={policies.min_object_age_seconds:g} ago: it may not be complete yet. "
            "Retries look again."
        )


def list_and_inspect(
    request: LoadRequest, periods: Sequence[Period], timer: StepTimer, context: Target | None = None
) -> Steps[tuple[Listed, Target, StepTimer]]:
    """List the objects of periods, and ask every node for its facts.

    Returns:
        The objects, the nodes' facts, and the timer at the end of the listing: any further time counts for the next
        step.

    Raises:
        PreflightError: If the cluster, versions or privileges prevent the load.
    """
    if context is not None:
        listed, timer = yield from _list(request, periods, timer)
        return listed, context, timer
    looks = (_list(request, periods, timer), inspect_target_for_load(request))
    (listed, timer), context = yield from Gather(name="List and inspect", workflows=looks)
    return listed, context, timer


def _list(request: LoadRequest, periods: Sequence[Period], timer: StepTimer) -> Steps[tuple[Listed, StepTimer]]:
    listed = yield from list_ready(request, periods)
    return listed, (yield from timer.end("list"))


def _check_servers(request: LoadRequest, place: TableLocation) -> Steps[None]:
    """Run the cheap checks one after the other, over a single connection to every node."""
    yield from check_constraints(place.nodes, needed_by(request), user_settings=request.settings)
    yield from check_privileges(place.nodes, privileges_of_load(request, place))


def privileges_of_load(request: LoadRequest, location: TableLocation) -> tuple[str, ...]:
    """Return the privileges that a load needs on every node, as written in a GRANT."""
    named_collection, store = request.source.named_collection, request.source.kind
    further = privileges_of_detaching(location.cluster) if request.is_durable else ()
    if request.policies.on_new_columns == "add":
        further = (*further, f"ALTER ADD COLUMN ON {table(location.target)}")
    if request.policies.keep_versions:
        further = (*further, *privileges_of_attaching(location.target, location.ledger))
    if request.policies.may_hold or request.is_approval:
        further = (*further, privilege_of_filling(location.ledger))
    return (*privileges_of_loading(location, named_collection=named_collection, store=store).every, *further)


def needed_by(request: LoadRequest) -> dict[str, SettingValue]:
    """Return the settings that a profile must allow the load to set: name → value."""
    needed = needed_settings(
        null_as_default=request.selection.null_as_default,
        by_sharding_key=request.policies.distribution == "sharding_key",
        store=request.source.kind,
    )
    selection = request.selection
    fields = reading_settings(selection.csv, has_nested_containers=False, has_whole_objects=bool(selection.select))
    return {**fields, **needed}


def inspect_target_for_load(request: LoadRequest) -> Steps[Target]:
    """Ask every node for its facts, and check that a load may start.

    Raises:
        PreflightError: If the cluster, versions, profiles or privileges prevent the load.
    """
    try:
        return (yield from _inspect_target(request))
    except ClickHouseServerError as error:
        if error.code == SETTING_CONSTRAINT:
            yield from explain_refusal(error, needed_by(request), user_settings=request.settings)
        raise


def _inspect_target(request: LoadRequest) -> Steps[Target]:
    place = yield from resolve_table(request)
    place = yield from leave_out_absent(place)
    yield from check_distribution(place, distribution=request.policies.distribution, target=request.target)
    # Old servers, or missing grants, may make the last query fail: the first error is reported.
    names = names_to_look_up(request.settings, request.source.kind)
    looks = (_check_servers(request, place), look_at(place, settings=names, policies_on=OF_A_LOAD))
    context: Target = (yield from Gather(name=f"Look at {len(place.nodes)} nodes", workflows=looks))[1]
    return context
