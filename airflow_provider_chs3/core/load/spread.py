"""Load objects as they arrive: their rows are staged whole, and added to the periods that they belong to.

The key template names arrivals. The periods that an arrival touches are known once its rows are staged, and by the
records of the objects that it replaces. They are published together: all intents precede the first REPLACE PARTITION.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace

from airflow_provider_chs3.core.ledger.object_records import RecordedObject, held_objects, objects_table
from airflow_provider_chs3.core.load.insert import select_objects
from airflow_provider_chs3.core.load.period_check import check_periods
from airflow_provider_chs3.core.load.period_load import PeriodLoad, Periods, Spread
from airflow_provider_chs3.core.load.publication import Increment, StagedPartition, staged_of
from airflow_provider_chs3.core.load.staging_tables import Attempt
from airflow_provider_chs3.core.model.models import Manifest, Node, ObjectChanges, Unit
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.model.quantities import quantity
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, literal, one_of, table
from airflow_provider_chs3.core.steps.batch import Batch
from airflow_provider_chs3.core.steps.operations import QueryNodes, Row, Steps
from airflow_provider_chs3.core.target.partition_key import parts_of_key, period_value, time_of_key
from airflow_provider_chs3.core.target.period_partitions import PeriodPartitions, partitions_of, periods_of_rows
from airflow_provider_chs3.core.target.replication import catch_up
from airflow_provider_chs3.exceptions import PreflightError, SourceError, VerificationError

_Partitions = Mapping[Node, Mapping[str, StagedPartition]]


def find_changed(load: PeriodLoad) -> Steps[PeriodLoad]:
    """Return the load of the objects of an arrival that changed since they were loaded.

    Raises:
        SourceError: If loaded objects are gone, unless a policy permits that.
    """
    recorded, listed = defaultdict[str, list[RecordedObject]](list), load.manifest
    for found in (yield from _read_recorded(load)):
        recorded[found.unit.path].append(found)
    changes = ObjectChanges.between(Manifest.of(found[0].unit for found in recorded.values()), listed)
    # An object that was overwritten since a load of some of its periods.
    mixed = {path for path, found in recorded.items() if len({each.unit for each in found}) > 1}
    changes = replace(
        changes,
        overwritten=tuple(sorted({*changes.overwritten, *mixed} - {*changes.deleted})),
        deleted=_settle_deleted(load, changes.deleted),
    )
    removed = (*changes.overwritten, *changes.deleted)
    spread = Spread({path: frozenset(found.period for found in recorded[path]) for path in removed})
    increment = Increment(base="", number=0, attaches_first=False, period=listed, attached_rows={})
    return replace(load.with_objects(changes.to_read(listed, removed), increment), changes=changes, spread=spread)


def _read_recorded(load: PeriodLoad) -> Steps[list[RecordedObject]]:
    """Return the loaded objects of the arrival, also those that are gone."""
    context, source = load.context, load.files.source
    if not all(facts.objects for facts in context.nodes.values()):
        return []
    yield from catch_up(context, context.ledger, objects_table(context.ledger))
    prefix, is_of_arrival = source.arrivals(load.period)
    condition = f"startsWith(path, {literal(prefix)})"
    recorded = yield from _held_objects(load, condition)
    return [found for found in recorded if is_of_arrival(found.unit)]


def _held_objects(load: PeriodLoad, condition: str) -> Steps[list[RecordedObject]]:
    node = load.context.coordinator
    return (yield from held_objects(load.context.ledger, node, load.key_on(node), condition))


def _settle_deleted(load: PeriodLoad, deleted: tuple[str, ...]) -> tuple[str, ...]:
    """Return the deleted objects whose rows are to be removed."""
    policy = load.policies.on_deleted_objects
    if deleted and policy == "fail":
        raise SourceError(
            f"{quantity(len(deleted), 'object')} of {load.period} that {load.context.target} holds rows of "
            f"{'is' if len(deleted) == 1 else 'are'} gone ({deleted[0]}{', …' if len(deleted) > 1 else ''}). Nothing "
            "was changed. policies={'on_deleted_objects': 'remove'} removes their rows, 'keep' keeps them."
        )
    return deleted if policy == "remove" else ()


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
    losing = sorted(frozenset().union(*load.spread.periods.values()) - partitions.keys())
    partitions |= (yield from partitions_of(context, losing)) if losing else {}
    if not partitions:
        return Batch({})
    rows = yield from _count_rows_of_objects(load, partitions, staged)
    loads = Batch(dict((yield from _loads_of(load, partitions, rows))))
    _, periods, _ = yield from check_periods(loads)
    for error in (*loads.failed.values(), *periods.failed.values()):
        raise error
    known = {of.value for of in partitions.values()}
    touched = {item.period: replace(item, staged=staged_of(item, staged, known=known)) for item in periods}
    return Batch({period: _planned(load, item, rows[period]) for period, item in touched.items()}, is_joint=True)


def _loads_of(
    load: PeriodLoad, partitions: Mapping[Period, PeriodPartitions], rows: Mapping[Period, Counter[str]]
) -> Steps[list[tuple[Period, PeriodLoad]]]:
    """Return a load of each period, with all of its objects."""
    assert load.spread
    context = load.context
    kept = defaultdict[Period, list[Unit]](list)
    if all(facts.objects for facts in context.nodes.values()):
        for found in (yield from _held_objects(load, one_of("period", map(str, partitions)))):
            kept[found.period].append(found.unit)
    read = {unit.path: unit for unit in load.files.manifest.objects}
    replaced = {*load.spread.periods, *read}
    # Objects without rows are recorded, too: else every run would read them again.
    empty, newest = read.keys() - set().union(*rows.values()), max(partitions)
    loads = []
    for period, of_period in partitions.items():
        came = {*rows[period], *(empty if period == newest else ())}
        units = [*(unit for unit in kept[period] if unit.path not in replaced), *(read[path] for path in came)]
        item = replace(
            load.with_objects(Manifest.of(units)),
            period=period,
            period_partitions=of_period,
            attempt=Attempt(context.target, (period,), load.attempt.nonce),
            policies=replace(load.policies, on_no_objects="empty"),
            changes=None,
            spread=Spread({}),
            plan=None,
        )
        loads.append((period, item))
    return loads


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
    periods = {of.value: period for period, of in partitions.items()}
    counted = {period: Counter[str]() for period in partitions}
    for path, value, count in found:
        counted[periods[value]][path] += count
    return {period: +of_period for period, of_period in counted.items()}


def _read_rows_of_objects(load: PeriodLoad) -> Steps[list[Row]]:
    """Read the objects' column of the partition key once more: path, value of the period, rows."""
    of_time = time_of_key(load.context)
    assert of_time
    key, reading = (yield from parts_of_key(load.context, of_time)), load.planned.reading
    found = list[Row]()
    for group, batch in reading.batches(load.files):
        columns = {loaded_column.column.name: loaded_column for loaded_column in group.loaded}
        if of_time.column.name not in columns:
            raise PreflightError(
                f"Column {of_time.column.name!r} is not loaded, so nobody can say which objects the rows of a period "
                "are from: load it, or give increments={'object_column': …}."
            )
        null_as_default = load.request.selection.null_as_default
        written = columns[of_time.column.name].cast(null_as_default=null_as_default).value
        values = [batch.path, period_value(of_time.column, key, written)]
        sql = select_objects(load, group, batch, [f"{values[0]} AS `chs3: path`", f"{values[1]} AS `chs3: period`"])
        sql = sql.between("SELECT `chs3: path`, `chs3: period`, count() FROM (", ") GROUP BY ALL")
        found += yield from load.files.look("Count the rows of each object by period", sql)
    return found
