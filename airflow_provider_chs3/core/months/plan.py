"""Plan which months to load: those that are not published as they are now, each with the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_provider_chs3.core.cluster.node_facts import TargetContext, inspect_target
from airflow_provider_chs3.core.cluster.row_policies import OF_A_MONTH
from airflow_provider_chs3.core.cluster.topology import TableRequest
from airflow_provider_chs3.core.ledger.comparison import ComparisonStatus, ExpectedMonth, standing
from airflow_provider_chs3.core.ledger.queries import look_up_months
from airflow_provider_chs3.core.ledger.records import MonthOnNode, Record
from airflow_provider_chs3.core.ledger.structure_record import structure_of
from airflow_provider_chs3.core.ledger.table import LedgerKey
from airflow_provider_chs3.core.new_table.creation import create_if_missing
from airflow_provider_chs3.core.new_table.suggestion import NewTableRequest
from airflow_provider_chs3.core.pace.past_loads import Forecast
from airflow_provider_chs3.core.pace.records import read_pace
from airflow_provider_chs3.core.preflight.target_checks import check_target, partition_ids_of
from airflow_provider_chs3.core.preflight.time_zones import check_zones
from airflow_provider_chs3.core.request.reload import ASKED_FOR, Reload
from airflow_provider_chs3.core.source.source import Source
from airflow_provider_chs3.core.values.models import Month, Node, SettingValues, TableName
from airflow_provider_chs3.core.values.month_objects import MonthObjects
from airflow_provider_chs3.core.values.quantities import duration_text, quantity, size_text
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
        new_bytes: Size of the objects that are presumably read, in bytes: of all, or as much as the month grew.
        forecast: The estimate for its load, from past loads; None without enough of them.
    """

    month: Month
    objects: MonthObjects
    reason: str
    is_to_load: bool
    target: TableName
    has_changed_objects: bool = False
    attempts: tuple[str, ...] = ()
    new_bytes: int = 0
    forecast: Forecast | None = None

    def __str__(self) -> str:
        verdict = "to load" if self.is_to_load else "nothing to load"
        return f"{self.month} {verdict}: {self.reason} ({self.objects.sizes})"


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
        on_new_columns: What the load does with columns that the table lacks; see `core.request.load_request.Policies`.
        reload: What to load again although unchanged, and nothing else: `months` are its months.
        new_table: The table that is created if it is missing; None, the default, creates none.
    """

    source: Source
    months: tuple[Month, ...] | None
    leave_out_empty: bool
    definition: str | None = None
    distribution: str = "where_read"
    settings: SettingValues | None = None
    on_new_columns: str = "warn"
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
        return [_without_objects(request, request.target, month, objects) for month, objects in sorted(listed.items())]
    context = yield from inspect_target(request, policies_on=OF_A_MONTH)
    check_target(context, required_settings=())
    if request.settings is not None:
        check_zones(context, request.settings)
    # An empty list of months has no partition to ask for.
    partition_ids = (yield from partition_ids_of(context, sorted(listed))) if listed else {}
    published = yield from look_up_months(context, partition_ids)
    wanted = ExpectedMonth(
        definition=request.definition,
        structure=structure_of(
            context,
            distribution=request.distribution,
            settings=request.settings,
            adds_columns=request.on_new_columns == "add",
        ),
        contents=request.source.kind.contents.name,
    )
    planned = [_planned(request, context, wanted, month, listed[month], published[month]) for month in sorted(listed)]
    for each in planned:
        yield from Log(name=f"{each}.")
    return (yield from _with_forecasts(context, planned))


def _with_forecasts(context: TargetContext, planned: list[PlannedMonth]) -> Steps[list[PlannedMonth]]:
    """Forecast the loads of the months to load, and log what they take together."""
    to_load = [each for each in planned if each.is_to_load and each.objects.count]
    if not to_load or not context.nodes[context.coordinator].has_ledger:
        return planned
    key = LedgerKey(context.target, context.table_facts.uuid, to_load[0].month, "")
    pace = yield from read_pace(context.ledger, key, context.coordinator)
    forecasts = {each.month: pace.forecast(each.new_bytes) for each in to_load}
    planned = [replace(each, forecast=forecasts.get(each.month)) for each in planned]
    if told := forecast_text(planned):
        yield from Log(name=told)
    return planned


def forecast_text(planned: Sequence[PlannedMonth]) -> str:
    """Describe what the loads of a plan take together; empty without enough past loads.

    Args:
        planned: The plan.
    """
    found = [(each, each.forecast) for each in planned if each.forecast]
    if not found:
        return ""
    seconds, staged = sum(each.seconds for _, each in found), max(each.staged_bytes for _, each in found)
    return (
        f"{quantity(len(found), 'month')} to load, {size_text(sum(month.new_bytes for month, _ in found))}: past loads "
        f"of the table suggest about {duration_text(seconds)} one after another, and {size_text(staged)} of disk space "
        "for the largest until it is published."
    )


def _with_objects(listed: Mapping[Month, MonthObjects]) -> list[Month]:
    return [month for month, objects in listed.items() if objects.count]


def _without_objects(request: PlanRequest, target: TableName, month: Month, objects: MonthObjects) -> PlannedMonth:
    """Return the plan for a month that was never loaded and has no objects."""
    is_to_load = not request.leave_out_empty
    reason = f"it has no {request.source.kind.contents.name} yet"
    return PlannedMonth(month, objects, reason, is_to_load=is_to_load, target=target)


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
        return PlannedMonth(
            month, objects, ASKED_FOR, is_to_load=True, target=context.target, new_bytes=objects.size_bytes
        )
    if found is ComparisonStatus.NEW and not objects.count:
        return _without_objects(request, context.target, month, objects)
    records = [each.record for each in nodes.values() if each.record]
    return PlannedMonth(
        month,
        objects,
        why,
        is_to_load=found is not ComparisonStatus.UNCHANGED,
        target=context.target,
        has_changed_objects=found is ComparisonStatus.OBJECTS_CHANGED,
        attempts=tuple(sorted({each.attempt for each in records})),
        new_bytes=_new_bytes(objects, records) if found is ComparisonStatus.OBJECTS_CHANGED else objects.size_bytes,
    )


def _new_bytes(objects: MonthObjects, records: Sequence[Record]) -> int:
    """Return how much a month grew; if it did not, or if no increment can build on it, its whole size."""
    grown = objects.size_bytes - max((each.source_bytes for each in records), default=0)
    return grown if grown > 0 and all(each.base for each in records) else objects.size_bytes
