"""Find out which of several months are loaded together, and plan their insert."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_provider_chs3.core.attempt.discovery import check_manifest, check_ready, inspect_target_for_load
from airflow_provider_chs3.core.attempt.insert_plan import InsertPlan
from airflow_provider_chs3.core.attempt.load_context import LoadContext
from airflow_provider_chs3.core.attempt.months_together import GroupOfFiles
from airflow_provider_chs3.core.attempt.retry_policy import RetryState
from airflow_provider_chs3.core.group.dead_groups import drop_dead_groups
from airflow_provider_chs3.core.increment.decision import find_increment, why_not_alone
from airflow_provider_chs3.core.load.month_check import check_month
from airflow_provider_chs3.core.load.planning import ComparedMonth, plan_objects
from airflow_provider_chs3.core.preflight.partition_key import is_of_month, key_column, parts_of_key
from airflow_provider_chs3.core.preflight.replicas import find_replicas
from airflow_provider_chs3.core.preflight.target_checks import check_target, partition_ids_of
from airflow_provider_chs3.core.preflight.time_zones import check_zones
from airflow_provider_chs3.core.request.load_request import LoadRequest
from airflow_provider_chs3.core.source.source import Source
from airflow_provider_chs3.core.tuning.exact_settings import REQUIRED_SETTINGS
from airflow_provider_chs3.core.values.load_result import LoadResult
from airflow_provider_chs3.core.values.models import Manifest, Month
from airflow_provider_chs3.core.values.month_group import MonthGroup
from airflow_provider_chs3.core.workflow.lockstep import in_lockstep
from airflow_provider_chs3.core.workflow.operations import Gather, Log, Steps
from airflow_provider_chs3.core.workflow.step_timer import StepTimer
from airflow_provider_chs3.exceptions import Chs3Error

#: Workflows that ask the storage at the same time.
_READY_AT_ONCE = 8


@dataclass(frozen=True, kw_only=True)
class GroupPlan:
    """Months that are loaded together.

    Args:
        load: The load of all their objects.
        plan: The plan of its insert.
        months: The months.
    """

    load: LoadContext
    plan: InsertPlan
    months: tuple[ComparedMonth, ...]


@dataclass(frozen=True, kw_only=True)
class Checked:
    """Months after they were compared with the ledger.

    Args:
        unchanged: The results of months that need no load.
        to_load: The months that can be loaded together. All others are loaded by themselves, and those loads say why.
    """

    unchanged: tuple[LoadResult, ...] = ()
    to_load: tuple[ComparedMonth, ...] = ()


def check_months(request: LoadRequest, months: Sequence[Month], timer: StepTimer) -> Steps[Checked]:
    """List the months' objects, ask every node for its facts, and compare each month with the ledger.

    Args:
        request: The load; its month is none of them.
        months: The months.
        timer: The time spent so far.

    Raises:
        PreflightError: If the cluster, versions or privileges prevent the load.
    """
    looks = (_list(request, months), inspect_target_for_load(request))
    (source, manifests), context = yield from Gather(name="List and inspect", workflows=looks)
    check_target(context, required_settings=REQUIRED_SETTINGS, object_column=request.policies.object_column)
    check_zones(context, request.settings)
    if not manifests:
        return Checked()
    context = yield from find_replicas(context)
    partition_ids = yield from partition_ids_of(context, sorted(manifests))
    timer = yield from timer.end("list")
    loads = [
        LoadContext.of(
            replace(request, month=month),
            context,
            RetryState(),
            source=source,
            manifest=manifest,
            partition_id=partition_ids[month],
            timer=timer,
        )
        for month, manifest in manifests.items()
    ]
    checked = yield from in_lockstep([_check(load) for load in loads], name=_name(loads, request))
    yield from drop_dead_groups(loads)
    return Checked(
        unchanged=tuple(each for each in checked if isinstance(each, LoadResult)),
        to_load=tuple(each for each in checked if isinstance(each, ComparedMonth)),
    )


def _name(loads: Sequence[LoadContext], request: LoadRequest) -> str:
    months = MonthGroup(tuple(load.request.month for load in loads))
    return replace(loads[0].attempt, month=months, nonce=request.nonce).name


def _list(request: LoadRequest, months: Sequence[Month]) -> Steps[tuple[Source, dict[Month, Manifest]]]:
    """Return the objects of the months that are ready to be loaded."""
    source, manifests = yield from request.source.list_months(months)
    ready: list[Month] = []
    for first in range(0, len(months), _READY_AT_ONCE):
        some = months[first : first + _READY_AT_ONCE]
        asked = tuple(_is_ready(replace(request, month=month), manifests[month]) for month in some)
        answers = yield from Gather(name="Look for ready markers", workflows=asked)
        ready += [month for month, is_ready in zip(some, answers, strict=True) if is_ready]
    return source, {month: manifests[month] for month in ready}


def _is_ready(request: LoadRequest, manifest: Manifest) -> Steps[bool]:
    try:
        yield from check_ready(request)
        check_manifest(request, manifest)
    except Chs3Error:
        return False
    return bool(manifest.objects)


def _check(load: LoadContext) -> Steps[LoadResult | ComparedMonth]:
    load, checked = yield from check_month(load)
    if isinstance(checked, LoadResult):
        return checked
    decision = yield from find_increment(load, checked.before, checked.found)
    text = decision.text and f" {decision.text}"
    yield from Log(name=f"{load.request.month}: {checked.reason}. {load.files.manifest.sizes}.{text}")
    return ComparedMonth(load=decision.load, to_load=checked)


def plan_group(request: LoadRequest, months: Sequence[ComparedMonth], timer: StepTimer) -> Steps[GroupPlan | None]:
    """Plan one insert of all months' objects.

    Args:
        request: The load; its month is none of them.
        months: The months.
        timer: The time spent so far.

    Returns:
        The plan; None if the partition key is not of a loaded column, so that no row would show its month.

    Raises:
        Chs3Error: As in `core.load.planning.plan_objects`.
    """
    load = _of_all(request, months, timer)
    plan = yield from plan_objects(load)
    same = [each for each in months if not _differs(each, plan)]
    if len(same) < len(months):
        if len(same) < 2:
            return None
        load = _of_all(request, same, timer)
        plan = yield from plan_objects(load)
    context, loaded = load.context, plan.reading.loaded
    of_key, column = next((each for each in loaded if each.column.in_partition_key), None), key_column(context)
    if of_key is None or column is None:
        return None
    parts = yield from parts_of_key(context)
    written = of_key.cast(null_as_default=False).value
    condition = is_of_month(column, parts, written, _partition_ids(same), request.source.kind.path)
    load = replace(load, group=_group(same, is_of_month=condition))
    return GroupPlan(load=(yield from load.end_step("plan")), plan=plan, months=tuple(same))


def _of_all(request: LoadRequest, months: Sequence[ComparedMonth], timer: StepTimer) -> LoadContext:
    first = months[0].load
    objects = (each for month in months for each in month.load.files.manifest.objects)
    load = LoadContext.of(
        replace(request, month=first.request.month),
        first.context,
        RetryState(),
        source=first.files.source,
        manifest=Manifest.of(objects),
        partition_id=first.key.partition_id,
        timer=timer,
    )
    return replace(load, group=_group(months, is_of_month="1"))


def _group(months: Sequence[ComparedMonth], *, is_of_month: str) -> GroupOfFiles:
    return GroupOfFiles(
        MonthGroup(tuple(each.month for each in months)),
        is_of_month=is_of_month,
        largest_bytes=max(each.load.files.manifest.size_bytes for each in months),
    )


def _differs(each: ComparedMonth, plan: InsertPlan) -> bool:
    return each.load.increment is not None and bool(why_not_alone(each.load, each.to_load.before, plan.reading))


def _partition_ids(months: Sequence[ComparedMonth]) -> Mapping[str, str]:
    return {each.path: month.load.key.partition_id for month in months for each in month.load.files.manifest.objects}
