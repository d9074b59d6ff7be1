"""Steps 1 and 2 of a load, side by side: the storage lists the objects while the nodes tell of themselves."""

from __future__ import annotations

from airflow_provider_chs3.core.attempt.listing import list_ready_month
from airflow_provider_chs3.core.cluster.absent_replicas import leave_out_absent
from airflow_provider_chs3.core.cluster.node_facts import Surroundings, look_at
from airflow_provider_chs3.core.cluster.topology import check_distribution, check_versions, locate
from airflow_provider_chs3.core.ledger.table import LEDGER_TABLE
from airflow_provider_chs3.core.preflight.privileges import check_privileges
from airflow_provider_chs3.core.preflight.profile_constraints import check_constraints, explain_refusal
from airflow_provider_chs3.core.request.load_request import LoadRequest
from airflow_provider_chs3.core.request.privileges import privileges_of_load
from airflow_provider_chs3.core.source.csv_dialect import reading_settings
from airflow_provider_chs3.core.source.s3_source import S3Source
from airflow_provider_chs3.core.tuning.insert_settings import names_to_look_up, needed_settings
from airflow_provider_chs3.core.values.error_codes import SETTING_CONSTRAINT
from airflow_provider_chs3.core.values.models import Manifest, Node, SettingValue, TableName
from airflow_provider_chs3.core.workflow.operations import Steps, Together
from airflow_provider_chs3.core.workflow.step_timer import Laps
from airflow_provider_chs3.exceptions import ClickHouseServerError


def list_and_look_around(request: LoadRequest, laps: Laps) -> Steps[tuple[S3Source, Manifest, Surroundings, Laps]]:
    """List the month's objects, and ask every node for its facts.

    Args:
        request: The load.
        laps: What it has spent its time on so far.

    Returns:
        The source, with its base known from now on, and the manifest; what the nodes said; the laps, until the end of
        the listing: what the nodes took longer counts to what comes after.

    Raises:
        NotReadyError: If the objects are not there yet.
        PreflightError: If cluster, versions or privileges are in the way.
    """
    looks = (_list(request, laps), _look_around(request))
    try:
        (source, manifest, laps), around = yield Together(name="List and look around", workflows=looks)
    except ClickHouseServerError as error:
        if error.code == SETTING_CONSTRAINT:
            yield from explain_refusal(error, needed_by(request), own=request.settings)
        raise
    return source, manifest, around, laps


def _list(request: LoadRequest, laps: Laps) -> Steps[tuple[S3Source, Manifest, Laps]]:
    source, manifest = yield from list_ready_month(request)
    return source, manifest, (yield from laps.end("list"))


def _check_constraints(request: LoadRequest, nodes: tuple[Node, ...]) -> Steps[None]:
    yield from check_constraints(nodes, needed_by(request), own=request.settings)


def needed_by(request: LoadRequest) -> dict[str, SettingValue]:
    """What a profile must let the load have: name → value.

    Args:
        request: The load.
    """
    needed = needed_settings(
        null_as_default=request.selection.null_as_default,
        by_sharding_key=request.policies.distribution == "sharding_key",
    )
    selection = request.selection
    fields = reading_settings(selection.csv, is_selected=bool(selection.select), has_nested_containers=False)
    return {**fields, **needed}


def _look_around(request: LoadRequest) -> Steps[Surroundings]:
    place = yield from locate(
        target=request.target,
        cluster=request.cluster,
        default_cluster=request.default_cluster,
        ledger=TableName(request.staging_database or "", LEDGER_TABLE),
    )
    place = yield from leave_out_absent(place)
    yield from check_distribution(place, distribution=request.policies.distribution, target=request.target)
    # A server that is too old, or where a grant is missing, may not answer the last one: the first error is told.
    looks = (
        _check_constraints(request, place.nodes),
        check_versions(place.nodes),
        check_privileges(place.nodes, privileges_of_load(request, place)),
        look_at(place, settings=names_to_look_up(request.settings)),
    )
    around: Surroundings = (yield Together(name=f"Look at {len(place.nodes)} nodes", workflows=looks))[3]
    return around
