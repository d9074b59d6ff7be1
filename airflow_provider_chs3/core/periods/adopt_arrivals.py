"""Adopt a table that was loaded by arrival, where no record says which objects its rows are from: all or none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

from airflow_provider_chs3.core.files.file_set import Reading
from airflow_provider_chs3.core.ledger.object_records import ObjectsOfPeriod, make_objects_table, record_objects
from airflow_provider_chs3.core.ledger.queries import look_up_periods
from airflow_provider_chs3.core.ledger.recording import RecordOnNode, add_records
from airflow_provider_chs3.core.ledger.records import PeriodOnNode, rows_of_shards
from airflow_provider_chs3.core.ledger.table import make_ledger
from airflow_provider_chs3.core.load.arrival_periods import objects_with_rows, rows_of_periods
from airflow_provider_chs3.core.load.load_request import LoadRequest
from airflow_provider_chs3.core.load.period_load import PeriodLoad, Spread
from airflow_provider_chs3.core.load.planning import plan_objects
from airflow_provider_chs3.core.load.publication import values_of
from airflow_provider_chs3.core.load.published_rows import find_lasting
from airflow_provider_chs3.core.model.models import Manifest, Node
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.model.quantities import quantity
from airflow_provider_chs3.core.periods.digests import NO_ROWS
from airflow_provider_chs3.core.periods.prove import (
    KeyOfRows,
    ProofOptions,
    ReadObjects,
    check_objects,
    compare_period,
    is_as_before,
    read_objects,
)
from airflow_provider_chs3.core.periods.proved_period import EQUAL, ProvedPeriod
from airflow_provider_chs3.core.sql.quoting import Sql, in_table
from airflow_provider_chs3.core.steps.operations import Log, Steps
from airflow_provider_chs3.core.target.node_facts import Target
from airflow_provider_chs3.core.target.period_partitions import PeriodPartitions, part_of_time, periods_of_rows
from airflow_provider_chs3.exceptions import TargetChangedError

#: Objects that a text names: more would hide the first.
_MOST_SHOWN = 5


def prove_arrivals(request: LoadRequest, context: Target) -> Steps[list[PeriodLoad]]:
    """Prove that periods hold exactly the rows that objects have of them; return a load of each with its objects."""
    arrivals = tuple((yield from request.source.summarize_periods(request.source.arrival_grain)))
    source, listed = yield from request.source.list_periods(arrivals)
    part = yield from part_of_time(context)
    load = PeriodLoad.of(
        request,
        context,
        source=source,
        manifest=Manifest.of(unit for manifest in listed.values() for unit in manifest.objects),
        period_partitions=part,
    )
    load = replace(load, spread=Spread())
    partitions = yield from _partitions_with_rows(load)
    before = yield from look_up_periods(context, partitions)
    recorded = sorted(period for period, of in before.items() if any(on_node.record for on_node in of.values()))
    if recorded:
        more = f" and {len(recorded) - 1} more are" if len(recorded) > 1 else " is"
        raise TargetChangedError(
            f"{recorded[0]}{more} recorded. Nothing was adopted: forget all periods of the table first (chs3 forget)."
        )
    options = ProofOptions(needs_all_columns=True, object_column=load.policies.object_column, names_incomplete=True)
    read = yield from read_objects(load, options, (yield from _value_of_period(load)))
    yield from check_objects(load)
    load = replace(load, plan=read.plan)
    periods = {of.value: period for period, of in partitions.items()}
    # Objects that were not loaded yet, with a period of their rows that the table lacks: the next run loads them.
    new = {path: value for path, by_value in read.digests.items() for value in by_value if value not in periods}
    loads = dict[Period, PeriodLoad]()
    while True:
        items = _loads_of(load, read, partitions, before, new)
        lacking = yield from _prove_periods(items, read, options, new, loads)
        if not lacking:
            return [loads[period] for period in sorted(loads)]
        new |= lacking


def _value_of_period(load: PeriodLoad) -> Steps[KeyOfRows]:
    of_rows = yield from rows_of_periods(load)
    return lambda group, batch: of_rows.value_in(group)


def _loads_of(
    load: PeriodLoad,
    read: ReadObjects,
    partitions: Mapping[Period, PeriodPartitions],
    before: Mapping[Period, Mapping[Node, PeriodOnNode]],
    new: Mapping[str, str],
) -> list[PeriodLoad]:
    """Return a load of each period of the table, with the objects that have rows of it."""
    units = {unit.path: unit for unit in load.objects if unit.path not in new}
    # Objects without rows are recorded, too: else every run would read them again.
    empty, newest = {path for path in units if not read.digests[path]}, max(partitions)
    loads = []
    for period, of_period in sorted(partitions.items()):
        paths = {path for path in units if of_period.value in read.digests[path]}
        if period == newest:
            paths |= empty
        if not paths - empty:
            raise TargetChangedError(
                f"No loaded object has rows of {period}, and {load.context.target} does. Nothing was adopted: "
                f"{_way_out(new)}"
            )
        manifest = Manifest.of(units[path] for path in paths)
        counted = (read.digests[unit.path].get(of_period.value, NO_ROWS).rows for unit in manifest.objects)
        reading = replace(load.planned.reading, file_rows=tuple(counted))
        item = replace(load, period=period, period_partitions=of_period, before=before[period])
        loads.append(replace(item.with_objects(manifest), plan=replace(load.planned, reading=reading)))
    return loads


def _prove_periods(
    items: Sequence[PeriodLoad],
    read: ReadObjects,
    options: ProofOptions,
    new: Mapping[str, str],
    proved: dict[Period, PeriodLoad],
) -> Steps[dict[str, str]]:
    """Prove the periods not proved with these objects, and return the objects of which a period lacks rows."""
    lacking, unlike = dict[str, str](), list[ProvedPeriod]()
    for done, item in enumerate(items):
        if item.period in proved and proved[item.period].objects == item.objects:
            continue
        yield from Log(name=f"Comparing {item.period}.", done=done, total=len(items), unit="periods")
        value = item.period_partitions.value
        in_objects = {unit.path: read.digests[unit.path].get(value, NO_ROWS) for unit in item.objects}
        proof = yield from compare_period(item, item.before, read, in_objects, options)
        if proof.status == EQUAL:
            proved[item.period] = item
            continue
        unlike.append(proof)
        lacking |= {of.path: str(item.period) for of in proof.objects if of.status in ("missing", "incomplete")}
    if unlike and not lacking:
        raise TargetChangedError(
            f"The rows of {items[0].context.target} are not those of the objects: {unlike[0]}. Nothing was adopted: "
            f"{_way_out(new)}"
        )
    return lacking


def _partitions_with_rows(load: PeriodLoad) -> Steps[dict[Period, PeriodPartitions]]:
    context, part = load.context, load.period_partitions
    sql = Sql(
        f"SELECT DISTINCT partition_id, {part.of_part or 'partition_id'} FROM system.parts "
        f"WHERE active AND rows > 0 AND {in_table(context.target)}"
    )
    answers = yield from context.on_each(name=f"Look for the partitions of {context.target}", sql=sql)
    values = {key: value for rows in answers.values() for key, value in rows}
    if not values:
        raise TargetChangedError(f"{context.target} holds no rows to adopt. Load all arrivals.")
    objects_with = partial(_objects_with, load)
    return (yield from periods_of_rows(context, context.target, values, objects_with=objects_with, done="recorded"))


def _objects_with(load: PeriodLoad, value: str | None) -> Steps[list[str]]:
    return (yield from objects_with_rows((yield from plan_objects(load)), value))


def _way_out(new: Mapping[str, str]) -> str:
    """Say what to do, and which objects were left out: of one that was loaded, rows may be gone."""
    named = [f"{path} (of {period})" for path, period in sorted(new.items())[:_MOST_SHOWN]]
    if more := len(new) - len(named):
        named.append(f"and {quantity(more, 'object')} more")
    lacks = f" Taken as not loaded, as the table lacks rows of them: {', '.join(named)}." if new else ""
    return f"correct the rows, or load into a new table.{lacks}"


def record_arrivals(loads: Collection[PeriodLoad]) -> Steps[None]:
    """Record periods as loaded by arrival."""
    context = next(iter(loads)).context
    yield from make_ledger(context, context.nodes)
    yield from make_objects_table(context)
    context = context.with_ledger()
    loads = [replace(load, context=context) for load in loads]
    # Periods that came meanwhile are written to, too.
    partitions = {load.period: load.period_partitions for load in loads}
    partitions |= yield from _partitions_with_rows(loads[0])
    current = yield from look_up_periods(context, partitions)
    proved = {load.period: load for load in loads}
    for period, of_period in sorted(current.items()):
        load = proved.get(period)
        if not (load and all(is_as_before(was, of_period[node], load) for node, was in load.before.items())):
            raise TargetChangedError(f"Somebody wrote to {period} of {context.target} meanwhile: try again.")
    loads = [replace(load, before=current[load.period]) for load in loads]
    records = yield from records_as_loaded([(load, load.planned.reading) for load in loads])
    objects = [
        ObjectsOfPeriod(
            {node: load.key_on(node) for node in context.nodes},
            load.objects,
            load.base,
            load.file_rows,
            [load.files.source.arrival_of(unit) for unit in load.objects],
        )
        for load in loads
    ]
    first = loads[0]
    yield from record_objects(context, objects, attempt=first.attempt.nonce, query_id=f"{first.attempt.name}_objects")
    yield from add_records(context, "published", records, name="Record the periods as published")


def records_as_loaded(loads: Sequence[tuple[PeriodLoad, Reading]]) -> Steps[list[RecordOnNode]]:
    """Return the records of periods of one table as if these loads had published what `before` has of them."""
    filled = defaultdict[Node, list[str]](list)
    for load, _ in loads:
        for node, on_node in load.before.items():
            filled[node] += [partition.partition_id for partition in on_node.each if partition.state.rows]
    context = loads[0][0].context
    lasting = yield from find_lasting(context, filled)
    records = list[RecordOnNode]()
    for load, reading in loads:
        shards = rows_of_shards(load.before)
        for node, on_node in load.before.items():
            structure = load.structure_with(reading, node)
            for partition in on_node.recorded:
                state = replace(partition.state, lasts=partition.partition_id in lasting[node])
                values = values_of(load, rows=state.rows, state=state, rows_of_shards=shards, structure=structure)
                records.append((node, load.key_on(node, partition.partition_id), values))
    return records
