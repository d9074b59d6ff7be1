"""Record the evidence of unchanged periods again, also on replicas that were down."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence

from airflow_provider_chs3.core.ledger.object_records import (
    ObjectsOfPeriod,
    RecordedObject,
    loaded_objects,
    make_objects_table,
    record_objects,
    recorded_objects,
)
from airflow_provider_chs3.core.ledger.period_comparison import as_recorded, evidence_of
from airflow_provider_chs3.core.ledger.recording import RecordOnNode, Renewal, add_records, as_text, renew
from airflow_provider_chs3.core.ledger.records import PeriodOnNode, Record, rows_of_shards
from airflow_provider_chs3.core.ledger.table import make_ledger
from airflow_provider_chs3.core.load.period_load import PeriodLoad
from airflow_provider_chs3.core.load.publication import evidence_of_state, periods_text, values_of
from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.sql.quoting import one_of
from airflow_provider_chs3.core.steps.operations import Log, QueryNodes, Steps
from airflow_provider_chs3.core.target.node_facts import Target
from airflow_provider_chs3.exceptions import Chs3Error


def renew_records(loads: Sequence[PeriodLoad]) -> Steps[None]:
    """Record the evidence of unchanged periods again after merges or ALTERs.

    The fewer merges separate a record from the current parts, the more it proves. New columns are compared from then
    on, because merges write their defaults into the parts. Replicas that were down during the publication get a
    record, so that the others may be down next time. If this fails, the periods are published nevertheless.
    """
    context = loads[0].context
    renewals, steps = defaultdict[Node, list[Renewal]](list), list[QueryNodes]()
    lacking = list[tuple[PeriodLoad, Node, Record]]()
    for load in loads:
        shards = rows_of_shards(load.before)
        for node, period in load.before.items():
            if period.record and period.is_of_replica:
                steps.append(_copy_records(load, node, period.record, period, shards))
                lacking.append((load, node, period.record))
            elif period.record and period.has_history and not _is_up_to_date(load, node, period, shards):
                structure, attempt = _current_structure(load, node, period.record), period.record.attempt
                # All partitions, because the newest records of a period share a number.
                for partition in period.each:
                    evidence = evidence_of_state(as_recorded(partition), shards)
                    renewals[node].append(
                        Renewal(load.key_on(node, partition.partition_id), attempt, evidence, structure)
                    )
    renewed = {node: renew(context.ledger, renewals[node]) for node in context.recorders if node in renewals}
    if renewed:
        steps.append(QueryNodes(name=_step_name(loads), sql=renewed, settings=context.record_settings))
    try:
        # A replica that was down, or has been set up again since, may have none.
        yield from make_ledger(context, list(dict.fromkeys(node for step in steps for node in step.sql)))
        # Its increments, and loads by arrival, need the records of objects, too.
        yield from _copy_objects(context, lacking)
        for step in steps:
            yield from step
    except Chs3Error as error:
        yield from Log(name=f"The period is as published, but its current parts could not be recorded: {error}")


def _copy_records(
    load: PeriodLoad, node: Node, newest: Record, period: PeriodOnNode, shards: Mapping[int, int]
) -> QueryNodes:
    """Return the step that gives a replica the record written while it was down."""
    structure = _current_structure(load, node, newest)
    records = list[RecordOnNode]()
    for partition in period.each:
        state = as_recorded(partition)
        values = values_of(load, rows=state.rows, state=state, rows_of_shards=shards, structure=structure)
        records.append((node, load.key_on(node, partition.partition_id), {**values, **newest.of_attempt}))
    return add_records(load.context, "published", records, name=_step_name([load]), number=newest.sequence)


def _copy_objects(context: Target, lacking: Sequence[tuple[PeriodLoad, Node, Record]]) -> Steps[None]:
    """Give replicas the records of objects that were written while they were down."""
    if not lacking:
        return
    yield from make_objects_table(context)
    known = defaultdict[Period, list[RecordedObject]](list)
    of_periods = one_of("period", dict.fromkeys(str(load.period) for load, *_ in lacking))
    for item in (yield from loaded_objects(context, of_periods)):
        known[item.period].append(item)
    for load, node, record in lacking:
        ask = recorded_objects(context, [(load.period, record.base)], on=[node], intended=record.attempt)
        there = {unit.path for unit in (yield from ask)[0].objects}
        new = [item for item in known[load.period] if item.unit.path not in there]
        objects = ObjectsOfPeriod(
            {node: load.key_on(node)},
            [item.unit for item in new],
            record.base,
            [item.rows for item in new],
            [item.arrival for item in new],
        )
        yield from record_objects(context, [objects], attempt=record.attempt)


def _step_name(loads: Sequence[PeriodLoad]) -> str:
    return f"Record the parts of {periods_text(loads)} again"


def _is_up_to_date(load: PeriodLoad, node: Node, period: PeriodOnNode, shards: Mapping[int, int]) -> bool:
    return all(
        partition.record is not None
        and evidence_of(partition.record) == as_recorded(partition).evidence(shards)
        and partition.record.structure == _current_structure(load, node, partition.record)
        for partition in period.each
    )


def _current_structure(load: PeriodLoad, node: Node, newest: Record) -> str:
    """Return the current structure of the table with the recorded files."""
    return as_text(json.loads(newest.structure), load.request.structure(load.context, shard_num=node.shard_num))
