"""Plan which months to load: those that are not published as they are now, each with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from airflow_provider_chs3.core.cluster.node_facts import TargetContext, inspect_target
from airflow_provider_chs3.core.cluster.topology import TableRequest
from airflow_provider_chs3.core.ledger.comparison import ComparisonStatus, ExpectedMonth, standing
from airflow_provider_chs3.core.ledger.queries import look_up_months
from airflow_provider_chs3.core.ledger.records import MonthOnNode
from airflow_provider_chs3.core.ledger.structure_record import structure_of
from airflow_provider_chs3.core.new_table.creation import create_if_missing
from airflow_provider_chs3.core.new_table.suggestion import NewTableRequest
from airflow_provider_chs3.core.preflight.target_checks import check_target
from airflow_provider_chs3.core.request.reload import ASKED_FOR, Reload
from airflow_provider_chs3.core.source.source import Source
from airflow_provider_chs3.core.values.models import Month, Node, SettingValues, TableName
from airflow_provider_chs3.core.values.month_objects import MonthObjects
from airflow_provider_chs3.core.workflow.operations import Log, Steps


@dataclass(frozen=True, slots=True)
class PlannedMonth:
    """A month of a plan.

    Args:
        month: The month.
        objects: Its objects.
        reason: The reason why it is loaded or not, as a text.
        is_to_load: Whether it is loaded.
        target: The local table.
        has_changed_objects: Whether it is loaded because its objects changed since it was published.
        attempts: The attempts that published what is compared, on any node.
    """

    month: Month
    objects: MonthObjects
    reason: str
    is_to_load: bool
    target: TableName
    has_changed_objects: bool = False
    attempts: tuple[str, ...] = ()

    def __str__(self) -> str:
        verdict = "to load" if self.is_to_load else "nothing to load"
        sizes = f"{self.objects.count} objects, {self.objects.size_bytes:,} bytes"
        return f"{self.month} {verdict}: {self.reason} ({sizes})"


@dataclass(frozen=True, kw_only=True)
class PlanRequest(TableRequest):
    """A request for a plan.

    In addition to the table's arguments:

    Args:
        source: The source of the objects.
        months: The months to compare; None compares all in the bucket.
        leave_out_empty: Whether to skip a month that was never loaded and has no objects. Otherwise the load decides
            what that means.
        definition: Digest of the load's definition; None compares neither it nor the table's structure.
        distribution: Where the load's rows go; see `core.request.load_request.Policies`.
        settings: The user's settings of the load; None if not known.
        reload: What to load again although unchanged, and nothing else: `months` are its months.
        new_table: The table that is created if it is missing; None, the default, creates none.
    """

    source: Source
    months: tuple[Month, ...] | None
    leave_out_empty: bool
    definition: str | None = None
    distribution: str = "where_read"
    settings: SettingValues | None = None
    reload: Reload | None = None
    new_table: NewTableRequest | None = None


def plan_months(request: PlanRequest) -> Steps[list[PlannedMonth]]:
    """Compare the months' objects with what was published.

    Returns:
        All months that were compared, in order.

    Raises:
        SourceError: If all months of a bucket were requested, and it has none.
        PreflightError: If the cluster or the table is missing.
    """
    reload = request.reload
    if reload and (yield from reload.leaves_out_table(request.target, request.cluster)):
        yield from Log(name=f"Nothing to load into {request.target}: this run reloads {reload}.")
        return []
    listed = yield from request.source.summarize_months(request.months)
    if request.new_table and not (yield from create_if_missing(request.new_table, _with_objects(listed))):
        return [_unloaded(request, month, objects) for month, objects in sorted(listed.items())]
    context = yield from inspect_target(request)
    check_target(context, required_settings=())
    published = yield from look_up_months(context, listed)
    wanted = ExpectedMonth(
        definition=request.definition,
        structure=structure_of(context, distribution=request.distribution, settings=request.settings),
    )
    planned = [_planned(request, context, wanted, month, listed[month], published[month]) for month in sorted(listed)]
    for each in planned:
        yield from Log(name=f"{each}.")
    return planned


def _with_objects(listed: Mapping[Month, MonthObjects]) -> list[Month]:
    return [month for month, objects in listed.items() if objects.count]


def _unloaded(request: PlanRequest, month: Month, objects: MonthObjects) -> PlannedMonth:
    """Return the plan for a month without objects, from which no table could be created."""
    is_to_load = not request.leave_out_empty
    return PlannedMonth(month, objects, "it has no objects yet", is_to_load=is_to_load, target=request.target)


def _planned(
    request: PlanRequest,
    context: TargetContext,
    wanted: ExpectedMonth,
    month: Month,
    objects: MonthObjects,
    nodes: Mapping[Node, MonthOnNode],
) -> PlannedMonth:
    found, _, why = standing(nodes, replace(wanted, fingerprint=objects.fingerprint), context.table_facts)
    if request.reload and found is ComparisonStatus.UNCHANGED:
        return PlannedMonth(month, objects, ASKED_FOR, is_to_load=True, target=context.target)
    if found is ComparisonStatus.NEW and not objects.count and request.leave_out_empty:
        return PlannedMonth(month, objects, "it has no objects yet", is_to_load=False, target=context.target)
    return PlannedMonth(
        month,
        objects,
        why,
        is_to_load=found is not ComparisonStatus.UNCHANGED,
        target=context.target,
        has_changed_objects=found is ComparisonStatus.OBJECTS_CHANGED,
        attempts=tuple(sorted({each.record.attempt for each in nodes.values() if each.record})),
    )
