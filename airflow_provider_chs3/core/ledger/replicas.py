"""The records of a replicated target: the newest record of a shard counts for each of its replicas."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_chs3.core.cluster.node_facts import TargetContext
from airflow_provider_chs3.core.ledger.records import PeriodOnNode
from airflow_provider_chs3.core.values.models import Node


def with_records_of_replicas(context: TargetContext, periods: Mapping[Node, PeriodOnNode]) -> dict[Node, PeriodOnNode]:
    """Give each replica the newest record of the period that any replica of its shard has.

    Block numbers come from Keeper and are the same on all replicas. A replica that was set up again, or was down while
    others published, has their rows, but not their records.

    Args:
        context: The nodes.
        periods: The period on each node.
    """
    return records_of_replicas(periods) if context.table_facts.is_replicated else dict(periods)


def records_of_replicas(periods: Mapping[Node, PeriodOnNode]) -> dict[Node, PeriodOnNode]:
    """Give each replica of a replicated table the newest record of its shard."""
    newest: dict[int, PeriodOnNode] = {}
    for node, period in periods.items():
        known = newest.get(node.shard_num)
        if period.record and (known is None or not known.record or period.record.sequence > known.record.sequence):
            newest[node.shard_num] = period
    return {node: _with_record(period, newest.get(node.shard_num)) for node, period in periods.items()}


def _with_record(period: PeriodOnNode, newest: PeriodOnNode | None) -> PeriodOnNode:
    own, other = period.record, newest.record if newest else None
    if newest is None or other is None or (own and own.is_with(other)):
        return period
    return period.with_record_of(newest)
