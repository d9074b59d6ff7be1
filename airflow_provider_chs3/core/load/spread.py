"""Load objects as they arrive: their rows are staged whole, and added to the periods that they belong to.

The key template names arrivals. The periods that an arrival touches are known once its rows are staged, and by the
records of the objects that it replaces. They are published together: all intents precede the first REPLACE PARTITION.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from airflow_provider_chs3.core.files.source import Source
from airflow_provider_chs3.core.ledger.comparison import ComparisonStatus
from airflow_provider_chs3.core.ledger.object_records import (
    RecordedObject,
    held_objects,
    objects_table,
    published_fingerprints,
    recorded_objects,
    unfinished_periods,
)
from airflow_provider_chs3.core.ledger.table import LedgerKey
from airflow_provider_chs3.core.load.decision import Decision, Skip, Whole
from airflow_provider_chs3.core.load.end_attempts import end_attempts_with
from airflow_provider_chs3.core.load.finish import finish
from airflow_provider_chs3.core.load.insert import insert, select_objects
from airflow_provider_chs3.core.load.period_check import allowing_shrink, check_periods
from airflow_provider_chs3.core.load.period_load import PeriodLoad, Periods, RowsOfPeriods, Spread
from airflow_provider_chs3.core.load.planning import plan_objects
from airflow_provider_chs3.core.load.publication import (
    Increment,
    StagedPartition,
    count_partitions,
    look_up_caught_up,
    staged_of,
)
from airflow_provider_chs3.core.load.staging_tables import Attempt, nonce_of, staging_of
from airflow_provider_chs3.core.model.models import Manifest, Node, ObjectChanges, TableName, Unit
from airflow_provider_chs3.core.model.period import WHOLE_TABLE, Period
from airflow_provider_chs3.core.model.quantities import quantity, size_text
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, literal, one_of, table
from airflow_provider_chs3.core.steps.batch import Batch
from airflow_provider_chs3.core.steps.operations import Log, QueryNodes, Row, Steps
from airflow_provider_chs3.core.target.node_facts import TargetContext
from airflow_provider_chs3.core.target.partition_key import parts_of_key, time_of_key
from airflow_provider_chs3.core.target.period_partitions import PeriodPartitions, partitions_of, periods_of_rows
from airflow_provider_chs3.core.target.replication import catch_up
from airflow_provider_chs3.exceptions import (
    Chs3Error,
    ObjectsChangedError,
    SourceError,
    TargetChangedError,
    VerificationError,
)

_Partitions = Mapping[Node, Mapping[str, StagedPartition]]
#: Rows of objects, by path, in each period.
_Rows = Mapping[Period, Counter[str]]


def find_changed(load: PeriodLoad) -> Steps[PeriodLoad]:
    """Return the load of the objects of an arrival that changed since they were loaded.

    Publications of dead attempts are completed first.

    Raises:
        SourceError: If loaded objects are gone, unless a policy permits that.
    """
    context, listed = load.context, load.manifest
    unfinished = yield from _finish(load)
    of_arrivals = yield from recorded_of_arrivals(context, load.files.source, [load.period])
    recorded = of_arrivals.get(load.period, [])
    changes = changes_of_arrival(recorded, listed)
    if load.request.reload:
        known = {item.unit.path for item in recorded}
        changes = replace(changes, overwritten=tuple(unit.path for unit in listed.objects if unit.path in known))
    changes = replace(changes, deleted=_settle_deleted(load, changes.deleted))
    _check_shrink(load, recorded)
    removed = (*changes.overwritten, *changes.deleted)
    periods = {path: frozenset(item.period for item in recorded if item.unit.path == path) for path in removed}
    spread = Spread(periods, len({item.unit.path for item in recorded}), unfinished)
    increment = Increment(base="", number=0, attaches_first=False, period=listed, attached_rows={})
    return replace(load.with_objects(changes.to_read(listed, removed), increment), changes=changes, spread=spread)


def changes_of_arrival(recorded: Iterable[RecordedObject], listed: Manifest) -> ObjectChanges:
    """Return how the objects of an arrival differ from those whose rows a table holds."""
    units = defaultdict[str, set[Unit]](set)
    for item in recorded:
        units[item.unit.path].add(item.unit)
    changes = ObjectChanges.between(Manifest.of(next(iter(of_path)) for of_path in units.values()), listed)
    # An object may have been overwritten since a load of some of its periods.
    mixed = {path for path, of_path in units.items() if len(of_path) > 1}
    return replace(changes, overwritten=tuple(sorted({*changes.overwritten, *mixed} - {*changes.deleted})))


def judge_arrival(context: TargetContext, source: Source, load: PeriodLoad) -> Steps[Decision]:
    """Decide what a load would do about an arrival, without writing anything.

    Raises:
        SourceError: If loaded objects are gone, unless a policy permits that.
    """
    recorded = yield from recorded_of_arrivals(context, source, [load.period])
    changes = changes_of_arrival(recorded[load.period], load.manifest)
    changes = replace(changes, deleted=_settle_deleted(load, changes.deleted))
    return Whole(str(changes)) if changes.counts else Skip(ComparisonStatus.UNCHANGED.value)


def _finish(load: PeriodLoad) -> Steps[dict[Period, Manifest]]:
    """Complete the publications of dead attempts.

    Returns:
        The objects of the periods of which this was not possible.
    """
    context = load.context
    unfinished = yield from unfinished_periods(context)
    if not unfinished:
        return {}
    partitions = yield from partitions_of(context, sorted(unfinished))
    items = dict[Period, PeriodLoad]()
    for period, (attempt, base) in unfinished.items():
        item = _load_of(load, period, partitions[period])
        keys = [(item.key_on(context.coordinator), base)]
        ask = recorded_objects(context.ledger, context.coordinator, keys, intended=attempt)
        items[period] = item.with_objects((yield from ask)[0])
    periods = Batch(items)
    before = yield from periods.ask(look_up_caught_up)
    periods.update(lambda item: replace(item, before=before[item.period]))
    intended = periods.select(lambda item: bool(item.facts(item.before).intended))
    finished = yield from finish(intended)
    left = {period: item.manifest for period, item in items.items() if period not in finished}
    # Nothing was replaced before the objects were recorded.
    left = {
        period: manifest
        for period, manifest in left.items()
        if manifest.fingerprint in {of.record.fingerprint for of in before[period].values() if of.record}
    }
    if left:
        yield from Log(name=f"Loading {', '.join(map(str, left))} whole: what a dead load staged of it is gone.")
    return left


def _load_of(load: PeriodLoad, period: Period, partitions: PeriodPartitions) -> PeriodLoad:
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
    context: TargetContext, source: Source, periods: Sequence[Period]
) -> Steps[dict[Period, list[RecordedObject]]]:
    """Return the loaded objects of arrivals, also those that are gone; the source has listed the arrivals."""
    arrivals = {period: source.arrivals(period) for period in periods}
    prefixes = sorted({prefix for prefix, _ in arrivals.values()})
    conditions = " OR ".join(f"startsWith(path, {literal(prefix)})" for prefix in prefixes)
    found = yield from _held_objects(context, f"({conditions})")
    return {
        period: [item for item in found if is_of_arrival(item.unit)] for period, (_, is_of_arrival) in arrivals.items()
    }


def _held_objects(context: TargetContext, condition: str) -> Steps[list[RecordedObject]]:
    if not all(facts.objects and facts.has_ledger for facts in context.nodes.values()):
        return []
    yield from catch_up(context, context.ledger, objects_table(context.ledger))
    node = context.coordinator
    key = LedgerKey.on(context, node, WHOLE_TABLE)
    return (yield from held_objects(context.ledger, node, key, condition))


def _settle_deleted(load: PeriodLoad, deleted: tuple[str, ...]) -> tuple[str, ...]:
    """Return the deleted objects whose rows are to be removed."""
    policy = load.policies.on_deleted_objects
    if deleted and policy == "fail":
        raise SourceError(deleted_text(load.context.target, load.period, deleted))
    return deleted if policy == "remove" else ()


def _check_shrink(load: PeriodLoad, recorded: Iterable[RecordedObject]) -> None:
    """Check that overwritten objects did not become too small."""
    sizes = {unit.path: unit.size_bytes for unit in load.manifest.objects}
    before = {item.unit.path: item.unit.size_bytes for item in recorded if item.unit.path in sizes}
    was_bytes, is_bytes = sum(before.values()), sum(sizes[path] for path in before)
    if is_bytes < was_bytes * (1 - load.policies.max_shrink_fraction):
        raise SourceError(
            f"The loaded objects of {load.period} shrank from {size_text(was_bytes)} to {size_text(is_bytes)}, by more "
            f"than policies['max_shrink_fraction']={load.policies.max_shrink_fraction}. If that is intended, allow it "
            f"for one run of the DAG, by its conf: {allowing_shrink(load.context.target, load.period)}."
        )


def deleted_text(target: TableName, period: Period, deleted: Sequence[str]) -> str:
    """Return why an arrival is not loaded if loaded objects of it are gone."""
    return (
        f"{quantity(len(deleted), 'object')} of {period} that {target} holds rows of "
        f"{'is' if len(deleted) == 1 else 'are'} gone ({deleted[0]}{', …' if len(deleted) > 1 else ''}). Nothing "
        "was changed. policies={'on_deleted_objects': 'remove'} removes their rows, 'keep' keeps them."
    )


def find_periods(load: PeriodLoad, staged: _Partitions) -> Steps[Periods]:
    """Return the loads of the periods that the staged rows belong to, or that lose rows of changed objects.

    Raises:
        VerificationError: If the rows of objects, counted once more, are not those that are staged.
        Chs3Error: If one of the periods cannot be loaded: then none is.
    """
    assert load.spread
    context = load.context
    values = {key: of.period_value for on_node in staged.values() for key, of in on_node.items() if of.contents.rows}
    partitions = (yield from periods_of_rows(context, load.staging, values)) if values else {}
    losing = frozenset(load.spread.unfinished).union(*load.spread.periods.values())
    if further := sorted(losing - partitions.keys()):
        partitions |= yield from partitions_of(context, further)
    if not partitions:
        return Batch({})
    rows = yield from _count_rows_of_objects(load, partitions, staged)
    _check_lateness(load, rows)
    loads = Batch(dict((yield from _loads_of(load, partitions, rows))))
    results, periods, _ = yield from check_periods(loads)
    for error in (*loads.failed.values(), *periods.failed.values()):
        raise error
    for result in results.values():
        if result.status != "unchanged":
            raise TargetChangedError(f"{result.summary()} The arrival has rows of it, so nothing of it was published.")
    if kept := _kept_of_whole(load, periods):
        wider, staged = yield from _insert_changed(load, kept, staged)
        if wider is not load:
            return (yield from find_periods(wider, staged))
        whole = {period: of for period, of in partitions.items() if period in kept}
        kept_rows, staged = yield from _insert_kept(load, kept, whole, staged)
        rows = {period: of_period + kept_rows.get(period, Counter()) for period, of_period in rows.items()}
    known = {of.value for of in partitions.values()}
    touched = {item.period: replace(item, staged=staged_of(item, staged, known=known)) for item in periods}
    return Batch({period: _planned(load, item, rows[period]) for period, item in touched.items()}, is_joint=True)


def _check_lateness(load: PeriodLoad, rows: _Rows) -> None:
    """Check that no rows are later than they may be."""
    most_days = load.policies.max_late_days
    if most_days is None:
        return
    first = load.period.begin - timedelta(days=most_days)
    for period, of_objects in sorted(rows.items()):
        if period.begin < first and of_objects:
            path, count = of_objects.most_common(1)[0]
            raise SourceError(
                f"{path} has {quantity(count, 'row')} of {period}, more than policies['max_late_days']={most_days:g} "
                f"before {load.period}, in which it arrived. Nothing was published. Correct their time, or allow more "
                "days."
            )


def _loads_of(
    load: PeriodLoad, partitions: Mapping[Period, PeriodPartitions], rows: _Rows
) -> Steps[list[tuple[Period, PeriodLoad]]]:
    """Return a load of each period, with all of its objects."""
    assert load.spread
    kept = defaultdict[Period, list[Unit]](list)
    for item in (yield from _held_objects(load.context, one_of("period", map(str, partitions)))):
        kept[item.period].append(item.unit)
    kept |= {period: list(manifest.objects) for period, manifest in load.spread.unfinished.items()}
    yield from _check_known(load, partitions.keys() - load.spread.unfinished.keys(), kept)
    read = {unit.path: unit for unit in load.files.manifest.objects}
    replaced = {*load.spread.periods, *read}
    # Objects without rows are recorded, too: else every run would read them again.
    empty, newest = read.keys() - set[str]().union(*rows.values()), max(partitions)
    loads = []
    for period, of_period in partitions.items():
        came = {*rows[period], *(empty if period == newest else ())}
        units = [*(unit for unit in kept[period] if unit.path not in replaced), *(read[path] for path in came)]
        loads.append((period, _load_of(load, period, of_period).with_objects(Manifest.of(units))))
    return loads


def _check_known(load: PeriodLoad, periods: Collection[Period], kept: Mapping[Period, Sequence[Unit]]) -> Steps[None]:
    """Check that the objects of published periods are known: rows are added to theirs."""
    context, node = load.context, load.context.coordinator
    if not (periods and context.nodes[node].has_ledger):
        return
    published = yield from published_fingerprints(context.ledger, node, load.key_on(node), sorted(periods))
    for period, fingerprint in sorted(published.items()):
        if Manifest.of(kept.get(period, ())).fingerprint != fingerprint:
            raise TargetChangedError(
                f"{context.target} {period} holds rows of which no record says which objects they are from, as after "
                "an adoption, or after a version was restored: rows cannot be added to it exactly. Nothing was "
                "published. Empty it, forget it (chs3 forget), and load all arrivals that have rows of it again, with "
                "a reload."
            )


def _planned(load: PeriodLoad, item: PeriodLoad, rows: Counter[str]) -> PeriodLoad:
    """Return the load of a period with the rows that it gets of each object."""
    file_rows = tuple(rows[unit.path] for unit in item.files.manifest.objects)
    staged = sum(item.staged[node].rows for node in load.context.publishers)
    if sum(file_rows) != staged:
        raise VerificationError(
            f"Staging {load.staging} holds {staged} rows of {item.period}, but the objects that are to be added to it "
            f"have {sum(file_rows)}. Nothing was published."
        )
    reading = replace(load.planned.reading, rows=sum(file_rows), file_rows=file_rows)
    return replace(item, plan=replace(load.planned, reading=reading))


def _count_rows_of_objects(
    load: PeriodLoad, partitions: Mapping[Period, PeriodPartitions], staged: _Partitions
) -> Steps[dict[Period, Counter[str]]]:
    """Count the rows of each object in each period: in staging if a column names the object, else in the objects."""
    objects = load.files.manifest.objects
    values = {key: of.period_value for on_node in staged.values() for key, of in on_node.items()}
    found = list[Row]()
    if load.policies.object_column and len(objects) > 1:
        column = identifier(load.policies.object_column)
        sql = Sql(f"SELECT toString({column}) AS path, _partition_id, count() FROM {table(load.staging)} GROUP BY ALL")
        answers = yield from QueryNodes(
            name="Count the staged rows of each object", sql=dict.fromkeys(load.context.publishers, sql)
        )
        found = [(path, values[key], count) for rows in answers.values() for path, key, count in rows]
    elif len(objects) > 1:
        found = yield from _read_rows_of_objects(load)
    elif objects:
        found = [
            (objects[0].path, of.period_value, of.contents.rows)
            for node in load.context.publishers
            for of in staged[node].values()
        ]
    return _by_period(found, partitions)


def _by_period(found: Sequence[Row], partitions: Mapping[Period, PeriodPartitions]) -> dict[Period, Counter[str]]:
    """Return the rows of objects in some periods, by period and path."""
    periods = {of.value: period for period, of in partitions.items()}
    counted = {period: Counter[str]() for period in partitions}
    for path, value, count in found:
        if value in periods:
            counted[periods[value]][path] += count
    return {period: +of_period for period, of_period in counted.items()}


def _rows_of_periods(load: PeriodLoad) -> Steps[RowsOfPeriods]:
    of_time = time_of_key(load.context)
    assert of_time
    return RowsOfPeriods(of_time.column, (yield from parts_of_key(load.context, of_time)))


def _read_rows_of_objects(load: PeriodLoad) -> Steps[list[Row]]:
    """Read the column of the partition key once more: path of an object, value of a period, rows."""
    of_rows, null_as_default = (yield from _rows_of_periods(load)), load.request.selection.null_as_default
    found = list[Row]()
    for group, batch in load.planned.reading.batches(load.files):
        value = of_rows.value_in(group, null_as_default=null_as_default)
        columns = [f"{batch.path} AS `chs3: path`", f"{value} AS `chs3: period`"]
        sql = select_objects(load, group, batch, columns)
        sql = sql.between("SELECT `chs3: path`, `chs3: period`, count() FROM (", ") GROUP BY ALL")
        found += yield from load.files.look("Count the rows of each object by period", sql)
    return found


def _kept_of_whole(load: PeriodLoad, periods: Periods) -> dict[Period, list[Unit]]:
    """Return the objects whose rows must be read again, of periods to which no rows can be added."""
    read = {unit.path for unit in load.files.manifest.objects}
    kept = {
        item.period: [unit for unit in item.manifest.objects if unit.path not in read]
        for item in periods
        if item.increment is None
    }
    return {period: units for period, units in kept.items() if units}


def _insert_changed(
    load: PeriodLoad, kept: Mapping[Period, Sequence[Unit]], staged: _Partitions
) -> Steps[tuple[PeriodLoad, _Partitions]]:
    """Stage objects that must be read again, but changed since they were loaded, as if they had come in this arrival.

    Their own arrivals may need changed objects of this one: neither could be loaded first.

    Returns:
        The load with these objects, and what is staged now.

    Raises:
        SourceError: If one of these objects is gone, unless a policy removes its rows.
    """
    assert load.spread
    units = {unit.path: unit for of_period in kept.values() for unit in of_period}
    listed = yield from load.files.source.list_again(units)
    changes = ObjectChanges.between(Manifest.of(units.values()), Manifest.of(listed.values()))
    if changes.deleted and load.policies.on_deleted_objects != "remove":
        raise SourceError(
            f"{', '.join(map(str, kept))} must be read again whole, but {changes.deleted[0]} is gone since it was "
            "loaded. Nothing was published. policies={'on_deleted_objects': 'remove'} removes its rows; to read no "
            "other objects again, give increments={'object_column': …}."
        )
    changed = (*changes.overwritten, *changes.deleted)
    if not changed:
        return load, staged
    yield from Log(name=f"Objects of other arrivals changed, too: {changes}.")
    held = yield from _held_objects(load.context, one_of("path", changed))
    periods = {path: frozenset(item.period for item in held if item.unit.path == path) for path in changed}
    spread = replace(load.spread, periods={**load.spread.periods, **periods})
    read = [listed[path] for path in changes.overwritten]
    if read:
        name = f"changed{len(spread.periods)}_"
        _, staged = yield from _insert_again(replace(load, spread=Spread()), read, staged, name=name)
    wider = load.with_objects(Manifest.of([*load.files.manifest.objects, *read]), load.increment)
    return replace(wider, spread=spread, plan=(yield from plan_objects(wider))), staged


def _insert_kept(
    load: PeriodLoad,
    kept: Mapping[Period, Sequence[Unit]],
    partitions: Mapping[Period, PeriodPartitions],
    staged: _Partitions,
) -> Steps[tuple[dict[Period, Counter[str]], _Partitions]]:
    """Read the rows that some periods have of their other objects once more.

    Returns:
        The rows of these objects, and what is staged now.
    """
    units = {unit.path: unit for of_period in kept.values() for unit in of_period}
    of_rows = replace((yield from _rows_of_periods(load)), values=tuple(of.value for of in partitions.values()))
    yield from Log(name=f"Reading {quantity(len(units), 'object')} again for {', '.join(map(str, kept))}.")
    again = replace(load, spread=Spread(only=of_rows))
    found, staged = yield from _insert_again(again, units.values(), staged, name="kept")
    return _by_period(found, partitions), staged


def _insert_again(
    load: PeriodLoad, units: Collection[Unit], staged: _Partitions, *, name: str
) -> Steps[tuple[list[Row], _Partitions]]:
    """Stage objects beside what is staged.

    Returns:
        Path, value of a period and number of their rows; and what is staged now.

    Raises:
        ObjectsChangedError: If one of these objects changed meanwhile.
        VerificationError: If other rows were staged.
    """
    manifest = Manifest.of(units)
    again = load.with_objects(manifest)
    again = replace(again, plan=(yield from plan_objects(again)))
    yield from insert(again, again.planned, name=name)
    found = yield from _read_rows_of_objects(again)
    listed = yield from load.files.source.list_again({unit.path for unit in units})
    changes = ObjectChanges.between(manifest, Manifest.of(listed.values()))
    if changes.counts:
        raise ObjectsChangedError(f"Objects changed while they were read again: {changes}. Nothing was published.")
    after = yield from count_partitions(load, name="Count what is staged")
    wanted = _rows_by_value(load, staged)
    for _, value, count in found:
        wanted[value] += count
    if (rows := _rows_by_value(load, after)) != wanted:
        raise VerificationError(
            f"Staging {load.staging} must hold {wanted.total()} rows after {quantity(len(units), 'object')} were read "
            f"again, but it holds {rows.total()}, or they are of other periods. Nothing was published."
        )
    return found, after


def _rows_by_value(load: PeriodLoad, staged: _Partitions) -> Counter[str]:
    rows = Counter[str]()
    for node in load.context.publishers:
        for of in staged[node].values():
            rows[of.period_value] += of.contents.rows
    return rows


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
