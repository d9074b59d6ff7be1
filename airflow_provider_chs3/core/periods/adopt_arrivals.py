"""Adopt a table that was loaded by arrival, where no record says which objects its rows are from: all or none."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace

from airflow_provider_chs3.core.ledger.object_records import ObjectsOfPeriod, make_objects_table, record_objects
from airflow_provider_chs3.core.ledger.queries import look_up_periods
from airflow_provider_chs3.core.ledger.recording import add_records
from airflow_provider_chs3.core.ledger.table import make_ledger
from airflow_provider_chs3.core.load.load_request import LoadRequest
from airflow_provider_chs3.core.load.period_load import PeriodLoad, Spread
from airflow_provider_chs3.core.load.planning import plan_objects
from airflow_provider_chs3.core.load.spread import read_rows_of_objects
from airflow_provider_chs3.core.model.models import HeldObjects, Manifest, Unit
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.model.quantities import quantity
from airflow_provider_chs3.core.periods.adopted_records import records_as_loaded
from airflow_provider_chs3.core.periods.prove import ProofOptions, is_as_before, prove_period
from airflow_provider_chs3.core.periods.proved_period import EQUAL, ProvedPeriod
from airflow_provider_chs3.core.sql.quoting import Sql, in_table
from airflow_provider_chs3.core.steps.operations import Log, Steps
from airflow_provider_chs3.core.target.node_facts import TargetContext
from airflow_provider_chs3.core.target.period_partitions import (
    PeriodPartitions,
    part_of_time,
    periods_of_rows,
)
from airflow_provider_chs3.exceptions import TargetChangedError

#: Objects that a text names: more would hide the first.
_MOST_SHOWN = 5


def prove_arrivals(request: LoadRequest, context: TargetContext) -> Steps[list[PeriodLoad]]:
    """Read which periods each object has rows of, and prove that the table's periods hold exactly these rows.

    Each object is read once for its periods, and once more for each of them.

    Returns:
        A load of each period, with its objects.

    Raises:
        TargetChangedError: If a period holds other rows, or is recorded.
    """
    arrivals = tuple((yield from request.source.summarize_periods(request.source.arrival_grain)))
    source, listed = yield from request.source.list_periods(arrivals)
    part = yield from part_of_time(context)
    load = PeriodLoad.of(
        request,
        context,
        period=request.period,
        source=source,
        manifest=Manifest.of(unit for manifest in listed.values() for unit in manifest.objects),
        period_partitions=part,
    )
    load = replace(load, spread=Spread(), plan=(yield from plan_objects(load)))
    partitions = yield from _partitions_with_rows(context, part)
    before = yield from look_up_periods(context, partitions)
    recorded = sorted(period for period, of in before.items() if any(on_node.record for on_node in of.values()))
    if recorded:
        more = f" and {len(recorded) - 1} more are" if len(recorded) > 1 else " is"
        raise TargetChangedError(
            f"{recorded[0]}{more} recorded. Nothing was adopted: forget all periods of the table first (chs3 forget)."
        )
    found = yield from read_rows_of_objects(load)
    periods = {of.value: period for period, of in partitions.items()}
    # Of objects that were not loaded yet, a period of which the table lacks rows: the next run loads them.
    new = {path: value for path, value, _ in found if value not in periods}
    loads = dict[Period, PeriodLoad]()
    while True:
        rows = _by_period([row for row in found if row[0] not in new], partitions, context, new)
        lacking = yield from _prove_periods(load, rows, partitions, new, loads)
        if not lacking:
            return [replace(item, before=before[period]) for period, item in sorted(loads.items())]
        new |= lacking


def _prove_periods(
    load: PeriodLoad,
    rows: Mapping[Period, Counter[str]],
    partitions: Mapping[Period, PeriodPartitions],
    new: Mapping[str, str],
    loads: dict[Period, PeriodLoad],
) -> Steps[dict[str, str]]:
    """Prove the periods that are not proved with these objects, and keep a load of each.

    Returns:
        Objects of which a period lacks rows, with that period: they were not loaded, if any was.
    """
    held = _held(rows, {unit.path: unit for unit in load.objects if unit.path not in new})
    options = ProofOptions(needs_all_columns=True, object_column=load.policies.object_column, names_incomplete=True)
    lacking, unlike = dict[str, str](), list[ProvedPeriod]()
    for done, (period, of_period) in enumerate(sorted(rows.items())):
        manifest = held.periods[period]
        if period in loads and loads[period].objects == manifest.objects:
            continue
        item = replace(load, files=replace(load.files, source=load.files.source.holding(held)), period=period)
        item = replace(item, period_partitions=partitions[period], plan=None).with_objects(manifest)
        yield from Log(name=f"Comparing {period}.", done=done, total=len(rows), unit="periods")
        proof = yield from prove_period(item, options)
        if proof.status != EQUAL:
            unlike.append(proof)
            lacking |= {of.path: str(period) for of in proof.objects if of.status in ("missing", "incomplete")}
            continue
        counted = tuple(of_period[unit.path] for unit in manifest.objects)
        reading = replace(load.planned.reading, file_rows=counted)
        loads[period] = replace(item, plan=replace(load.planned, reading=reading))
    if unlike and not lacking:
        raise TargetChangedError(
            f"The rows of {load.context.target} are not those of the objects: {unlike[0]}. Nothing was adopted: "
            f"{_way_out(new)}"
        )
    return lacking


def _partitions_with_rows(context: TargetContext, part: PeriodPartitions) -> Steps[dict[Period, PeriodPartitions]]:
    sql = Sql(
        f"SELECT DISTINCT partition_id, {part.of_part or 'partition_id'} FROM system.parts "
        f"WHERE active AND rows > 0 AND {in_table(context.target)}"
    )
    answers = yield from context.on_each(name=f"Look for the partitions of {context.target}", sql=sql)
    values = {key: value for rows in answers.values() for key, value in rows}
    if not values:
        raise TargetChangedError(f"{context.target} holds no rows to adopt. Load all arrivals.")
    return (yield from periods_of_rows(context, context.target, values))


def _way_out(new: Mapping[str, str]) -> str:
    """Say what to do, and which objects were left out: of one that was loaded, rows may be gone."""
    named = [f"{path} (of {period})" for path, period in sorted(new.items())[:_MOST_SHOWN]]
    if more := len(new) - len(named):
        named.append(f"and {quantity(more, 'object')} more")
    lacks = f" Taken as not loaded, as the table lacks rows of them: {', '.join(named)}." if new else ""
    return f"correct the rows, or load into a new table.{lacks}"


def _by_period(
    found: Collection[tuple[str, str, int]],
    partitions: Mapping[Period, PeriodPartitions],
    context: TargetContext,
    new: Mapping[str, str],
) -> dict[Period, Counter[str]]:
    periods = {of.value: period for period, of in partitions.items()}
    rows = defaultdict[Period, Counter[str]](Counter)
    for path, value, count in found:
        rows[periods[value]][path] += count
    if missing := sorted(partitions.keys() - rows.keys()):
        raise TargetChangedError(
            f"No loaded object has rows of {missing[0]}, and {context.target} does. Nothing was adopted: "
            f"{_way_out(new)}"
        )
    return dict(rows)


def _held(rows: Mapping[Period, Counter[str]], units: Mapping[str, Unit]) -> HeldObjects:
    # Objects without rows are recorded, too: else every run would read them again.
    empty = units.keys() - {path for of_period in rows.values() for path in of_period}
    paths = {period: {*of_period, *(empty if period == max(rows) else ())} for period, of_period in rows.items()}
    total = sum(rows.values(), Counter[str]())
    return HeldObjects(
        {period: Manifest.of(units[path] for path in of_period) for period, of_period in paths.items()},
        {path: total[path] for path in units},
    )


def record_arrivals(loads: Collection[PeriodLoad]) -> Steps[None]:
    """Record periods as loaded by arrival.

    Raises:
        TargetChangedError: If one of them was changed since it was proved.
    """
    context = next(iter(loads)).context
    yield from make_ledger(context, context.nodes)
    yield from make_objects_table(context)
    context = context.with_ledger()
    loads = [replace(load, context=context) for load in loads]
    # Periods that came meanwhile are written to, too.
    partitions = {load.period: load.period_partitions for load in loads}
    partitions |= yield from _partitions_with_rows(context, loads[0].period_partitions)
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
