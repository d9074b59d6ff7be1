"""Plan which periods to load: those that are not published as they are now, each with the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeAlias

from airflow_provider_chs3.core.files.source import Source
from airflow_provider_chs3.core.files.table_creation import create_if_missing
from airflow_provider_chs3.core.files.table_suggestion import NewTableRequest
from airflow_provider_chs3.core.ledger.object_records import unfinished_periods
from airflow_provider_chs3.core.ledger.past_loads import Forecast, read_pace
from airflow_provider_chs3.core.ledger.period_comparison import (
    ComparisonStatus,
    ExpectedPeriod,
    compare,
    held_version,
    was_published,
)
from airflow_provider_chs3.core.ledger.queries import look_up_periods
from airflow_provider_chs3.core.ledger.recording import add_records, structure_of
from airflow_provider_chs3.core.ledger.records import Held, PeriodOnNode, Record
from airflow_provider_chs3.core.ledger.table import ARRIVED, LedgerKey, lacks_look, make_loads_table
from airflow_provider_chs3.core.load.arrivals import (
    changes_of_arrival,
    deleted_text,
    not_as_published,
    recorded_of_arrivals,
)
from airflow_provider_chs3.core.load.decision import (
    KeepHeld,
    PeriodFacts,
    Refusal,
    Refuse,
    Skip,
    decide,
    held_text,
    whole_table_error,
)
from airflow_provider_chs3.core.load.held_arrivals import find_held, held_of_same
from airflow_provider_chs3.core.load.kept_versions import validate_held
from airflow_provider_chs3.core.load.load_request import Policies, definition_of, digest_of
from airflow_provider_chs3.core.load.new_objects import find_changes, why_table_is_read
from airflow_provider_chs3.core.load.retry_policy import Reload
from airflow_provider_chs3.core.model.freshness import FreshBy
from airflow_provider_chs3.core.model.models import (
    Manifest,
    Node,
    ObjectChanges,
    PeriodObjects,
    SettingValues,
    TableName,
)
from airflow_provider_chs3.core.model.period import WHOLE_TABLE, Grain, Period
from airflow_provider_chs3.core.model.quantities import duration_text, quantity, size_text
from airflow_provider_chs3.core.sql.quoting import Sql, table
from airflow_provider_chs3.core.steps.operations import Log, Steps
from airflow_provider_chs3.core.target.node_facts import Target, inspect_target
from airflow_provider_chs3.core.target.period_partitions import partitions_of
from airflow_provider_chs3.core.target.privileges import OF_A_PERIOD
from airflow_provider_chs3.core.target.replication import check_databases
from airflow_provider_chs3.core.target.target_checks import check_target, find_grain
from airflow_provider_chs3.core.target.topology import TableRequest
from airflow_provider_chs3.exceptions import Chs3Error

_NOTHING_KNOWN = PeriodFacts()
#: With more objects, a plan does not say which changed: listing them one by one would take seconds and memory.
_MOST_OBJECTS = 10_000
#: Objects of one task: with more, what a task of its own costs a period is lost in what its rows take, and a failure of
#: the insert costs more than it saves.
_MOST_BYTES = 1024**3

#: Periods, or what returns them, or all of them, once the length of the table's periods is known.
WantedPeriods: TypeAlias = tuple[Period, ...] | Callable[[Grain], tuple[Period, ...] | Grain]


@dataclass(frozen=True, slots=True)
class PlannedPeriod:
    """A period of a plan."""

    period: Period
    objects: PeriodObjects
    reason: str
    is_to_load: bool
    target: TableName
    has_changed_objects: bool = False
    changes: str = ""
    attempts: tuple[str, ...] = ()
    new_bytes: int = 0
    forecast: Forecast | None = None
    is_blocked: bool = False
    is_as_published: bool = False

    @property
    def to_do(self) -> str:
        """The action of a load: `blocked`, `load` or `leave`."""
        return "blocked" if self.is_blocked else "load" if self.is_to_load else "leave"

    def __str__(self) -> str:
        verdict = {"blocked": "blocked", "load": "to load", "leave": "nothing to load"}[self.to_do]
        changes = f": {self.changes}" if self.changes else ""
        return f"{self.period} {verdict}: {self.reason}{changes} ({self.objects.sizes})"


@dataclass(frozen=True, kw_only=True)
class PlanRequest(TableRequest):
    """A request for a plan."""

    source: Source
    periods: WantedPeriods
    leave_out_empty: bool
    definition: str | None = None
    policies: Policies = field(default_factory=Policies)
    settings: SettingValues | None = None
    reload: Reload | None = None
    new_table: NewTableRequest | None = None
    writes: bool = False
    fresh_by: FreshBy | None = None
    now: datetime


def compared_by(loaded: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a request for what a plan compares besides the objects, from those of a `LoadRequest`."""
    policies, files = loaded["policies"], {"file_format": loaded["format"], "compression": loaded["compression"]}
    return {
        "definition": digest_of(definition_of(loaded["selection"], policies, **files)),
        "policies": policies,
        "settings": loaded["settings"],
    }


