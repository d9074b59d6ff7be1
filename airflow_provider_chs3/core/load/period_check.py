"""Step 3 of a load: compare periods with the ledger, and decide what to load."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace

from airflow_provider_chs3.core.ledger.partition_state import Evidence, PartitionState
from airflow_provider_chs3.core.ledger.period_comparison import (
    Comparison,
    ComparisonStatus,
    held_on,
    is_changed,
    is_elsewhere,
)
from airflow_provider_chs3.core.ledger.records import PeriodOnNode
from airflow_provider_chs3.core.load.decision import (
    OF_OTHERS,
    Add,
    Decision,
    Finish,
    KeepHeld,
    LoadResult,
    PeriodFacts,
    Refusal,
    Refuse,
    Skip,
    decide,
    whole_table_error,
)
from airflow_provider_chs3.core.load.end_attempts import clean_up_published
from airflow_provider_chs3.core.load.finish import approve, check_approved, finish, not_held_error, with_held_policies
from airflow_provider_chs3.core.load.kept_versions import (
    drop_held_of,
    drop_older_versions,
    find_versions,
    validate_held,
)
from airflow_provider_chs3.core.load.load_request import LoadRequest
from airflow_provider_chs3.core.load.new_objects import describe_objects, find_increments
from airflow_provider_chs3.core.load.outcome import record_unchanged, result_of
from airflow_provider_chs3.core.load.period_load import PeriodLoad, Periods, periods_of
from airflow_provider_chs3.core.load.publication import (
    check_none_newer,
    look_up_all,
    look_up_caught_up,
    published_meanwhile,
    records_of,
)
from airflow_provider_chs3.core.load.publish import key_type_message
from airflow_provider_chs3.core.load.renew_records import renew_records
from airflow_provider_chs3.core.load.resume import PUBLISHED_BY_OWNER, find_attempts, published_by_owner
from airflow_provider_chs3.core.load.retry_policy import RELOAD
from airflow_provider_chs3.core.model.models import Node, TableName
from airflow_provider_chs3.core.model.period import WHOLE_TABLE, Period
from airflow_provider_chs3.core.model.quantities import quantity
from airflow_provider_chs3.core.sql.quoting import Sql, is_table, table
from airflow_provider_chs3.core.steps.driving import StepTimer
from airflow_provider_chs3.core.steps.operations import Gather, Log, QueryNodes, Steps
from airflow_provider_chs3.exceptions import (
    Chs3Error,
    NotReadyError,
    PreflightError,
    SourceError,
    TargetChangedError,
    TransientError,
)

_FINISHED = "an earlier load staged it: completing its publication"
_APPROVED = "it was held, and is approved"
_STALE = "a superseded load published after it, from a replica that had been down"
#: Newest records of each partition to search: superseded attempts are recent.
_MOST_RECORDS = 100


def check_periods(loads: Periods) -> Steps[tuple[dict[Period, LoadResult], Periods, set[tuple[Period, str]]]]:
    """Compare periods with the ledger, and decide about them.

    Returns the results of finished periods; the periods to load; and the inserts that earlier tries of this task began.
    """
    first = loads.first
    looks = (_look_up(loads), find_attempts(first.context, list(loads.items), first.request.owner))
    before, attempts = yield from Gather(name="Look up periods", workflows=looks)
    if not loads.items:
        return {}, periods_of(), attempts
    timer = yield from first.timer.end("inspect")
    loads.update(lambda load: with_held_policies(replace(load, timer=timer, before=before[load.period])))
    loads.apply(_check_listed_since)
    loads.apply(_check_not_of_arrivals)
    facts = yield from loads.run(look_at_period)
    same = [load for load in loads if facts[load.period].comparison.status is ComparisonStatus.UNCHANGED]
    owned = published_by_owner(same, attempts)
    for period, load in loads.items.items():
        facts[period] = replace(facts[period], is_reload=_is_reload(load, owned))
    decisions = loads.apply(lambda load: judge_period(load, facts[load.period]))
    results = {
        period: _skipped_result(load.request, period, decision, timer)
        if decision.has_no_objects or facts[period].comparison.status is ComparisonStatus.PINNED
        else _unchanged_result(load, owned)
        for period, load in loads.items.items()
        if isinstance(decision := decisions[period], Skip)
    }
    yield from _settle_unchanged(loads, results)
    periods = yield from _select_loads(loads, results, facts, decisions)
    return results, periods, attempts


def _check_not_of_arrivals(load: PeriodLoad) -> None:
    """Check that a load by period does not replace rows of objects that arrived in others."""
    if load.spread:
        return
    for held in held_on(load.before).values():
        if load.request.is_approval and held.arrival:
            raise not_held_error(
                load,
                f"it is held with all rows of arrival {held.arrival}. Approve that arrival, with "
                "policies={'on_other_periods': 'spread'}",
            )
    structures = {period.record.structure for period in load.before.values() if period.record}
    if any("arrival" in json.loads(text or "{}") for text in structures):
        raise PreflightError(
            f"{load.context.target} {load.period} holds rows of objects of several arrivals, which "
            "policies={'on_other_periods': 'spread'} loaded: a load by period would remove those of other arrivals. "
            "Set that policy, or load into another table."
        )


def _select_loads(
    loads: Periods,
    results: dict[Period, LoadResult],
    facts: Mapping[Period, PeriodFacts],
    decisions: Mapping[Period, Decision],
) -> Steps[Periods]:
    """Return the periods to load, after completing publications of dead attempts."""
    for period, load in loads.items.items():
        if isinstance(decisions[period], KeepHeld) and not facts[period].is_approval:
            results[period] = result_of(load, _states(load), status="held", reason=decisions[period].reason)
    periods = periods_of(
        *(
            replace(load, reason=decisions[period].reason, held_because=decisions[period].held_because)
            for period, load in loads.items.items()
            if period not in results
        )
    )
    results |= yield from _complete_staged(periods, decisions, loads)
    yield from _find_increments(periods, facts)
    for period, error in periods.failed.items():
        loads.set_aside(period, error)
    return periods


def _settle_unchanged(loads: Periods, results: Mapping[Period, LoadResult]) -> Steps[None]:
    """Clean up after periods that stay as they are, and record unchanged ones."""
    stay = [loads.items[period] for period, result in results.items() if not result.has_no_objects]
    unchanged = [load for load in stay if results[load.period].status != "skipped"]
    if not stay:
        return
    workflows = [clean_up_published(stay)]
    if unchanged:
        workflows.append(record_unchanged(unchanged))
        # An approval does not know the definition of the rows.
        if not unchanged[0].request.is_approval:
            workflows.append(renew_records(unchanged))
    yield from Gather(name="Record what is unchanged, and drop what was left of it", workflows=tuple(workflows))


def _complete_staged(
    periods: Periods, decisions: Mapping[Period, Decision], loads: Periods
) -> Steps[dict[Period, LoadResult]]:
    """Publish rows that dead attempts staged, and approved held rows."""
    finishing = periods.select(lambda item: isinstance(decisions[item.period], Finish))
    approved = periods.select(lambda item: isinstance(decisions[item.period], KeepHeld))
    yield from approve(approved)
    finishing.merge(approved)
    completed = yield from finish(finishing)
    published, results = finishing.subset(completed), dict[Period, LoadResult]()
    for period, states in completed.items():
        load = loads.items[period]
        reason = _APPROVED if load.request.is_approval else _FINISHED
        results[period] = result_of(load, states, status="published", reason=reason)
        finishing.items.pop(period)
        periods.items.pop(period)
    yield from drop_held_of(*published)
    # Only approvals keep versions here.
    if published.items and (first := published.first).request.is_approval and first.policies.keep_versions:
        versions, _ = yield from find_versions(first.context)
        yield from drop_older_versions(published, versions)
    finishing.apply(check_approved)
    periods.merge(finishing)
    return results


def _find_increments(periods: Periods, facts: Mapping[Period, PeriodFacts]) -> Steps[None]:
    """Load only the new objects of periods if possible. Refused periods leave."""

    def may_add(item: PeriodLoad) -> bool:
        alone = replace(facts[item.period], why_whole="")
        return item.files.source.has_files and isinstance(decide(alone, item.policies), Add)

    adding = periods.select(may_add)
    reasons = yield from find_increments(adding)
    periods.merge(adding)
    periods.apply(lambda item: check_whole(item, facts[item.period], reasons.get(item.period)))
    for item in periods:
        text = describe_objects(item, reasons.get(item.period, ""))
        yield from Log(name=f"{item.period}: {item.reason}. {sizes_text(item)}{text and ' '}{text}")


def _skipped_result(request: LoadRequest, period: Period, decision: Skip, timer: StepTimer) -> LoadResult:
    return LoadResult(
        status="skipped",
        period=period,
        target=request.target,
        reason=decision.reason,
        has_no_objects=decision.has_no_objects,
        seconds_by_step=timer.seconds,
    )


def judge_without_objects(
    request: LoadRequest, period: Period, objects: int, timer: StepTimer
) -> LoadResult | NotReadyError | None:
    """Return the result or the error of a period without objects; None if it is loaded all the same."""
    match decide(PeriodFacts(objects=objects, contents=request.source.kind.contents.name), request.policies):
        case Skip() as decision:
            return _skipped_result(request, period, decision, timer)
        case Refuse():
            return no_objects_error(request, period)
    return None


def _unchanged_result(load: PeriodLoad, owned: Collection[Period]) -> LoadResult:
    is_own = load.period in owned
    status, reason = ("published", PUBLISHED_BY_OWNER) if is_own else ("unchanged", ComparisonStatus.UNCHANGED.value)
    return result_of(load, _states(load), status=status, reason=reason)


def _states(load: PeriodLoad) -> dict[Node, PartitionState]:
    return {node: period.state for node, period in load.before.items()}


def _is_reload(load: PeriodLoad, owned: Collection[Period]) -> bool:
    request = load.request
    is_asked_for = request.reload is not None or (load.spread is not None and load.spread.again)
    return is_asked_for and not request.is_approval and load.period not in owned


def sizes_text(load: PeriodLoad) -> str:
    """Return the sizes that a load reads, and the number of nodes, for the log."""
    sizes = load.request.source.kind.contents.sizes(load.manifest)
    return f"{sizes}, {quantity(len(load.context.nodes), 'node')}."


def _look_up(loads: Periods) -> Steps[dict[Period, dict[Node, PeriodOnNode]]]:
    """Look periods up; if rows seem to be somebody else's, look again.

    A server reads the records before the parts. A load that published in between looks like rows without a record, or
    like a change since the newest record; the second query returns at least the record of its intent. Periods with
    such a record leave with an `ObjectsChangedError`.
    """
    before = yield from loads.ask(look_up_caught_up)
    doubtful = loads.select(lambda load: load.facts(before[load.period]).comparison.status in OF_OTHERS)
    yield from doubtful.run_together(_check_no_first_ledger(doubtful))
    current = yield from doubtful.ask(look_up_all)
    doubtful.apply(lambda load: check_none_newer(load.period, records_of(before[load.period]), current[load.period]))
    loads.merge(doubtful)
    return before | current


def _check_no_first_ledger(loads: Periods) -> Steps[None]:
    """Check that nodes that had no ledger when these loads inspected them still have none."""
    context = loads.first.context
    sql = Sql(f"SELECT count() FROM system.tables WHERE {is_table(context.ledger)}")
    lacking = [node for node, facts in context.nodes.items() if not facts.has_ledger]
    answers = (yield from QueryNodes(name="Look for a ledger", sql=dict.fromkeys(lacking, sql))) if lacking else {}
    if any(rows[0][0] for rows in answers.values()):
        for load in loads:
            loads.set_aside(load.period, published_meanwhile(load.period))


def look_at_period(load: PeriodLoad) -> Steps[PeriodFacts]:
    """Return the facts about a period; if it seems changed, ask the servers for the cause."""
    known = load.facts(load.before)
    facts = yield from validate_held(load.context, load.period, known, load.before)
    if known.held and not facts.held:
        yield from Log(name=f"The held rows of {load.period} cannot be published any more: {facts.why_not_held}.")
    if facts.comparison.status is not ComparisonStatus.TARGET_CHANGED:
        return facts
    changed = {node: load.before[node] for node in facts.comparison.nodes}
    if other := [node for node, period in changed.items() if is_elsewhere(period)]:
        raise PreflightError(key_type_message(load, str(other[0])))
    if not (yield from _is_of_stale(load, changed)):
        return facts
    return replace(facts, comparison=Comparison(ComparisonStatus.UNFINISHED, facts.comparison.nodes, _STALE))


def judge_period(load: PeriodLoad, facts: PeriodFacts) -> Decision:
    """Decide what happens to a period; a refusal is raised as its error."""
    decision = decide(facts, load.policies)
    if isinstance(decision, Refuse):
        raise _error_of(load, facts, decision)
    return decision


def check_whole(period_load: PeriodLoad, facts: PeriodFacts, reason: str | None) -> None:
    """Check that a period may be loaded whole, if it is not an increment."""
    # Dead attempts and held versions were handled before this point.
    why_whole = facts.comparison.reason if reason is None else reason
    judge_period(period_load, replace(facts, intended="", held=None, why_whole=why_whole))


def allowing_shrink(target: TableName, period: Period) -> str:
    """Return the conf of a run that loads a period again, however much it shrank."""
    asked = {"database": target.database, "table": target.table, "periods": [str(period)], "allow_shrink": True}
    return json.dumps({RELOAD: asked})


def no_objects_error(request: LoadRequest, period: Period) -> NotReadyError:
    """Return the error of a period without objects."""
    source, contents = request.source, request.source.kind.contents
    # A run that reloads the period must load something.
    unchanged = "" if request.reload else "'skip' leaves it unchanged, and "
    return NotReadyError(
        f"{contents.none_of(period, source.place, source.pattern)}. If that is expected, "
        f"set policies={{'on_no_objects': …}}: {unchanged}'empty' publishes it without rows."
    )


def _rows_unknown_error(load: PeriodLoad, where: str) -> TargetChangedError:
    if load.spread:
        return TargetChangedError(
            f"{where} Nothing was published. Adopt the whole table by this load (chs3 adopt --all-periods), or load "
            "into another table."
        )
    return TargetChangedError(
        f"{where} To replace them with the objects' rows, set policies={{'replace_unknown': True}}; to keep them, "
        "adopt the period (chs3 adopt), or load into another table."
    )


_OR_RELOAD = ", or load the period anyway with policies={'on_target_changed': 'reload'}."


def _error_of(load: PeriodLoad, facts: PeriodFacts, refuse: Refuse) -> Chs3Error:
    request, target, period = load.request, load.context.target, load.period
    nodes = ", ".join(map(str, facts.comparison.nodes))
    where = f"{target}, {load.period_partitions}, on {nodes}: {refuse.reason}."
    match refuse.refusal:
        case Refusal.NO_OBJECTS:
            return no_objects_error(request, period)
        case Refusal.ROWS_UNKNOWN:
            return _rows_unknown_error(load, where)
        case Refusal.TARGET_CHANGED:
            return TargetChangedError(
                f"{where} A reload would undo that (rows erased on request would come back): if you want it, set "
                "policies={'on_target_changed': 'reload'}."
            )
        case Refusal.FEWER_NODES:
            return TargetChangedError(
                f"{where} The others may still hold their rows of {period}, which would then be "
                "duplicates. Load on all nodes, as with cluster=…; if the others are gone for good, set "
                "policies={'on_target_changed': 'reload'}."
            )
        case Refusal.REPLICA_DOWN:
            return TransientError(
                f"{target}, {period}: {nodes} cannot tell whether a load or somebody else wrote the rows there. "
                f"{', '.join(map(str, load.absent_of(facts.comparison)))} may know, but is down: start it"
                + ("." if load.policies.is_by_arrival else _OR_RELOAD)
            )
        case Refusal.NOT_HELD:
            return not_held_error(load, refuse.reason)
        case Refusal.WHOLE_TABLE:
            sizes, has_column = request.source.kind.contents.sizes(load.manifest), bool(load.policies.object_column)
            return whole_table_error(target, sizes, refuse.reason, has_object_column=has_column)
        case Refusal.SHRANK:
            return SourceError(
                f"{target if period == WHOLE_TABLE else period}: {refuse.reason}, by more than "
                f"policies['max_shrink_fraction']={request.policies.max_shrink_fraction}. If that is intended, allow "
                f"it for one run of the DAG, by its conf: {allowing_shrink(target, period)}."
            )


def _is_of_stale(load: PeriodLoad, periods: Mapping[Node, PeriodOnNode]) -> Steps[bool]:
    """Check whether the partition holds the staging of an attempt that was superseded before the newest publication.

    Nobody could drop its staging on a replica that was down. This excludes older publications that somebody put back:
    their record came first, on nodes with both.
    """
    context, newest = load.context, {period.record.attempt for period in periods.values() if period.record}
    if not context.table_facts.is_replicated or len(newest) != 1:
        return False
    statements = {
        node: Sql(
            "SELECT attempt, event, evidence, toUnixTimestamp64Milli(recorded_at), partition_id "
            f"FROM {table(context.ledger)} WHERE {load.key_on(node).condition} AND event IN ('intent', 'published') "
            f"ORDER BY sequence DESC LIMIT {_MOST_RECORDS} BY partition_id"
        )
        for node, facts in context.nodes.items()
        if facts.has_ledger
    }
    answers = yield from QueryNodes(name="Look for loads that published too late", sql=statements)
    staged, earlier = set[tuple[str, str, tuple[str, ...]]](), set[str]()
    for rows in answers.values():
        published = {attempt: at for attempt, event, _, at, _ in reversed(rows) if event == "published"}
        last = max((published[attempt] for attempt in newest & published.keys()), default=0)
        earlier |= {attempt for attempt, at in published.items() if at <= last}
        for attempt, event, evidence, _, partition_id in rows:
            if event == "intent" and (parts := Evidence.of_text(evidence).beside.of_parts):
                staged.add((attempt, partition_id, tuple(sorted(parts))))
    stale = {(key, contents) for attempt, key, contents in staged if attempt not in earlier | newest}
    present = [
        (partition.partition_id, partition.state.contents.of_parts)
        for period in periods.values()
        for partition in period.each
        if period.partitions is None or is_changed(partition, table_facts=context.table_facts)
    ]
    return all(contents is not None and (key, tuple(sorted(contents))) in stale for key, contents in present)


def _check_listed_since(load: PeriodLoad) -> None:
    """Check that the ledger's records are older than this load's listing, by durations: clocks may differ."""
    records = (period.record for period in load.before.values() if period.record)
    # Records of the future are from before the node's clock was set back.
    if any(
        0 <= record.age_seconds <= load.timer.of_this_try_seconds and record.fingerprint != load.manifest.fingerprint
        for record in records
    ):
        raise published_meanwhile(load.period)
