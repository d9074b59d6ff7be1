"""Complete staging with the published rows, by hard links to their parts, but for those of replaced objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from airflow_provider_chs3.core.ledger.object_records import recorded_rows
from airflow_provider_chs3.core.ledger.records import PeriodOnNode
from airflow_provider_chs3.core.load.new_objects import why_no_base
from airflow_provider_chs3.core.load.period_load import PeriodLoad, Periods
from airflow_provider_chs3.core.load.publication import (
    P,
    Publication,
    Staged,
    count_partitions,
    count_staged,
    look_up_all,
    node_key,
    periods_text,
    staged_of,
)
from airflow_provider_chs3.core.load.staging_tables import attach_partitions, superseded
from airflow_provider_chs3.core.model.error_codes import QUERY_WAS_CANCELLED
from airflow_provider_chs3.core.model.models import Node, Unit
from airflow_provider_chs3.core.model.quantities import quantity
from airflow_provider_chs3.core.sql.quoting import (
    Sql,
    identifier,
    in_table,
    is_table,
    literal,
    literals,
    readable,
    table,
)
from airflow_provider_chs3.core.steps.operations import Gather, Log, QueryNodes, Sleep, Steps, TryQueryNodes
from airflow_provider_chs3.core.target.period_partitions import parts_of
from airflow_provider_chs3.core.target.replication import follow
from airflow_provider_chs3.exceptions import BaseChangedError, ClickHouseServerError, VerificationError

#: REPLACE PARTITION cancels merges of its partition: with a load every few minutes, long merges would never end.
_LONGEST_WAIT_FOR_MERGES_SECONDS = 600
#: Most merges of a night's parts end within a second: the pauses double up to the longest.
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.25, 5.0


def look_at_bases(periods: Periods, *, first: bool = False) -> Steps[Periods]:
    """Return the periods that objects are added to, as they are once merges have ended; `check_bases` comes next."""
    looked = periods.select(lambda item: item.adds and item.attaches_first is first)
    context = periods.first.context
    yield from looked.run_together(follow(context, context.target))
    if not looked.items:
        return looked
    looks = (_wait_for_merges(list(looked)), looked.ask(look_up_all))
    has_waited, current = yield from Gather(name="Look at what is published", workflows=looks)
    if has_waited:
        # Merges have replaced parts meanwhile.
        yield from looked.run_together(follow(context, context.target))
        current = yield from looked.ask(look_up_all)
    looked.update(lambda item: replace(item, last_seen=current[item.period]))
    return looked


def check_bases(periods: Periods, bases: Periods) -> None:
    """Remember the published parts for `_attach`. Periods with a changed base leave."""
    looked = bases.subset(periods.items)
    looked.failed = {period: error for period, error in bases.failed.items() if period in periods.items}
    looked.apply(lambda item: require_base(item, item.last_seen))
    for period, error in looked.failed.items():
        periods.set_aside(period, error)
    seen = {item.period: item.last_seen for item in looked}
    periods.update(lambda item: replace(item, before=seen.get(item.period, item.before)))


def require_base(load: Publication, current: Mapping[Node, PeriodOnNode]) -> None:
    """Check that the published period is still the base that the load decided on."""
    reason = why_no_base(current, load.context.table_facts)
    attempts = [
        {period.record.attempt for period in periods.values() if period.record} for periods in (load.before, current)
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
    yield from periods.advance(_remove_objects)


def complete_increments(periods: Periods) -> Steps[None]:
    """Attach the published rows to verified new rows, unless they were attached first."""
    yield from periods.run(_check_objects)
    added = periods.select(lambda item: item.adds)
    yield from _attach_published(added)
    periods.merge(added)


def _attach_published(periods: Periods) -> Steps[None]:
    """Attach the published partitions to staging on every node, once."""
    # Other replicas of the shard follow. A repeated ATTACH would double rows, so staging is never reused.
    yield from periods.ask(_attach, is_repeatable=False)


def prove_attached(load: P, complete: Mapping[Node, Staged], current: Mapping[Node, PeriodOnNode]) -> P:
    """Prove that the published rows are staged beside the new ones."""
    require_base(load, current)
    for node, after in complete.items():
        _check_attached(load, node, after, current[node])
    assert load.increment is not None
    rows = {node_key(node): after.rows - load.staged[node].rows for node, after in complete.items()}
    return replace(load, increment=replace(load.increment, attached_rows=rows), staged=complete)


def _attach(period_loads: Sequence[PeriodLoad]) -> Steps[Sequence[PeriodLoad]]:
    load = period_loads[0]
    published = (
        (node, key) for item in period_loads for node in load.context.publishers for key in _ids_to_attach(item, node)
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


def _ids_to_attach(load: Publication, node: Node) -> list[str]:
    """Return the partitions to attach: those with staged rows; all if that is unknown, or if user checks need them."""
    is_of_all = load.attaches_first or not load.period_partitions.of_part or bool(load.requested_checks)
    filled = [partition.partition_id for partition in load.before[node].each if partition.state.rows]
    return [key for key in filled if is_of_all or load.staged[node].at(key).rows]


def _check_attached(load: Publication, node: Node, after: Staged, current: PeriodOnNode) -> None:
    """Check by hashes that staging got exactly the parts that the target had before or has now."""
    before, published = load.staged[node], load.before[node]
    for key in {*before.partitions, *after.partitions, *_ids_to_attach(load, node)}:
        attached = Counter(after.at(key).of_parts or ())
        attached.subtract(before.at(key).of_parts or ())
        rows = after.at(key).rows - before.at(key).rows
        states = [period.at(key).state for period in (published, current)]
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


def _wait_for_merges(loads: Sequence[PeriodLoad]) -> Steps[bool]:
    """Wait a bounded time until merges of the periods end, as far as the user sees them; return whether any ran."""
    context, texts = loads[0].context, periods_text(loads)
    sql = Sql(
        f"SELECT max(elapsed), min(progress) FROM system.merges WHERE {in_table(context.target)} "
        f"AND {parts_of([load.period_partitions for load in loads])} HAVING count() > 0"
    )
    waited_seconds = 0.0
    while waited_seconds < _LONGEST_WAIT_FOR_MERGES_SECONDS:
        answers = yield from TryQueryNodes(name="Look for merges of the period", sql=dict.fromkeys(context.nodes, sql))
        running = [row for answer in answers.values() if isinstance(answer, list) for row in answer]
        if not running:
            return waited_seconds > 0
        if not waited_seconds:
            seconds, progress = max(running)
            yield from Log(
                name=f"Waiting for merges of {texts} on {quantity(len(running), 'node')}, which publishing would "
                f"cancel: the longest has run for {seconds:.0f} s and is {progress:.0%} done."
            )
        pause_seconds = min(max(waited_seconds, _FIRST_PAUSE_SECONDS), _LONGEST_PAUSE_SECONDS)
        yield from Sleep(name="Wait for merges of the period", seconds=pause_seconds)
        waited_seconds += pause_seconds
    yield from Log(
        name=f"Merges of {texts} still run after {_LONGEST_WAIT_FOR_MERGES_SECONDS} s: not waiting any longer."
    )
    return True


#: A mutation waits for a free thread, and forever if merges are stopped.
_LONGEST_STANDSTILL_SECONDS = 600
_FIRST_LOOK_SECONDS = 0.1


def _remove_objects(load: PeriodLoad) -> Steps[PeriodLoad]:
    """Remove the rows of overwritten and deleted objects from staging, and verify that by object.

    Staging holds only published rows, and `object_column` has the object of each. The published partition stays as it
    is: the DELETE runs on hard links, and rewrites only parts with such rows.
    """
    increment = load.increment
    if increment is None or not increment.removed:
        return load
    removed = set(increment.removed)
    rows_by_node = yield from _count_objects(load, name="Count the published rows of each object")
    yield from _check_recorded(load, increment.base, rows_by_node)
    shards = {node.shard_num for node in load.context.publishers if removed & rows_by_node[node].keys()}
    if shards:
        yield from _delete_rows(load, increment.removed, shards)
    left = yield from _count_objects(load, name="Count the rows that are left of each object")
    staged = yield from count_staged(load, name="Count what is left in staging")
    for node, rows in left.items():
        kept = {path: count for path, count in rows_by_node[node].items() if path not in removed}
        if rows != kept or sum(rows.values()) != staged[node].rows:
            raise BaseChangedError(
                f"The DELETE in staging {load.staging} on {node} left {staged[node].rows} rows instead of exactly the "
                f"{sum(kept.values())} of the other objects."
            )
    attached_rows = {node_key(node): on_node.rows for node, on_node in staged.items()}
    return replace(load, increment=replace(increment, attached_rows=attached_rows), staged=staged)


def _check_objects(load: PeriodLoad) -> Steps[None]:
    """Check that staging holds exactly the rows of the kept and the new objects, if rows of others were removed."""
    increment = load.increment
    if increment is None or not increment.removed:
        return
    new = {unit.path for unit in load.files.manifest.objects}
    kept = {unit.path for unit in increment.period.objects} - new
    rows_by_node = yield from _count_objects(load, name="Count the staged rows of each object")
    for node, rows in rows_by_node.items():
        counts = (sum(rows[path] for path in kept), sum(rows[path] for path in new), sum(rows.values()))
        attached, staged_rows = increment.attached_on(node), load.staged[node].rows
        if counts != (attached, staged_rows - attached, staged_rows):
            raise BaseChangedError(
                f"Staging {load.staging} on {node} holds {counts[0]} rows of the objects that were kept and "
                f"{counts[1]} of those that were read, but {attached} and {staged_rows - attached} were counted."
            )


def all_objects(load: Publication) -> Steps[tuple[Sequence[Unit], Sequence[int | None] | None]]:
    """Return all objects of the period and their rows, as far as files give them, for a record without a base."""
    assert load.increment is not None
    objects, rows = load.increment.period.objects, load.file_rows
    if rows is None:
        return objects, None
    known = yield from recorded_rows(load.context, load.period, base=load.increment.base)
    known |= {unit.path: count for unit, count in zip(load.objects, rows, strict=True)}
    return objects, [known[unit.path] for unit in objects]


def _count_objects(load: PeriodLoad, *, name: str) -> Steps[dict[Node, Counter[str]]]:
    """Count the rows of every object, by `object_column`."""
    column = identifier(load.policies.object_column or "")
    sql = Sql(
        f"SELECT toString({column}) AS path, count() FROM {table(load.staging)} "
        f"WHERE {load.period_partitions.rows_of(load.staging)} GROUP BY path"
    )
    answers = yield from load.context.on_each(name=name, sql=sql)
    return {node: Counter(dict(rows)) for node, rows in answers.items()}


def _check_recorded(load: PeriodLoad, base: str, rows_by_node: Mapping[Node, Counter[str]]) -> Steps[None]:
    """Check that the column has only recorded objects, with their recorded numbers of rows."""
    recorded = yield from recorded_rows(load.context, load.period, base=base)
    published = sum((rows_by_node[node] for node in load.context.publishers), Counter[str]())
    where = f"{load.policies.object_column} of {load.context.target}"
    if unknown := sorted(published.keys() - recorded.keys()):
        raise BaseChangedError(f"{where}: {published[unknown[0]]} rows name {unknown[0]!r}, which was not loaded.")
    if load.policies.on_other_periods == "leave_out":
        return
    for path, rows in recorded.items():
        if rows is not None and published[path] != rows:
            raise BaseChangedError(f"{where}: {published[path]} rows name {path}, which has {rows}.")


def _delete_rows(load: PeriodLoad, paths: Collection[str], shards: Collection[int]) -> Steps[None]:
    """Delete the rows of objects, and wait as long as servers make progress."""
    condition = f"{identifier(load.policies.object_column or '')} IN ({literals(paths)})"
    scope = f"DELETE IN PARTITION ID {literal(load.period_partitions.value)} WHERE"
    if load.period_partitions.of_part:
        scope = f"DELETE WHERE {load.period_partitions.rows_of(load.staging)} AND"
    sql = Sql(f"ALTER TABLE {table(load.staging)} {scope} {condition}")
    try:
        yield from QueryNodes(
            name="Remove the rows of overwritten and deleted objects from staging",
            sql={node: sql for node in load.context.publishers if node.shard_num in shards},
            # A wait for the statement would end with the connection's timeout, without a reason.
            settings={"mutations_sync": 0},
            query_id=f"{load.attempt.name}_delete",
        )
    except ClickHouseServerError as error:
        if error.code == QUERY_WAS_CANCELLED:
            raise
        raise BaseChangedError(f"Rows of objects cannot be removed from {load.staging}: {error}") from error
    nodes = [node for node in load.context.nodes if node.shard_num in shards]
    before, waited_seconds, still_seconds = None, 0.0, 0.0
    while (progress := (yield from _read_progress(load, nodes))) is not None:
        still_seconds = 0.0 if progress != before else still_seconds
        if still_seconds >= _LONGEST_STANDSTILL_SECONDS:
            raise BaseChangedError(
                f"The DELETE in staging {load.staging} made no progress for {_LONGEST_STANDSTILL_SECONDS} s: merges "
                "are stopped, or other merges take all threads of the pool."
            )
        pause_seconds = min(max(waited_seconds, _FIRST_LOOK_SECONDS), _LONGEST_PAUSE_SECONDS)
        yield from Sleep(name="Wait for the DELETE in staging", seconds=pause_seconds)
        before, waited_seconds, still_seconds = progress, waited_seconds + pause_seconds, still_seconds + pause_seconds


def _read_progress(load: PeriodLoad, nodes: Collection[Node]) -> Steps[tuple[int, list[float]] | None]:
    """Return the progress of the DELETE on all nodes; None once it is done.

    A replica that does not know the DELETE yet shows no mutation, and neither does dropped staging.
    """
    staging = load.staging
    of_staging = in_table(staging)
    sql = Sql(
        "SELECT count() = countIf(is_done) AND count() > 0, sum(parts_to_do), "
        f"max({readable('latest_fail_reason')}), (SELECT count() FROM system.tables WHERE {is_table(staging)}) "
        f"FROM system.mutations WHERE {of_staging}"
    )
    answers = yield from QueryNodes(name="Look at the DELETE in staging", sql=dict.fromkeys(nodes, sql))
    for node, ((is_done, _, reason, is_there),) in answers.items():
        if not is_there:
            raise superseded(load.attempt)
        if reason and not is_done:
            raise BaseChangedError(f"The DELETE in staging {staging} fails on {node}: {reason}")
    if all(is_done for ((is_done, *_),) in answers.values()):
        return None
    running = Sql(f"SELECT sum(progress) FROM system.merges WHERE {of_staging}")
    shares = yield from TryQueryNodes(name="Look at its progress", sql=dict.fromkeys(nodes, running))
    known = [answer[0][0] for answer in shares.values() if isinstance(answer, list)]
    return sum(parts for ((_, parts, *_),) in answers.values()), known