def plan_loads(request: PlanRequest) -> Steps[list[PlannedPeriod]]:
    """Compare the periods' objects with what was published, and log what is found."""
    reload = request.reload
    if reload and (yield from reload.leaves_out_table(request.target, request.cluster)):
        yield from Log(name=f"Nothing to load into {request.target}: this run reloads {reload}.")
        return []
    planned, context = yield from compare_periods(request)
    if context is None:
        return planned
    for plan in planned:
        yield from Log(name=f"{plan}.")
    planned = yield from _add_forecasts(context, planned)
    if request.fresh_by and (due := due_text(planned, request.fresh_by, request.now)):
        yield from Log(name=due)
    if request.fresh_by and request.writes:
        yield from _record_look(context, request, request.fresh_by, planned)
    return planned


def periods_of_other_table(request: PlanRequest, reload: Reload) -> Steps[list[PlannedPeriod]]:
    """Return a period in each period of another table that a run reloads, for what follows the load of this one."""
    grain, _ = yield from find_grain(request)
    periods = sorted({Period.of(period.begin, grain) for period in reload.periods})
    reason, nothing = f"this run reloads {reload}", PeriodObjects(0, 0, "")
    return [PlannedPeriod(period, nothing, reason, is_to_load=False, target=request.target) for period in periods]


def compare_periods(request: PlanRequest) -> Steps[tuple[list[PlannedPeriod], Target | None]]:
    """Compare the periods' objects with what was published, without a word; return the facts of nodes, too."""
    if request.policies.is_by_arrival:
        return (yield from _compare_arrivals(request))
    periods, context = yield from _wanted(request)
    listed = yield from request.source.summarize_periods(periods)
    if request.new_table and request.writes:
        with_objects = [period for period, objects in listed.items() if objects.count]
        yield from create_if_missing(request.new_table, with_objects)
    context = context or (yield from inspect_target(request, policies_on=OF_A_PERIOD))
    if request.new_table and not all(facts.target for facts in context.nodes.values()):
        # Its load creates it.
        return [_planned(request, request.target, *values) for values in sorted(listed.items())], None
    check_target(context, settings=request.settings)
    check_databases(context)
    # An empty list of periods has no partition to ask for.
    owns = (yield from partitions_of(context, sorted(listed))) if listed else {}
    published = yield from look_up_periods(context, owns)
    wanted = _wanted_of(request, context)
    planned = list[PlannedPeriod]()
    for period, objects in sorted(listed.items()):
        nodes = published[period]
        records = [node.record for node in nodes.values() if node.record]
        expected = replace(wanted, fingerprint=objects.fingerprint)
        facts = yield from _facts_of(request, context, period, nodes, expected)
        planned.append(_planned(request, context.target, period, objects, facts, records))
    return (yield from _add_changes(request, context, planned, published)), context


def _wanted_of(request: PlanRequest, context: Target) -> ExpectedPeriod:
    """Return what periods are compared with, apart from their objects."""
    return ExpectedPeriod(
        definition=request.definition,
        structure=structure_of(
            context,
            distribution=request.policies.distribution,
            settings=request.settings,
            adds_columns=request.policies.on_new_columns == "add",
        ),
        contents=request.source.kind.contents.name,
    )


