"""Compose the records of adopted periods."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from airflow_provider_chs3.core.files.file_set import Reading
from airflow_provider_chs3.core.ledger.partition_state import rows_of_shards
from airflow_provider_chs3.core.ledger.recording import RecordOnNode
from airflow_provider_chs3.core.load.period_load import PeriodLoad
from airflow_provider_chs3.core.load.publication import values_of
from airflow_provider_chs3.core.load.published_rows import find_lasting
from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.core.steps.operations import Steps


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
        shards = rows_of_shards({node: on_node.state for node, on_node in load.before.items()})
        for node, on_node in load.before.items():
            structure = load.structure_with(reading, node)
            for partition in on_node.recorded:
                state = replace(partition.state, lasts=partition.partition_id in lasting[node])
                values = values_of(load, rows=state.rows, state=state, rows_of_shards=shards, structure=structure)
                records.append((node, load.key_on(node, partition.partition_id), values))
    return records
