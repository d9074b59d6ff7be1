"""Find the periods that the staged rows of an arrival belong to, and publish them together.

The key template names arrivals. The periods that an arrival touches are known once its rows are staged, and by the
records of the objects that it replaces. All intents precede the first REPLACE PARTITION.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial

from airflow_provider_chs3.core.ledger.object_records import last_loads, loaded_objects
from airflow_provider_chs3.core.load.arrivals import load_of_period, periods_by_path
from airflow_provider_chs3.core.load.decision import LoadResult
from airflow_provider_chs3.core.load.insert import Verified, insert, select_objects
from airflow_provider_chs3.core.load.outcome import result_of
from airflow_provider_chs3.core.load.period_check import check_periods
from airflow_provider_chs3.core.load.period_load import PeriodLoad, Periods, RowsOfPeriods, Spread
from airflow_provider_chs3.core.load.planning import plan_objects
from airflow_provider_chs3.core.load.publication import StagedPartition, count_partitions, staged_of
from airflow_provider_chs3.core.model.models import Manifest, Node, ObjectChanges, Unit
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.model.quantities import quantity
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, one_of, table
from airflow_provider_chs3.core.steps.driving import Batch
from airflow_provider_chs3.core.steps.operations import Log, QueryNodes, Row, Steps
from airflow_provider_chs3.core.target.partition_key import parts_of_key, time_of_key
from airflow_provider_chs3.core.target.period_partitions import PeriodPartitions, partitions_of, periods_of_rows
from airflow_provider_chs3.exceptions import (
    ObjectsChangedError,
    SourceError,
    TargetChangedError,
    TransientError,
    VerificationError,
)

_Partitions = Mapping[Node, Mapping[str, StagedPartition]]
#: Rows of objects, by path, in each period.
_Rows = Mapping[Period, Counter[str]]


def find_periods(load: PeriodLoad, staged: _Partitions) -> Steps[Periods]:
    """Return the loads of all periods that get staged rows, or lose those of changed objects; all, or an error."""
    assert load.spread
    context = load.context
    values = {key: of.period_value for on_node in staged.values() for key, of in on_node.items() if of.contents.rows}
    partitions = (
        (yield from periods_of_rows(context, load.staging, values, objects_with=partial(objects_with_rows, load)))
        if values
        else {}
    )
    losing = load.spread.changed.union(load.spread.unfinished, *load.spread.periods.values())
    if further := sorted(losing - partitions.keys()):
        partitions |= yield from partitions_of(context, further)
    if not partitions:
        return Batch({})
    rows = yield from _count_rows_of_objects(load, partitions, staged)
    _check_lateness(load, rows)
    loads = yield from _loads_of(load, partitions, rows)
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


def _loads_of(load: PeriodLoad, partitions: Mapping[Period, PeriodPartitions], rows: _Rows) -> Steps[Periods]:
    assert load.spread
    kept, arrivals = defaultdict[Period, list[Unit]](list), defaultdict[Period, dict[str, str]](dict)
    for item in (yield from loaded_objects(load.context, one_of("period", map(str, partitions)))):
        kept[item.period].append(item.unit)
        arrivals[item.period][item.unit.path] = item.arrival
    kept |= {period: list(manifest.objects) for period, manifest in load.spread.unfinished.items()}
    yield from _check_known(load, partitions.keys() - load.spread.unfinished.keys(), kept)
    read = {unit.path: unit for unit in load.files.manifest.objects}
    replaced = {*load.spread.periods, *read}
    # Objects without rows are recorded, too: else every run would read them again.
    empty, newest = read.keys() - set[str]().union(*rows.values()), max(partitions)
    loads = Periods({})
    for period, of_period in partitions.items():
        came = {*rows[period], *(empty if period == newest else ())}
        units = [*(unit for unit in kept[period] if unit.path not in replaced), *(read[path] for path in came)]
        item_load = load_of_period(load, period, of_period).with_objects(Manifest.of(units))
        spread = Spread(
            arrivals={path: arrival for path, arrival in arrivals[period].items() if path not in replaced},
            listed=load.spread.listed,
            # A load by period did not say whether it took all of their rows.
            again=any(not arrival and path in read for path, arrival in arrivals[period].items()),
        )
        loads.items[period] = replace(item_load, spread=spread)
    return loads


def _check_known(load: PeriodLoad, periods: Collection[Period], kept: Mapping[Period, Sequence[Unit]]) -> Steps[None]:
    """Check that the objects of published periods are known: rows are added to theirs."""
    context = load.context
    if not periods:
        return
    published = yield from last_loads(context, one_of("period", map(str, sorted(periods))))
    for period, last in sorted(published.items()):
        if Manifest.of(kept.get(period, ())).fingerprint != last.fingerprint:
            if context.absent and not context.shared:
                raise TransientError(
                    f"{context.target} {period} holds rows of which no record says which objects they are from. "
                    f"{', '.join(map(str, context.absent))} may know, but is down: start it. Nothing was published."
                )
            raise TargetChangedError(
                f"{context.target} {period} holds rows of which no record says which objects they are from, as after "
                "an adoption: rows cannot be added to it exactly. Nothing was published. Forget all periods of "
                "the table (chs3 forget), and adopt it by this load (chs3 adopt --all-periods), or load into a new "
                "table."
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
    held_because = "; ".join(filter(None, (load.held_because, item.held_because)))
    return replace(item, plan=replace(load.planned, reading=reading), held_because=held_because)


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
    periods = {of.value: period for period, of in partitions.items()}
    counted = {period: Counter[str]() for period in partitions}
    for path, value, count in found:
        if value in periods:
            counted[periods[value]][path] += count
    return {period: +of_period for period, of_period in counted.items()}


def rows_of_periods(load: PeriodLoad) -> Steps[RowsOfPeriods]:
    """Return how to find the period of the table that a row is of."""
    of_time = time_of_key(load.context)
    assert of_time
    return RowsOfPeriods(of_time.column, (yield from parts_of_key(load.context, of_time)))


def _read_rows_of_objects(load: PeriodLoad) -> Steps[list[Row]]:
    """Read the column of the partition key once more: path of an object, value of a period, rows."""
    of_rows = yield from rows_of_periods(load)
    found = list[Row]()
    for group, batch in load.planned.reading.batches(load.files):
        value = of_rows.value_in(group)
        columns = [f"{batch.path} AS `chs3: path`", f"{value} AS `chs3: period`"]
        sql = select_objects(load, group, batch, columns)
        sql = sql.between("SELECT `chs3: path`, `chs3: period`, count() FROM (", ") GROUP BY ALL")
        found += yield from load.files.look("Count the rows of each object by period", sql)
    return found


def objects_with_rows(load: PeriodLoad, value: str | None) -> Steps[list[str]]:
    """Return the objects that have rows of a value of periods, or without one."""
    rows = yield from _read_rows_of_objects(load)
    return sorted({path for path, of_row, _ in rows if of_row == value})


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
    """
    assert load.spread
    units = {unit.path: unit for of_period in kept.values() for unit in of_period}
    listed = yield from load.files.source.list_again(units)
    changes = ObjectChanges.between(Manifest.of(units.values()), Manifest.of(listed.values()))
    if changes.deleted and load.policies.on_deleted_objects != "remove":
        has_column = bool(load.policies.object_column)
        by_column = "" if has_column else " increments={'object_column': …} reads no other objects again."
        raise SourceError(
            f"{', '.join(map(str, kept))} must be read again whole, but {changes.deleted[0]} is gone since it was "
            f"loaded. Nothing was published. policies={{'on_deleted_objects': 'remove'}} removes its rows.{by_column}"
        )
    changed = (*changes.overwritten, *changes.deleted)
    if not changed:
        return load, staged
    yield from Log(name=f"Objects of other arrivals changed, too: {changes}.")
    held = yield from loaded_objects(load.context, one_of("path", changed))
    spread = replace(load.spread, periods={**load.spread.periods, **periods_by_path(held, changed)})
    read = [listed[path] for path in changes.overwritten]
    if read:
        name = f"changed{len(spread.periods)}_"
        _, staged = yield from _insert_again(replace(load, spread=Spread()), read, staged, name=name)
    wider = load.with_objects(Manifest.of([*load.files.manifest.objects, *read]), load.increment)
    return replace((yield from plan_objects(wider)), spread=spread), staged