def _compare_arrivals(request: PlanRequest) -> Steps[tuple[list[PlannedPeriod], Target]]:
    """Compare the objects of arrivals with those whose rows the table holds, whatever periods these are of."""
    source = request.source
    periods = request.periods(source.arrival_grain) if callable(request.periods) else request.periods
    if isinstance(periods, Grain):
        periods = tuple((yield from source.summarize_periods(periods)))
    source, listed = yield from source.list_periods(periods)
    context = yield from inspect_target(request, policies_on=OF_A_PERIOD)
    check_target(context, settings=request.settings)
    check_databases(context)
    unfinished = yield from unfinished_periods(context)
    held = yield from find_held(context)
    recorded = yield from recorded_of_arrivals(context, source, sorted(listed))
    touched = {period: {item.period for item in items} for period, items in recorded.items()}
    known = sorted(set[Period]().union(*touched.values()))
    before = (yield from look_up_periods(context, (yield from partitions_of(context, known)))) if known else {}
    wanted = _wanted_of(request, context)
    changed = not_as_published(before, wanted, context.table_facts)
    decisions = {
        period: decide(PeriodFacts(comparison=compare(before[period], wanted, context.table_facts)), request.policies)
        for period in changed
    }
    planned = list[PlannedPeriod]()
    for period, manifest in sorted(listed.items()):
        changes = changes_of_arrival(recorded[period], manifest)
        reason = "a dead load did not finish" if unfinished else ""
        if not_published := sorted(changed & touched[period]):
            reason = f"{', '.join(map(str, not_published))} not as published"
        stops = [f"{of}: {decisions[of].reason}" for of in not_published if isinstance(decisions[of], Refuse)]
        same = held_of_same(period, manifest, wanted.definition or "", held.get(str(period), {}))
        arrival = _planned_arrival(request, context.target, period, manifest, changes, reason, same)
        if stops and not request.reload:
            arrival = replace(arrival, reason=f"its load will stop: {stops[0]}", is_blocked=True)
        planned.append(arrival)
    return planned, context


def _planned_arrival(
    request: PlanRequest,
    target: TableName,
    period: Period,
    manifest: Manifest,
    changes: ObjectChanges,
    other_reason: str,
    held: Held | None,
) -> PlannedPeriod:
    policies, deleted = request.policies, changes.deleted
    has_objects = bool(manifest.objects or deleted)
    if policies.on_deleted_objects == "keep":
        changes = replace(changes, deleted=())
    is_blocked = bool(changes.deleted) and policies.on_deleted_objects == "fail"
    is_changed = bool(changes.counts or other_reason)
    reason = str(changes) or other_reason or ComparisonStatus.UNCHANGED.value
    if request.reload:
        reason = f"this run reloads {request.reload}"
    if is_blocked:
        reason = f"its load will stop: {deleted_text(target, period, deleted)}"
    if not (has_objects or is_changed):
        reason = "it has no objects yet"
    held = None if request.reload else held
    if held and is_changed:
        reason = held_text(held)
    is_missing = not has_objects and policies.on_no_objects == "fail" and not request.leave_out_empty
    to_read = changes.to_read(manifest, changes.overwritten)
    return PlannedPeriod(
        period,
        PeriodObjects.of(manifest),
        reason,
        is_to_load=(is_changed and held is None) or is_missing or request.reload is not None,
        target=target,
        has_changed_objects=bool(changes.counts),
        is_blocked=is_blocked,
        is_as_published=has_objects and not is_changed,
        new_bytes=to_read.size_bytes,
    )


def _add_changes(
    request: PlanRequest,
    context: Target,
    planned: list[PlannedPeriod],
    published: Mapping[Period, Mapping[Node, PeriodOnNode]],
) -> Steps[list[PlannedPeriod]]:
    """Say which objects changed, of the newest of these periods: an overwritten one may be a mistake."""
    changed, objects = dict[Period, Mapping[Node, PeriodOnNode]](), 0
    for period in reversed([period for period in planned if period.has_changed_objects]):
        objects += period.objects.count
        if objects <= _MOST_OBJECTS and request.source.kind.contents.name == "objects":
            changed[period.period] = published[period.period]
    if not changed:
        return planned
    try:
        changes = yield from find_changes(request.source, context, changed)
    except Chs3Error:
        # Planning needs no access to object records; the load reports why a period cannot be loaded.
        return planned
    return [replace(period, changes=changes.get(period.period, "")) for period in planned]


