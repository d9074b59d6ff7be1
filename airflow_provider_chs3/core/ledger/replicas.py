"""The records of a replicated target: the newest record of a shard counts for each of its replicas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from airflow_provider_chs3.core.cluster.node_facts import TargetContext
from airflow_provider_chs3.core.cluster.replication import follow
from airflow_provider_chs3.core.ledger.records import MonthOnNode, Record
from airflow_provider_chs3.core.values.models import Node
from airflow_provider_chs3.core.workflow.operations import Log, Steps
from airflow_provider_chs3.exceptions import ReplicasBehindError

#: What a replica that came back lacks is minutes old in the worst case, and fetched as it is.
_CATCH_UP_SECONDS = 60


def look_up_caught_up(
    context: TargetContext, look_up: Callable[[], Steps[dict[Node, MonthOnNode]]]
) -> Steps[dict[Node, MonthOnNode]]:
    """Look a month up; if replicas differ, again after they have caught up with each other.

    A replica that was down and has just come back has the month of before.

    Args:
        context: The nodes.
        look_up: The look-up of the month on every node.
    """
    months = yield from look_up()
    states = {(node.shard_num, month.state.rows, month.state.max_block) for node, month in months.items()}
    if not context.table_facts.is_replicated or len(states) == len(context.publishers):
        return months
    try:
        yield from follow(context, context.target, wait_seconds=_CATCH_UP_SECONDS)
    except ReplicasBehindError:
        yield from Log(
            name=f"Replicas of {context.target} have not caught up with each other in {_CATCH_UP_SECONDS} s."
        )
    return (yield from look_up())


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
