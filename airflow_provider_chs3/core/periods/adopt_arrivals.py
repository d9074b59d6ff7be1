"""Adopt a table that was loaded by arrival, where no record says which objects its rows are from: all or none."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace

from airflow_provider_chs3.core.ledger.object_records import ObjectsOfPeriod, make_objects_table, record_objects
from airflow_provider_chs3.core.ledger.queries import look_up_periods
from airflow_provider_chs3.core.ledger.recording import add_records
from airflow_provider_chs3.core.ledger.records import PeriodOnNode
from airflow_provider_chs3.core.ledger.table import make_ledger
from airflow_provider_chs3.core.load.load_request import LoadRequest
from airflow_provider_chs3.core.load.period_load import PeriodLoad, Spread
from airflow_provider_chs3.core.load.planning import plan_objects
from airflow_provider_chs3.core.load.spread import read_rows_of_objects
from airflow_provider_chs3.core.model.models import HeldObjects, Manifest, Unit
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.periods.adopted_records import records_as_loaded
from airflow_provider_chs3.core.periods.prove import ProofOptions, prove_period
from airflow_provider_chs3.core.periods.proved_period import EQUAL
from airflow_provider_chs3.core.sql.quoting import Sql, in_table
from airflow_provider_chs3.core.steps.operations import Log, Steps
from airflow_provider_chs3.core.target.node_facts import TargetContext
from airflow_provider_chs3.core.target.period_partitions import (
    PeriodPartitions,
    part_of_time,
    periods_of_rows,
)
from airflow_provider_chs3.exceptions import TargetChangedError


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
    for period, on_nodes in sorted(before.items()):
        if any(on_node.record for on_node in on_nodes.values()):
            raise TargetChangedError(f"{period} is recorded. Nothing was adopted: forget it first (chs3 forget).")
    found = yield from read_rows_of_objects(load)
    known = {of.value for of in partitions.values()}
    # An object with rows of another period was not loaded yet: the next run does that.
    new = {path for path, value, _ in found if value not in known}
    while True:
        rows = _by_period([row for row in found if row[0] not in new], partitions, context)
        loads, missing = yield from _prove_periods(load, rows, partitions, new)
        if not missing:
            return [replace(item, before=before[item.period]) for item in loads]
        new |= missing


def _prove_periods(
    load: PeriodLoad, rows: Mapping[Period, Counter[str]], partitions: Mapping[Period, PeriodPartitions], new: set[str]
) -> Steps[tuple[list[PeriodLoad], set[str]]]:
    """Return a load of each period; or objects that one of them holds no rows of: they were not loaded, if any was."""
    held = _held(rows, {unit.path: unit for unit in load.objects if unit.path not in new})
    loads = []
    for done, (period, of_period) in enumerate(sorted(rows.items())):
        item = replace(load, files=replace(load.files, source=load.files.source.holding(held)), period=period)
        item = replace(item, period_partitions=partitions[period], plan=None).with_objects(held.periods[period])
        yield from Log(name=f"Comparing {period}.", done=done, total=len(rows), unit="periods")
        proof = yield from prove_period(item, ProofOptions(needs_all_columns=True))
        if missing := {finding.path for finding in proof.objects if finding.status == "missing"}:
            return [], missing
        if proof.status != EQUAL:
            raise TargetChangedError(
                f"The rows of {load.context.target} are not those of the objects: {proof}. Nothing was adopted. Load "
                "into a new table."
            )
        counted = tuple(of_period[unit.path] for unit in held.periods[period].objects)
        reading = replace(load.planned.reading, file_rows=counted)
        loads.append(replace(item, plan=replace(load.planned, reading=reading)))
    return loads, set()


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


def _by_period(
    found: Collection[tuple[str, str, int]], partitions: Mapping[Period, PeriodPartitions], context: TargetContext
) -> dict[Period, Counter[str]]:
    periods = {of.value: period for period, of in partitions.items()}
    rows = defaultdict[Period, Counter[str]](Counter)
    for path, value, count in found:
        rows[periods[value]][path] += count
    if missing := sorted(partitions.keys() - rows.keys()):
        raise TargetChangedError(
            f"No loaded object has rows of {missing[0]}, and {context.target} does. Nothing was adopted. Load into "
            "a new table."
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


def _writes(on_node: PeriodOnNode) -> tuple[int, int, int]:
    return on_node.state.max_block, on_node.state.data_version, on_node.state.rows


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
    current = yield from look_up_periods(context, {load.period: load.period_partitions for load in loads})
    for load in loads:
        if any(_writes(current[load.period][node]) != _writes(was) for node, was in load.before.items()):
            raise TargetChangedError(f"Somebody wrote to {load.period} of {context.target} meanwhile: try again.")
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