def _facts_of(
    request: PlanRequest,
    context: Target,
    period: Period,
    nodes: Mapping[Node, PeriodOnNode],
    wanted: ExpectedPeriod,
) -> Steps[PeriodFacts]:
    comparison, reason = compare(nodes, wanted, context.table_facts), None
    is_table = period == WHOLE_TABLE and was_published(nodes)
    if is_table and comparison.status is ComparisonStatus.OBJECTS_CHANGED and not request.reload:
        key = LedgerKey.on(context, context.coordinator, WHOLE_TABLE)
        reason = yield from why_table_is_read(request.source, request.policies, context, key, nodes)
    held, why_not_held = held_version(nodes, wanted, context.table_facts)
    facts = PeriodFacts(
        comparison=comparison, held=held, why_not_held=why_not_held, why_whole=reason, is_published_table=is_table
    )
    return (yield from validate_held(context, period, facts, nodes))


def _wanted(request: PlanRequest) -> Steps[tuple[tuple[Period, ...] | Grain, Target | None]]:
    """Return the periods to plan, and the facts of the nodes if it takes these to know how long periods are."""
    if not callable(request.periods):
        return request.periods, None
    may_lack = request.new_table is not None
    grain, context = yield from find_grain(request, may_lack=may_lack, policies_on=OF_A_PERIOD)
    return request.periods(grain), context


def _add_forecasts(context: Target, planned: list[PlannedPeriod]) -> Steps[list[PlannedPeriod]]:
    """Forecast the loads of the periods to load, and log what they take together."""
    to_load = [period for period in planned if period.is_to_load and period.objects.count]
    if not to_load or not context.nodes[context.coordinator].has_loads:
        return planned
    pace = yield from read_pace(context)
    forecasts = {period.period: pace.forecast(period.new_bytes) for period in to_load}
    planned = [replace(period, forecast=forecasts.get(period.period)) for period in planned]
    if expected := forecast_text(planned):
        yield from Log(name=expected)
    return planned


def forecast_text(planned: Sequence[PlannedPeriod]) -> str:
    """Describe what the loads of a plan take together; empty without enough past loads."""
    forecasts = [(period, period.forecast) for period in planned if period.forecast]
    if not forecasts:
        return ""
    seconds = sum(forecast.seconds for _, forecast in forecasts)
    staged = max(forecast.staged_bytes for _, forecast in forecasts)
    together = f"about {duration_text(seconds)} one after another" if seconds >= 1 else "under a second"
    return (
        f"{quantity(len(forecasts), 'period')} to load, {size_text(sum(period.new_bytes for period, _ in forecasts))}: "
        f"past loads of the table suggest {together}, and {size_text(staged)} of "
        "disk space for the largest until it is published."
    )


def due_text(planned: Sequence[PlannedPeriod], fresh_by: FreshBy, at: datetime) -> str:
    """Describe whether loads that begin at a moment bring the newest ended period in time; empty if none has ended."""
    ended = [(complete, period) for period in planned if (complete := fresh_by.completed_at(period.period, at))]
    if not ended:
        return ""
    missing = [item for item in ended if not item[1].is_as_published]
    if not missing:
        newest, _ = max(ended, key=lambda item: item[0])
        return f"{newest} is loaded: the table is fresh until {fresh_by.local(fresh_by.due_at(newest.shifted(1)))}."
    oldest, period = min(missing, key=lambda item: item[0])
    due_at = fresh_by.due_at(oldest)
    left = (due_at - at).total_seconds() - sum(period.forecast.seconds for period in planned if period.forecast)
    text = f"{oldest} {'was' if due_at < at else 'is'} due {fresh_by.local(due_at)}"
    if period.to_do != "load":
        return f"{text}, but {'it has ' * period.reason.startswith('no ')}{period.reason}."
    if due_at < at or period.forecast is None:
        return f"{text}."
    outcome = f"done {duration_text(left)} before" if left >= 0 else f"{duration_text(-left)} late"
    return f"{text}: by their forecast, the loads will be {outcome}."


