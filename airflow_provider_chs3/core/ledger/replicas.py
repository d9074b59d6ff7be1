"""The records of a replicated target: the newest record of a shard counts for each of its replicas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from airflow_provider_chs3.core.cluster.node_facts import TargetContext
from airflow_provider_chs3.core.ledger.records import MonthOnNode, Record
from airflow_provider_chs3.core.values.models import Node


def with_records_of_replicas(context: TargetContext, months: Mapping[Node, MonthOnNode]) -> dict[Node, MonthOnNode]:
    """Give each replica the newest record of the month that any replica of its shard has.

    Block numbers come from Keeper and are the same on all replicas. A replica that was set up again, or was down while
    others published, has their rows, but not their records.

    Args:
        context: The nodes.
        months: The month on each node.
    """
    return records_of_replicas(months) if context.table_facts.is_replicated else dict(months)


def records_of_replicas(months: Mapping[Node, MonthOnNode]) -> dict[Node, MonthOnNode]:
    """Give each replica of a replicated table the newest record of its shard."""
    newest: dict[int, Record] = {}
    for node, month in months.items():
        known = newest.get(node.shard_num)
        if month.record and (known is None or month.record.sequence > known.sequence):
            newest[node.shard_num] = month.record
    return {node: _with_record(month, newest.get(node.shard_num)) for node, month in months.items()}


def _with_record(month: MonthOnNode, newest: Record | None) -> MonthOnNode:
    own = month.record
    if newest is None or (own and (own.attempt, own.event) == (newest.attempt, newest.event)):
        return month
    return replace(month, record=newest, is_of_replica=True)
