"""Step 3 of a load: compare periods with the ledger, and decide what of each is loaded."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

from airflow_provider_chs3.core.attempt.load_context import LoadContext, Loads, look_up_all, look_up_caught_up
from airflow_provider_chs3.core.attempt.newer_records import (
    check_listed_since,
    check_none_newer,
    published_meanwhile,
    records_of,
)
from airflow_provider_chs3.core.attempt.period_load import PeriodLoad, Periods, periods_of
from airflow_provider_chs3.core.attempt.resume import PUBLISHED_BY_OWNER, published_by_owner
from airflow_provider_chs3.core.increment.decision import find_increments
from airflow_provider_chs3.core.ledger.comparison import ComparisonStatus, evidence_of, standing
from airflow_provider_chs3.core.ledger.partition_changes import missing_parts
from airflow_provider_chs3.core.ledger.parts import Evidence
from airflow_provider_chs3.core.ledger.records import MonthOnNode
from airflow_provider_chs3.core.load.cleaning import clean_up_published
from airflow_provider_chs3.core.load.outcome import record_unchanged, result_of
from airflow_provider_chs3.core.publication.evidence_renewal import renew_records
from airflow_provider_chs3.core.request.reload import ASKED_FOR
from airflow_provider_chs3.core.sql.quoting import Sql, literal, table
from airflow_provider_chs3.core.values.load_result import LoadResult
from airflow_provider_chs3.core.values.models import Month, Node
from airflow_provider_chs3.core.values.quantities import quantity, size_text
from airflow_provider_chs3.core.workflow.operations import Log, QueryNodes, Steps
from airflow_provider_chs3.exceptions import SourceError, TargetChangedError, TransientError

_BROKEN = "parts of it were broken when a server started, as after a power cut"
_STALE = "a load that another one had taken over from published after it, from a replica that was down meanwhile"
_OF_OTHERS = (ComparisonStatus.ROWS_UNKNOWN, ComparisonStatus.TARGET_CHANGED)
#: Attempts that are looked for are of the last nights.
_MOST_RECORDS = 100


class Checked(NamedTuple):
    """Periods after they were compared with the ledger.

    Args:
        unchanged: The results of those that are published as their objects are.
        to_load: The others.
    """

    unchanged: dict[Month, LoadResult]
    to_load: Periods


def check_periods(loads: Loads) -> Steps[Checked]:
    """Compare periods with the ledger; of those that are published as their objects are, nothing is left to do.

    Args:
        loads: The loads of the periods. These leave: those that `compare` refuses, and with an `ObjectsChangedError`
            those that another load published after this one had listed their objects.
    """
    before = yield from _look_up(loads)
    if not loads.items:
        return Checked({}, periods_of())
    timer = yield from loads.first.timer.end("inspect")
    loads.update(lambda load: replace(load, timer=timer))
    loads.each(lambda load: check_listed_since(load, before[load.request.month]))
    compared = yield from loads.run(lambda load: compare(load, before[load.request.month]))
    same = [load for load in loads if compared[load.request.month][0] is ComparisonStatus.UNCHANGED]
    own = yield from published_by_owner(same, before)
    done = [load for load in same if not load.request.reload or load.request.month in own]
    if done:
        yield from clean_up_published(done, before)
        yield from record_unchanged(done)
        yield from renew_records(done, before)
    unchanged = {load.request.month: _unchanged(load, before[load.request.month], own) for load in done}
    asked_for = {load.request.month for load in same} - unchanged.keys()
    periods = periods_of(
        *(
            PeriodLoad(
                load=load,
                before=before[period],
                reason=ASKED_FOR if period in asked_for else compared[period][1],
            )
            for period, load in loads.items.items()
            if period not in unchanged
        )
    )
    texts = yield from find_increments(periods, {period: found for period, (found, _) in compared.items()})
    for each in periods:
        text = texts[each.period]
        yield from Log(name=f"{each.period}: {each.reason}. {sizes_text(each.load)}{text and ' '}{text}")
    for period, error in periods.failed.items():
        loads.leave(period, error)
    return Checked(unchanged, periods)


def _unchanged(load: LoadContext, before: Mapping[Node, MonthOnNode], own: Collection[Month]) -> LoadResult:
    is_own = load.request.month in own
    status, reason = ("published", PUBLISHED_BY_OWNER) if is_own else ("unchanged", ComparisonStatus.UNCHANGED.value)
    return result_of(load, {node: month.state for node, month in before.items()}, status=status, reason=reason)


def sizes_text(load: LoadContext) -> str:
    """Return how much a load reads, and by how many nodes, for the log."""
    sizes = load.request.source.kind.contents.sizes(load.manifest)
    return f"{sizes}, {quantity(len(load.context.nodes), 'node')}."


def _look_up(loads: Loads) -> Steps[dict[Month, dict[Node, MonthOnNode]]]:
    """Look periods up; those whose rows seem to be somebody else's, once more.

    A server reads the records first, then the parts. What a load recorded and published in between looks like rows
    without a record, or like a change since the newest one; a second look has at least the record of its intent.
    Periods of which this is so leave, with an `ObjectsChangedError`.
    """
    before = yield from loads.ask(look_up_caught_up)
    doubtful = loads.part(lambda load: _seems_of_others(load, before[load.request.month]))
    yield from doubtful.together(_check_no_first_ledger(doubtful))
    now = yield from doubtful.ask(look_up_all)
    doubtful.each(lambda load: _check_none_newer(load, before, now))
    loads.merge(doubtful)
    return before | now


def _seems_of_others(load: LoadContext, before: Mapping[Node, MonthOnNode]) -> bool:
    return standing(before, load.wanted, load.context.table_facts).standing in _OF_OTHERS


_Looks = Mapping[Month, Mapping[Node, MonthOnNode]]


def _check_none_newer(load: LoadContext, before: _Looks, now: _Looks) -> None:
    month = load.request.month
    check_none_newer(month, records_of(before[month]), now[month])


def _check_no_first_ledger(loads: Loads) -> Steps[None]:
    """Check that nodes which had no ledger when these loads inspected them still have none."""
    context = loads.first.context
    sql = Sql(
        f"SELECT count() FROM system.tables WHERE database = {literal(context.ledger.database)} "
        f"AND name = {literal(context.ledger.table)}"
    )
    lacking = [node for node, facts in context.nodes.items() if not facts.has_ledger]
    answers = (yield from QueryNodes(name="Look for a ledger", sql=dict.fromkeys(lacking, sql))) if lacking else {}
    if any(rows[0][0] for rows in answers.values()):
        loads.each(_fail_as_published)


def _fail_as_published(load: LoadContext) -> None:
    raise published_meanwhile(load.request.month)


def compare(load: LoadContext, before: Mapping[Node, MonthOnNode]) -> Steps[tuple[ComparisonStatus, str]]:
    """Decide whether the month is loaded.

    Raises:
        TargetChangedError: If it holds rows of others, and no argument allows to replace them.
        SourceError: If it shrank too much.
    """
    request, target = load.request, load.context.target
    found, nodes, why = standing(before, load.wanted, load.context.table_facts)
    if found is ComparisonStatus.TARGET_CHANGED:
        changed = {node: before[node] for node in nodes}
        if (yield from _are_broken(load, changed)):
            found, why = ComparisonStatus.UNFINISHED, _BROKEN
        elif (yield from _is_of_stale(load, changed)):
            found, why = ComparisonStatus.UNFINISHED, _STALE
    if found in (ComparisonStatus.TARGET_CHANGED, ComparisonStatus.ROWS_UNKNOWN):
        _check_absent(load, nodes)
    where = f"{target}, partition {load.key.partition_id}, on {', '.join(map(str, nodes))}"
    if found is ComparisonStatus.ROWS_UNKNOWN and not request.policies.replace_unknown:
        raise TargetChangedError(
            f"{where}: {why}. To replace them with the objects' rows, give policies={{'replace_unknown': True}}; "
            "to keep them, adopt the month (chs3 adopt), or load into another table."
        )
    if found is ComparisonStatus.TARGET_CHANGED and request.policies.on_target_changed == "fail":
        raise TargetChangedError(
            f"{where}: {why}. A reload would undo that (rows erased on request would come back): if you want it, give "
            "policies={'on_target_changed': 'reload'}."
        )
    if found is ComparisonStatus.FEWER_NODES and request.policies.on_target_changed == "fail":
        raise TargetChangedError(
            f"{where}: {why}. The others may still hold their rows of {request.month}, which would then be there "
            "twice. Load on all nodes, as with cluster=…; if the others are gone for good, give "
            "policies={'on_target_changed': 'reload'}."
        )
    if found is not ComparisonStatus.UNCHANGED:
        _check_shrink(load, before)
    return found, why


def _are_broken(load: LoadContext, months: Mapping[Node, MonthOnNode]) -> Steps[bool]:
    """Check whether all that a published month lacks are parts that a server could not read and put aside.

    Their block numbers show it: each publication has its own.
    """
    missing = {
        node: missing_parts(evidence_of(month.record), month.state)
        for node, month in months.items()
        if month.record and month.record.event == "published"
    }
    if len(missing) < len(months) or not all(missing.values()):
        return False
    target = load.context.target
    sql = Sql(
        "SELECT min_block_number, max_block_number FROM system.detached_parts "
        f"WHERE database = {literal(target.database)} AND table = {literal(target.table)} "
        f"AND partition_id = {literal(load.key.partition_id)} AND position(name, 'broken') > 0"
    )
    ask = QueryNodes(name="Look for parts that were broken when a server started", sql=dict.fromkeys(missing, sql))
    broken = yield from ask
    return all(
        any(first <= part.min_block and part.max_block <= last for first, last in broken[node])
        for node, parts in missing.items()
        for part in parts
    )


def _is_of_stale(load: LoadContext, months: Mapping[Node, MonthOnNode]) -> Steps[bool]:
    """Check whether the partition holds what a superseded attempt had staged before the newest one published.

    On a replica that was down, nobody could drop its staging. This excludes an attempt whose rows were published
    earlier and that somebody put back: its record came first, on nodes that have both.
    """
    context, newest = load.context, {month.record.attempt for month in months.values() if month.record}
    if not context.table_facts.is_replicated or len(newest) != 1:
        return False
    statements = {
        node: Sql(
            f"SELECT attempt, event, evidence, toUnixTimestamp64Milli(recorded_at) FROM {table(context.ledger)} "
            f"WHERE {load.key_on(node).condition} AND event IN ('intent', 'published') "
            f"ORDER BY sequence DESC LIMIT {_MOST_RECORDS}"
        )
        for node in context.nodes
    }
    answers = yield from QueryNodes(name="Look for loads that published too late", sql=statements)
    staged, earlier = set[tuple[str, tuple[str, ...]]](), set[str]()
    for rows in answers.values():
        published = {attempt: at for attempt, event, _, at in reversed(rows) if event == "published"}
        last = max((published[attempt] for attempt in newest & published.keys()), default=0)
        earlier |= {attempt for attempt, at in published.items() if at <= last}
        for attempt, event, evidence, _ in rows:
            if event == "intent" and (parts := Evidence.of_text(evidence).beside.of_parts):
                staged.add((attempt, tuple(sorted(parts))))
    stale = {contents for attempt, contents in staged if attempt not in earlier | newest}
    there = [month.state.contents.of_parts for month in months.values()]
    return all(contents is not None and tuple(sorted(contents)) in stale for contents in there)


def _check_absent(load: LoadContext, nodes: Collection[Node]) -> None:
    """Stop if a replica that is down may have published something that the others do not know."""
    shards = {node.shard_num for node in nodes}
    absent = [node for node in load.context.absent if node.shard_num in shards]
    if absent and load.request.policies.on_target_changed == "fail":
        raise TransientError(
            f"{load.context.target}, {load.request.month}: {', '.join(map(str, nodes))} cannot tell whether a load or "
            f"somebody else wrote the rows there. {', '.join(map(str, absent))} may know, but is down: start it, or "
            "load the month anyway with policies={'on_target_changed': 'reload'}."
        )


def _check_shrink(load: LoadContext, before: Mapping[Node, MonthOnNode]) -> None:
    published = [month.record.source_bytes for month in before.values() if month.record]
    was, is_now = max(published, default=0), load.manifest.size_bytes
    policies = load.request.policies
    wanted_empty = policies.on_no_objects == "empty" and not load.manifest.objects
    if is_now < was * (1 - policies.max_shrink_fraction) and not wanted_empty:
        raise SourceError(
            f"The {load.request.source.kind.contents.name} of {load.request.month} shrank from {size_text(was)} to "
            f"{size_text(is_now)} since they were published, by more "
            f"than policies['max_shrink_fraction']={policies.max_shrink_fraction}: if that is intended, raise it for "
            "this run."
        )
