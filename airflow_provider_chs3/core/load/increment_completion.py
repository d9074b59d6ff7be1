"""Complete staging with the published rows, by hard links to their parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from airflow_provider_chs3.core.ledger.records import PeriodOnNode
from airflow_provider_chs3.core.load.alter_statement import attach_partitions
from airflow_provider_chs3.core.load.increment_base import why_no_base
from airflow_provider_chs3.core.load.object_removal import check_objects, remove_objects
from airflow_provider_chs3.core.load.period_load import PeriodLoad, Periods
from airflow_provider_chs3.core.load.publication import P, Publication, Staged, look_up_all, node_key, periods_text
from airflow_provider_chs3.core.load.staged_rows import count_partitions, staged_of
from airflow_provider_chs3.core.model.error_codes import QUERY_WAS_CANCELLED
from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.model.quantities import quantity
from airflow_provider_chs3.core.sql.quoting import Sql, in_table
from airflow_provider_chs3.core.steps.operations import Gather, Log, Sleep, Steps, TryQueryNodes
from airflow_provider_chs3.core.target.period_partitions import parts_of
from airflow_provider_chs3.core.target.replication import follow
from airflow_provider_chs3.exceptions import BaseChangedError, ClickHouseServerError, VerificationError

#: REPLACE PARTITION cancels merges of its partition: with a load every few minutes, long merges would never end.
_LONGEST_WAIT_FOR_MERGES_SECONDS = 600
#: Most merges of a night's parts end within a second: the pauses double up to the longest.
_FIRST_WAIT_SECONDS, _LONGEST_POLL_SECONDS = 0.25, 5.0


class Bases(NamedTuple):
    """The published partitions of periods that objects are added to."""

    periods: Periods
    current: Mapping[Period, Mapping[Node, PeriodOnNode]]


def look_at_bases(periods: Periods, *, first: bool = False) -> Steps[Bases]:
    """Wait for merges of periods and for replicas, and look the periods up again; `check_bases` comes next."""
    looked = periods.select(lambda item: item.adds and item.attaches_first is first)
    if not looked.items:
        return Bases(looked, {})
    context = looked.first.context
    yield from looked.run_together(follow(context, context.target))
    looks = (_wait_for_merges(list(looked)), looked.ask(look_up_all))
    has_waited, current = yield from Gather(name="Look at what is published", workflows=looks)
    if has_waited:
        # Merges have replaced parts meanwhile.
        yield from looked.run_together(follow(context, context.target))
        current = yield from looked.ask(look_up_all)
    return Bases(looked, current)


def check_bases(periods: Periods, bases: Bases) -> None:
    """Remember the published parts for `_attach`. Periods with a changed base leave."""
    looked = bases.periods.subset(periods.items)
    looked.failed = {period: error for period, error in bases.periods.failed.items() if period in periods.items}
    looked.apply(lambda item: require_base(item, item.before, bases.current[item.period]))
    for period, error in looked.failed.items():
        periods.set_aside(period, error)
    periods.update(lambda item: replace(item, before=bases.current.get(item.period, item.before)))


def require_base(load: Publication, before: Mapping[Node, PeriodOnNode], current: Mapping[Node, PeriodOnNode]) -> None:
    """Check that the published period is still the base that the load decided on.

    Raises:
        BaseChangedError: If it changed.
    """
    reason = why_no_base(current, load.context.table_facts)
    attempts = [
        {period.record.attempt for period in periods.values() if period.record} for periods in (before, current)
    ]
    if not reason and attempts[0] != attempts[1]:
        reason = "another load published it"
    if reason:
        raise BaseChangedError(f"{load.context.target}, {load.period}, changed while objects were added: {reason}.")


def begin_increments(periods: Periods) -> Steps[None]:
    """Attach published rows that must precede the new ones, as no other load can publish any more."""
    first = periods.select(lambda item: item.adds and item.attaches_first)
    yield from first.run_together(_attach_first(first))
    periods.merge(first)


def _attach_first(periods: Periods) -> Steps[None]:
    staged = yield from count_partitions(periods.first, name="Count what is staged")
    periods.update(lambda item: replace(item, staged=staged_of(item, staged)))
    check_bases(periods, (yield from look_at_bases(periods, first=True)))
    yield from _attach_published(periods)
    if not periods.items:
        return
    counting = count_partitions(periods.first, name="Count what is staged with the published rows")
    states, complete = yield from Gather(
        name="Check what was attached", workflows=(look_up_all(list(periods)), counting)
    )
    current = dict(zip(periods.items, states, strict=True))
    periods.update(lambda item: prove_attached(item, staged_of(item, complete), current[item.period]))
    yield from periods.advance(_drop_removed_rows)


def complete_increments(periods: Periods) -> Steps[None]:
    """Attach the published rows to verified new rows, unless they were attached first."""
    removing = periods.select(lambda item: bool(item.increment and item.increment.removed))
    yield from removing.run(lambda item: check_objects(item, item.staged))
    periods.merge(removing)
    added = periods.select(lambda item: item.adds)
    yield from added.run_together(_attach_published(added))
    periods.merge(added)


def _attach_published(periods: Periods) -> Steps[None]:
    """Attach the published partitions to staging on every node, once."""
    # Other replicas of the shard follow. A repeated ATTACH would double rows, so staging is never reused.
    yield from periods.ask(_attach, is_repeatable=False)


def prove_attached(period_load: P, complete: Mapping[Node, Staged], current: Mapping[Node, PeriodOnNode]) -> P:
    """Prove that the published rows are staged beside the new ones.

    Raises:
        BaseChangedError: If somebody changed the published rows, or other rows were attached.
        VerificationError: If staging got rows of other periods.
    """
    load = period_load
    require_base(load, period_load.before, current)
    for node, after in complete.items():
        _check_attached(load, node, period_load.staged[node], after, (period_load.before[node], current[node]))
    assert load.increment is not None
    rows = {node_key(node): after.rows - period_load.staged[node].rows for node, after in complete.items()}
    return replace(period_load, increment=replace(load.increment, attached_rows=rows), staged=complete)


def _drop_removed_rows(period_load: PeriodLoad) -> Steps[PeriodLoad]:
    """Remove the rows of overwritten and deleted objects from the attached ones."""
    increment = period_load.increment
    if increment is None or not increment.removed:
        return period_load
    staged = yield from remove_objects(period_load)
    rows = {node_key(node): on_node.rows for node, on_node in staged.items()}
    return replace(period_load, increment=replace(increment, attached_rows=rows), staged=staged)


def _attach(period_loads: Sequence[PeriodLoad]) -> Steps[Sequence[PeriodLoad]]:
    load = period_loads[0]
    published = (
        (node, key)
        for item in period_loads
        for node in load.context.publishers
        for key in _ids_to_attach(item, item.before[node], item.staged[node])
    )
    periods = periods_text(period_loads)
    try:
        yield from attach_partitions(
            load.context,
            load.context.target,
            load.staging,
            published,
            name=f"Attach the published rows of {periods}",
            query_id=f"{load.attempt.name}_attach",
        )
    except ClickHouseServerError as error:
        if error.code == QUERY_WAS_CANCELLED:
            raise
        raise BaseChangedError(f"The published rows of {periods} cannot be attached: {error}") from error
    return period_loads


def _ids_to_attach(load: Publication, published: PeriodOnNode, staged: Staged) -> list[str]:
    """Return the partitions to attach: those with staged rows, or all of them if that is unknown.

    User checks need the whole period.
    """
    is_of_all = load.attaches_first or not load.period_partitions.of_part or bool(load.requested_checks)
    filled = [partition.partition_id for partition in published.each if partition.state.rows]
    return [key for key in filled if is_of_all or staged.at(key).rows]


def _check_attached(
    load: Publication, node: Node, before: Staged, after: Staged, published: tuple[PeriodOnNode, PeriodOnNode]
) -> None:
    """Check by hashes that staging holds exactly the parts that the target had before or after."""
    for key in {*before.partitions, *after.partitions, *_ids_to_attach(load, published[0], before)}:
        attached = Counter(after.at(key).of_parts or ())
        attached.subtract(before.at(key).of_parts or ())
        rows = after.at(key).rows - before.at(key).rows
        states = [period.at(key).state for period in published]
        expected = [(state.rows, Counter(state.contents.of_parts or ())) for state in states]
        if after.at(key).of_parts is None or (rows, +attached) not in expected or min(attached.values(), default=0) < 0:
            raise BaseChangedError(
                f"Staging {load.staging} on {node} got {rows} of the {states[0].rows} published rows of "
                f"{load.period}, or other parts: somebody changed or merged them in the meantime."
            )
    if after.other_rows != before.other_rows:
        raise VerificationError(
            f"Staging {load.staging} on {node} got rows of other periods: somebody else writes to it. Nothing was "
            "published."
        )


def _wait_for_merges(period_loads: Sequence[PeriodLoad]) -> Steps[bool]:
    """Wait a bounded time until merges of the periods end, and return whether any ran.

    Users who may not see merges do not wait.
    """
    loads = period_loads
    context, texts = loads[0].context, periods_text(loads)
    sql = Sql(
        f"SELECT max(elapsed), min(progress) FROM system.merges WHERE {in_table(context.target)} "
        f"AND {parts_of([load.period_partitions for load in loads])} HAVING count() > 0"
    )
    waited_seconds = 0.0
    while waited_seconds < _LONGEST_WAIT_FOR_MERGES_SECONDS:
        answers = yield from TryQueryNodes(name="Look for merges of the period", sql=dict.fromkeys(context.nodes, sql))
        running = list(_parse_merges(answers.values()))
        if not running:
            return waited_seconds > 0
        if not waited_seconds:
            seconds, progress = max(running)
            yield from Log(
                name=f"Waiting for merges of {texts} on {quantity(len(running), 'node')}, which publishing would "
                f"cancel: the longest has run for {seconds:.0f} s and is {progress:.0%} done."
            )
        pause_seconds = min(max(waited_seconds, _FIRST_WAIT_SECONDS), _LONGEST_POLL_SECONDS)
        yield from Sleep(name="Wait for merges of the period", seconds=pause_seconds)
        waited_seconds += pause_seconds
    yield from Log(
        name=f"Merges of {texts} still run after {_LONGEST_WAIT_FOR_MERGES_SECONDS} s: not waiting any longer."
    )
    return True


def _parse_merges(answers: Iterable[object]) -> Iterable[tuple[float, float]]:
    return (tuple(row) for answer in answers if isinstance(answer, list) for row in answer)
