"""Plan which months to load: those that are not published as they are now, each with the reason."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_provider_chs3.core.cluster.node_facts import TargetContext, inspect_target
from airflow_provider_chs3.core.cluster.topology import TableRequest
from airflow_provider_chs3.core.ledger.comparison import ComparisonStatus, ExpectedMonth, standing
from airflow_provider_chs3.core.ledger.queries import look_up_months
from airflow_provider_chs3.core.ledger.records import MonthOnNode
from airflow_provider_chs3.core.ledger.structure_record import structure_of
from airflow_provider_chs3.core.preflight.target_checks import check_target
from airflow_provider_chs3.core.request.reload import ASKED_FOR, Reload
from airflow_provider_chs3.core.source.key_template import KeyTemplate, MonthKeys
from airflow_provider_chs3.core.source.months_together import PASSES_AT_ONCE, prefixes_of
from airflow_provider_chs3.core.source.s3_source import S3Source
from airflow_provider_chs3.core.values.models import Fingerprint, Month, Node, S3Object, SettingValues, TableName
from airflow_provider_chs3.core.workflow.operations import Gather, Log, Steps
from airflow_provider_chs3.exceptions import SourceError


@dataclass(frozen=True, slots=True)
class MonthObjects:
    """A month's objects, as far as a comparison needs them."""

    count: int
    size_bytes: int
    fingerprint: str


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
    """

    source: S3Source
    months: tuple[Month, ...] | None
    leave_out_empty: bool
    definition: str | None = None
    distribution: str = "where_read"
    settings: SettingValues | None = None
    reload: Reload | None = None


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
    listed = yield from list_months(request.source, request.months)
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


class _Folded:
    """A month's objects, folded into a fingerprint as they are listed: a bucket's keys may not fit into memory."""

    def __init__(self) -> None:
        self.count = self.size_bytes = 0
        self.is_sorted = True
        self._last_path = ""
        self._fingerprint = Fingerprint()

    def add(self, each: S3Object) -> None:
        self.count += 1
        self.size_bytes += each.size_bytes
        self.is_sorted = self.is_sorted and self._last_path < each.path
        self._last_path = each.path
        self._fingerprint.add(each)

    def objects(self) -> MonthObjects:
        return MonthObjects(self.count, self.size_bytes, str(self._fingerprint))


def list_months(source: S3Source, months: Collection[Month] | None) -> Steps[dict[Month, MonthObjects]]:
    """List months in one pass over each prefix that they share, several passes in parallel.

    S3 lists in the order of keys; other storages and ClickHouse may not. A month that was not listed in order is listed
    again, alone.

    Args:
        source: The source of the objects.
        months: The months; None means all that exist.

    Returns:
        Each requested or existing month.

    Raises:
        SourceError: If all were requested, and there is none.
    """
    folded = {month: _Folded() for month in months or ()}
    narrower = source.template.narrower if months is None else None
    passes = [_fold(source, keys, wanted, narrower) for keys, wanted in _passes(source.template, months)]
    # A dozen of ClickHouse's own listings would be a dozen queries to one server.
    at_once = 1 if source.lists_through_clickhouse else PASSES_AT_ONCE
    for first in range(0, len(passes), at_once):
        for found in (yield from _side_by_side(passes[first : first + at_once])):
            folded.update(found)
    if months is None and not folded:
        raise SourceError(
            f"No object of any month under {source.bucket or source.credentials.named_collection}/"
            f"{source.template.text}: check bucket and key."
        )
    listed = {month: found.objects() for month, found in folded.items()}
    for month in (month for month, found in folded.items() if not found.is_sorted):
        _, manifest = yield from source.list_month(month)
        listed[month] = MonthObjects(len(manifest.objects), manifest.size_bytes, manifest.fingerprint)
    return listed


def _passes(template: KeyTemplate, months: Collection[Month] | None) -> list[tuple[MonthKeys, set[Month] | None]]:
    if months is None:
        return [(template.keys_of_all, None)]
    return [*prefixes_of(template, months)]


def _side_by_side(passes: Sequence[Steps[dict[Month, _Folded]]]) -> Steps[list[dict[Month, _Folded]]]:
    if len(passes) == 1:
        return [(yield from passes[0])]
    return (yield from Gather(name=f"List {len(passes)} prefixes", workflows=tuple(passes)))


def _fold(
    source: S3Source,
    keys: MonthKeys,
    wanted: Collection[Month] | None,
    narrower: Callable[[str], Sequence[str]] | None,
) -> Steps[dict[Month, _Folded]]:
    """List the keys with a prefix, and fold them into their months; `None` takes all months."""
    listing, objects = yield from source.list_and_inspect_quickly(keys, narrower=narrower)
    template, start = source.template, len(listing.base)
    months: dict[Month, tuple[MonthKeys, _Folded]] = {}
    last: Month | None = None
    for each in objects:
        key = each.path[start:]
        month = template.month_of(key)
        if month is None or (wanted is not None and month not in wanted):
            continue
        # A hash takes as long as all else, and the next key mostly is of the same month.
        if month is not last:
            if month not in months:
                months[month] = template.keys_of(month), _Folded()
            (of_month, folded), last = months[month], month
        if of_month.select(key, each.size_bytes):
            folded.add(each)
    return {month: folded for month, (_, folded) in months.items() if folded.count}