def _insert_kept(
    load: PeriodLoad,
    kept: Mapping[Period, Sequence[Unit]],
    partitions: Mapping[Period, PeriodPartitions],
    staged: _Partitions,
) -> Steps[tuple[dict[Period, Counter[str]], _Partitions]]:
    """Read once more the rows that some periods have of their other objects; return them, and what is staged now."""
    units = {unit.path: unit for of_period in kept.values() for unit in of_period}
    of_rows = replace((yield from rows_of_periods(load)), values=tuple(of.value for of in partitions.values()))
    yield from Log(name=f"Reading {quantity(len(units), 'object')} again for {', '.join(map(str, kept))}.")
    again = replace(load, spread=Spread(only=of_rows))
    found, staged = yield from _insert_again(again, units.values(), staged, name="kept")
    return _by_period(found, partitions), staged


def _insert_again(
    load: PeriodLoad, units: Collection[Unit], staged: _Partitions, *, name: str
) -> Steps[tuple[list[Row], _Partitions]]:
    """Stage objects beside what is staged; return path, period's value and number of their rows, and all staged."""
    manifest = Manifest.of(units)
    again = yield from plan_objects(load.with_objects(manifest))
    yield from insert(again, name=name)
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


def share_out(load: PeriodLoad, periods: Periods) -> dict[Period, float]:
    """Return the share of the load that each period has: of its rows, or else of its bytes."""
    if load.spread:
        counts = {item.period: item.planned.reading.rows or 0 for item in periods}
        return {period: count / max(sum(counts.values()), 1) for period, count in counts.items()}
    read_bytes = max(load.files.manifest.size_bytes, 1)
    return {item.period: item.files.manifest.size_bytes / read_bytes if load.group else 1.0 for item in periods}


def result_of_arrival(load: PeriodLoad, results: Mapping[Period, LoadResult], verified: Verified) -> LoadResult:
    """Return the result of an arrival, whose rows are in other periods."""
    rows_by_node = Counter[str]()
    for result in results.values():
        rows_by_node.update(result.rows_by_node)
    held_because = next((of.reason for of in results.values() if of.status == "held"), "")
    status, reason = ("held", held_because) if held_because else ("published", str(load.changes))
    result = result_of(load, {}, status=status, reason=reason, verified=verified)
    return replace(
        result,
        loaded_rows=sum(verified.rows.values()),
        rows=sum(of.rows for of in results.values()),
        rows_by_node=rows_by_node,
        parts=sum(of.parts for of in results.values()),
        table_bytes=sum(of.table_bytes for of in results.values()),
        of_periods=tuple(of for _, of in sorted(results.items())),
    )
