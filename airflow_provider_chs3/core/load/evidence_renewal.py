"""Record evidence of a published period, and renew it after merges and ALTERs."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence

from airflow_provider_chs3.core.ledger.comparison import as_recorded, evidence_of
from airflow_provider_chs3.core.ledger.partition_state import rows_of_shards
from airflow_provider_chs3.core.ledger.recording import RecordOnNode, Renewal, add_records, renew
from airflow_provider_chs3.core.ledger.records import PeriodOnNode, Record
from airflow_provider_chs3.core.ledger.structure_record import as_text
from airflow_provider_chs3.core.ledger.table import make_ledger
from airflow_provider_chs3.core.load.period_load import PeriodLoad
from airflow_provider_chs3.core.load.publication import evidence_of_state, periods_text, values_of
from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.steps.operations import Log, QueryNodes, Steps
from airflow_provider_chs3.exceptions import Chs3Error


def renew_records(loads: Sequence[PeriodLoad], periods: Mapping[Period, Mapping[Node, PeriodOnNode]]) -> Steps[None]:
    """Record the evidence of unchanged periods again after merges or ALTERs.

    The fewer merges separate a record from the current parts, the more it proves. New columns are compared from then
    on, because merges write their defaults into the parts. Replicas that were down during the publication get a
    record, so that the others may be down next time. If this fails, the periods are published nevertheless.
    """
    context = loads[0].context
    renewals, steps = defaultdict[Node, list[Renewal]](list), list[QueryNodes]()
    for load in loads:
        by_node = periods[load.period]
        shards = rows_of_shards({node: period.state for node, period in by_node.items()})
        for node, period in by_node.items():
            if period.record and period.is_of_replica:
                steps.append(_copy_records(load, node, period.record, period, shards))
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
        yield from make_ledger(context, renewed)
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