def _record_look(
    context: Target, request: PlanRequest, fresh_by: FreshBy, planned: Sequence[PlannedPeriod]
) -> Steps[None]:
    """Record, once, that the newest period that has ended is unchanged: no load would look at it."""
    ended = fresh_by.newest_ended([plan.period for plan in planned if plan.is_as_published], request.now)
    if ended is None:
        return
    newest, since = ended
    yield from make_loads_table(context)
    key = LedgerKey.on(context, context.coordinator, newest)
    is_arrival = request.policies.is_by_arrival
    lacks = lacks_look(str(fresh_by), since, is_arrival=is_arrival)
    looks = Sql(
        # A load that is still running may know newer objects.
        f"SELECT {lacks} AND argMax(event, (sequence, recorded_at)) != 'inserting' "
        f"FROM {table(context.loads)} WHERE {key.condition}"
    )
    ((is_missing,),) = yield from context.on_coordinator(name="See whether a load has looked since", sql=looks)
    if is_missing:
        look = (context.coordinator, key, {"fresh_by": str(fresh_by)})
        yield from add_records(context, ARRIVED if is_arrival else "unchanged", [look], name="Record the look")


def _planned(
    request: PlanRequest,
    target: TableName,
    period: Period,
    objects: PeriodObjects,
    known: PeriodFacts = _NOTHING_KNOWN,
    records: Sequence[Record] = (),
) -> PlannedPeriod:
    comparison = known.comparison
    contents, has_changed = request.source.kind.contents.name, comparison.status is ComparisonStatus.OBJECTS_CHANGED
    facts = replace(
        known,
        objects=objects.count,
        contents=contents,
        size_bytes=objects.size_bytes,
        published_bytes=max((record.source_bytes for record in records), default=0),
        is_reload=request.reload is not None and not request.reload.approve,
        is_approval=request.reload is not None and request.reload.approve,
    )
    decision = decide(facts, request.policies)
    is_skipped = isinstance(decision, Skip) or (isinstance(decision, KeepHeld) and not facts.is_approval)
    reason = decision.reason
    if isinstance(decision, Skip) and decision.has_no_objects and request.reload:
        # The load then fails: the run must not look as if it had loaded them again.
        is_skipped = False
    if decision.held_because:
        reason = f"its load will be held: {decision.held_because}"
    if isinstance(decision, Refuse):
        if decision.refusal is Refusal.WHOLE_TABLE:
            has_column = bool(request.policies.object_column)
            reason = str(whole_table_error(target, objects.sizes, reason, has_object_column=has_column))
        reason = f"its load will stop: {reason}"
    if comparison.status is ComparisonStatus.NEW and not objects.count:
        is_skipped, reason = is_skipped or request.leave_out_empty, f"it has no {contents} yet"
    return PlannedPeriod(
        period,
        objects,
        reason,
        is_to_load=not is_skipped,
        target=target,
        has_changed_objects=has_changed and not is_skipped,
        attempts=tuple(sorted({record.attempt for record in records})),
        is_blocked=isinstance(decision, Refuse) and not is_skipped,
        is_as_published=isinstance(decision, Skip) and comparison.status is ComparisonStatus.UNCHANGED,
        new_bytes=_new_bytes(objects, records) if has_changed else objects.size_bytes,
    )


def _new_bytes(objects: PeriodObjects, records: Sequence[Record]) -> int:
    """Return how much a period grew; if it did not, or if no increment can build on it, its whole size."""
    grown = objects.size_bytes - max((record.source_bytes for record in records), default=0)
    return grown if grown > 0 and all(record.base for record in records) else objects.size_bytes


def group_periods(planned: Sequence[PlannedPeriod], *, most_periods: int, most_groups: int) -> list[list[Period]]:
    """Group periods to load, in their order, into small groups; large ones are alone, if there are not too many."""
    to_load = sorted((period for period in planned if period.is_to_load), key=lambda period: period.period)
    most_bytes, all_bytes = _MOST_BYTES, sum(period.objects.size_bytes for period in to_load)
    while len(groups := _groups(to_load, most_periods, most_bytes)) > most_groups and most_bytes < all_bytes:
        most_bytes *= 2
    return groups


def _groups(to_load: Sequence[PlannedPeriod], most_periods: int, most_bytes: int) -> list[list[Period]]:
    groups: list[list[Period]] = []
    size_bytes = 0
    for period in to_load:
        size_bytes += period.objects.size_bytes
        if not groups or len(groups[-1]) == most_periods or size_bytes > most_bytes:
            groups.append([])
            size_bytes = period.objects.size_bytes
        groups[-1].append(period.period)
    return groups
