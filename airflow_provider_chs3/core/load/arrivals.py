"""Find which objects of an arrival changed since they were loaded, and complete what dead loads left of others.

An arrival is a period by the keys of objects; their rows are of any periods of the table.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from airflow_provider_chs3.core.files.source import Source
from airflow_provider_chs3.core.ledger.object_records import (
    RecordedObject,
    loaded_objects,
    recorded_objects,
    unfinished_periods,
)
from airflow_provider_chs3.core.ledger.period_comparison import ComparisonStatus, ExpectedPeriod, compare
from airflow_provider_chs3.core.ledger.records import PeriodOnNode, record_of, restored_of
from airflow_provider_chs3.core.load.decision import Decision, Skip, Whole
from airflow_provider_chs3.core.load.end_attempts import end_attempts_with
from airflow_provider_chs3.core.load.finish import finish
from airflow_provider_chs3.core.load.kept_versions import drop_held_of
from airflow_provider_chs3.core.load.period_check import allowing_shrink
from airflow_provider_chs3.core.load.period_load import PeriodLoad, Spread
from airflow_provider_chs3.core.load.publication import CATCH_UP_SECONDS, Increment, look_up_caught_up
from airflow_provider_chs3.core.load.renew_records import renew_records
from airflow_provider_chs3.core.load.staging_tables import Attempt, nonce_of, staging_of
from airflow_provider_chs3.core.model.models import Manifest, Node, ObjectChanges, TableName, Unit
from airflow_provider_chs3.core.model.period import WHOLE_TABLE, Period
from airflow_provider_chs3.core.model.quantities import quantity, size_text
from airflow_provider_chs3.core.sql.quoting import Sql, literal, one_of, table
from airflow_provider_chs3.core.steps.driving import Batch
from airflow_provider_chs3.core.steps.operations import Log, Steps
from airflow_provider_chs3.core.target.node_facts import Target
from airflow_provider_chs3.core.target.period_partitions import PeriodPartitions, partitions_of
from airflow_provider_chs3.core.target.replication import follow
from airflow_provider_chs3.core.target.table_facts import TableFacts
from airflow_provider_chs3.exceptions import Chs3Error, SourceError


def find_changed(load: PeriodLoad) -> Steps[PeriodLoad]:
    """Return the load of the changed objects of an arrival, after completing publications of dead attempts."""
    context, listed = load.context, load.manifest
    if context.absent:
        # A replica may lack rows of other arrivals, and the objects of this one say nothing of them.
        yield from follow(context, context.target, wait_seconds=CATCH_UP_SECONDS)
    unfinished = yield from _finish(load)
    recorded, changes = yield from _compare_arrival(load)
    if load.request.reload:
        known = {item.unit.path for item in recorded}
        changes = replace(changes, overwritten=tuple(unit.path for unit in listed.objects if unit.path in known))
    held_because = _check_shrink(load, recorded)
    changed = yield from _find_changed_periods(load, {item.period for item in recorded} - unfinished.keys())
    removed = (*changes.overwritten, *changes.deleted)
    spread = Spread(
        is_arrival=True,
        listed=(str(load.period), listed.fingerprint),
        periods=periods_by_path(recorded, removed),
        recorded=len({item.unit.path for item in recorded}),
        changed=changed,
        unfinished=unfinished,
    )
    increment = Increment(base="", number=0, attaches_first=False, period=listed, attached_rows={})
    # A table has one such load at a time: two would touch the same periods.
    attempt = Attempt(context.target, (WHOLE_TABLE,), load.attempt.nonce)
    load = load.with_objects(changes.to_read(listed, removed), increment)
    return replace(load, attempt=attempt, changes=changes, spread=spread, held_because=held_because)


def _compare_arrival(load: PeriodLoad) -> Steps[tuple[list[RecordedObject], ObjectChanges]]:
    """Return the loaded objects of an arrival, and how those that are listed differ, as far as that is to be loaded."""
    of_arrivals = yield from recorded_of_arrivals(load.context, load.files.source, [load.period])
    recorded, policy = of_arrivals[load.period], load.policies.on_deleted_objects
    changes = changes_of_arrival(recorded, load.manifest)
    if changes.deleted and policy == "fail":
        raise SourceError(deleted_text(load.context.target, load.period, changes.deleted))
    return recorded, replace(changes, deleted=changes.deleted if policy == "remove" else ())


def periods_by_path(recorded: Iterable[RecordedObject], paths: Iterable[str]) -> dict[str, frozenset[Period]]:
    """Return the periods that hold rows of some objects, by path."""
    periods: dict[str, set[Period]] = {path: set() for path in paths}
    for item in recorded:
        if item.unit.path in periods:
            periods[item.unit.path].add(item.period)
    return {path: frozenset(of_path) for path, of_path in periods.items()}


def _find_changed_periods(load: PeriodLoad, periods: Collection[Period]) -> Steps[frozenset[Period]]:
    """Return the periods that do not hold what was loaded into them, or were loaded by another definition."""
    if not periods:
        return frozenset()
    partitions = yield from partitions_of(load.context, sorted(periods))
    items = [load_of_period(load, period, of_period) for period, of_period in partitions.items()]
    before = yield from Batch({item.period: item for item in items}, is_joint=True).ask(look_up_caught_up)
    changed = not_as_published(before, replace(load.wanted, fingerprint=None), load.context.table_facts)
    yield from _give_records(
        [replace(item, before=before[item.period]) for item in items if item.period not in changed]
    )
    return changed


def _give_records(unchanged: Sequence[PeriodLoad]) -> Steps[None]:
    """Give replicas that were down the records of unchanged periods: the others may be down next time."""
    lacking = [item for item in unchanged if item.has_lacking_replica]
    if not lacking:
        return
    records = [record_of(item.before) for item in lacking]
    bases = [(item.period, record.base) for item, record in zip(lacking, records, strict=True)]
    recorded = yield from recorded_objects(lacking[0].context, bases)
    known = [
        item.with_objects(objects)
        for item, record, objects in zip(lacking, records, recorded, strict=True)
        if objects.fingerprint == record.fingerprint
    ]
    if known:
        yield from renew_records(known)


def not_as_published(
    before: Mapping[Period, Mapping[Node, PeriodOnNode]], wanted: ExpectedPeriod, table_facts: TableFacts
) -> frozenset[Period]:
    """Return the periods that do not hold what was loaded into them; pinned ones hold what somebody restored."""
    stay = (ComparisonStatus.UNCHANGED, ComparisonStatus.PINNED)
    return frozenset(
        period
        for period, nodes in before.items()
        if compare(nodes, wanted, table_facts).status not in stay
        or ((restored := restored_of(nodes)) and not restored.is_pinned)
    )


def changes_of_arrival(recorded: Collection[RecordedObject], listed: Manifest) -> ObjectChanges:
    """Return how the objects of an arrival differ from those whose rows a table holds."""
    units = {item.unit.path: item.unit for item in recorded}
    changes = ObjectChanges.between(Manifest.of(units.values()), listed)
    # An object may have been overwritten since a load of some of its periods; and a load by period may have left out
    # rows of others.
    mixed = {unit.path for _, unit, _, arrival in recorded if not arrival or unit.content != units[unit.path].content}
    return replace(changes, overwritten=tuple(sorted({*changes.overwritten, *mixed} - {*changes.deleted})))


def judge_arrival(load: PeriodLoad) -> Steps[Decision]:
    """Decide what a load would do about an arrival, without writing anything."""
    _, changes = yield from _compare_arrival(load)
    return Whole(str(changes)) if changes.counts else Skip(ComparisonStatus.UNCHANGED.value)


def _finish(load: PeriodLoad) -> Steps[dict[Period, Manifest]]:
    """Complete the publications of dead attempts, and return the objects of the periods where this is impossible."""
    context = load.context
    unfinished = yield from unfinished_periods(context)
    if not unfinished:
        return {}
    partitions = yield from partitions_of(context, sorted(unfinished))
    items = dict[Period, PeriodLoad]()
    for period, (attempt, base) in unfinished.items():
        item = load_of_period(load, period, partitions[period])
        ask = recorded_objects(context, [(period, base)], intended=attempt)
        items[period] = item.with_objects((yield from ask)[0])
    periods = Batch(items)
    before = yield from periods.ask(look_up_caught_up)
    periods.update(lambda item: replace(item, before=before[item.period]))
    finished = yield from finish(periods.select(lambda item: bool(item.facts(item.before).intended)))
    yield from drop_held_of(*(item for period, item in items.items() if period in finished))
    left = {
        period: item.manifest
        for period, item in items.items()
        if period not in finished
        # Nothing was replaced before the objects were recorded.
        and item.manifest.fingerprint in {of.record.fingerprint for of in before[period].values() if of.record}
    }
    if left:
        yield from Log(name=f"Loading {', '.join(map(str, left))} whole: what a dead load staged of it is gone.")
    return left


def load_of_period(load: PeriodLoad, period: Period, partitions: PeriodPartitions) -> PeriodLoad:
    """Return the load of a period that the rows of an arrival belong to."""
    return replace(
        load,
        period=period,
        period_partitions=partitions,
        attempt=Attempt(load.context.target, (period,), load.attempt.nonce),
        # It may lose all of its rows: which may go is checked for the arrival.
        policies=replace(load.policies, on_no_objects="empty", max_shrink_fraction=1),
        changes=None,
        spread=Spread(),
        plan=None,
    )


def recorded_of_arrivals(
    context: Target, source: Source, periods: Sequence[Period]
) -> Steps[dict[Period, list[RecordedObject]]]:
    """Return the loaded objects of arrivals, also those that are gone; the source has listed the arrivals."""
    by_prefix = defaultdict[str, list[tuple[Period, Callable[[Unit], bool]]]](list)
    for period in periods:
        prefix, is_of_arrival = source.arrivals(period)
        by_prefix[prefix].append((period, is_of_arrival))
    conditions = " OR ".join(f"startsWith(path, {literal(prefix)})" for prefix in sorted(by_prefix))
    recorded: dict[Period, list[RecordedObject]] = {period: [] for period in periods}
    lengths = {len(prefix) for prefix in by_prefix}
    for item in (yield from loaded_objects(context, f"({conditions or '0'})")):
        # Each object is compared with the arrivals of its own prefixes alone: a proof is of all arrivals.
        for length in lengths:
            for period, is_of_arrival in by_prefix.get(item.unit.path[:length], ()):
                if is_of_arrival(item.unit):
                    recorded[period].append(item)
    return recorded


def _check_shrink(load: PeriodLoad, recorded: Iterable[RecordedObject]) -> str:
    """Check that overwritten and deleted objects did not take too much with them; if so, return why it is held."""
    sizes = {unit.path: unit.size_bytes for unit in load.manifest.objects}
    keeps = load.policies.on_deleted_objects == "keep"
    before = {item.unit.path: item.unit.size_bytes for item in recorded if item.unit.path in sizes or not keeps}
    was_bytes, is_bytes = sum(before.values()), sum(sizes.get(path, 0) for path in before)
    if is_bytes >= was_bytes * (1 - load.policies.max_shrink_fraction):
        return ""
    before_and_now = f"from {size_text(was_bytes)} to {size_text(is_bytes)}"
    if load.policies.on_shrink == "hold":
        return f"the loaded objects of {load.period} shrank {before_and_now}"
    raise SourceError(
        f"The loaded objects of {load.period} shrank {before_and_now}, by more than "
        f"policies['max_shrink_fraction']={load.policies.max_shrink_fraction}. If that is intended, allow it for one "
        f"run of the DAG, by its conf: {allowing_shrink(load.context.target, load.period)}."
    )


def deleted_text(target: TableName, period: Period, deleted: Sequence[str]) -> str:
    """Return why an arrival is not loaded if loaded objects of it are gone."""
    return (
        f"{quantity(len(deleted), 'object')} of {period} that {target} holds rows of "
        f"{'is' if len(deleted) == 1 else 'are'} gone ({deleted[0]}{', …' if len(deleted) > 1 else ''}). Nothing "
        "was changed. policies={'on_deleted_objects': 'remove'} removes their rows, 'keep' keeps them."
    )


def is_being_published(load: PeriodLoad) -> Steps[bool]:
    """Check whether an attempt has recorded its intents: then the next run completes what it staged."""
    try:
        unfinished = yield from unfinished_periods(load.context)
    except Chs3Error:
        return True
    return any(attempt == load.attempt.nonce for attempt, _ in unfinished.values())


def drop_published_staging(load: PeriodLoad) -> Steps[None]:
    """Drop the staging of attempts that died after they had published all of it."""
    context = load.context
    if not context.nodes[context.coordinator].has_ledger:
        return
    query = f"SELECT name FROM system.tables WHERE {staging_of(context)}"
    answers = yield from context.on_each(name="Look for staging of earlier loads", sql=Sql(query))
    nonces = {nonce_of(name) for rows in answers.values() for (name,) in rows}
    if not nonces:
        return
    of_table = load.key_on(context.coordinator).table_condition
    published = Sql(
        f"SELECT DISTINCT attempt FROM {table(context.ledger)} WHERE {of_table} "
        f"AND event = 'published' AND {one_of('attempt', sorted(nonces))}"
    )
    rows = yield from context.on_coordinator(name="Look which of them were published", sql=published)
    if rows:
        yield from end_attempts_with(context, *(attempt for (attempt,) in rows))
