"""Load without replicas that are down, where another replica of their shard is up.

Replicas are restarted and replaced all the time, so a nightly load must not need all of them. A replica that comes back
fetches what it missed from the others, by way of Keeper. So Keeper decides which replica is down: one that it still
considers alive may write to the period at any moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.core.sql.quoting import Sql, in_table
from airflow_provider_chs3.core.steps.operations import Log, QueryNodes, Steps, TryQueryNodes
from airflow_provider_chs3.core.target.topology import TableLocation, have_one_replica
from airflow_provider_chs3.exceptions import ClickHouseConnectionError


def leave_out_absent(location: TableLocation) -> Steps[TableLocation]:
    """Leave out nodes that do not answer, where the table is replicated and other replicas of their shard are up.

    Raises:
        ClickHouseConnectionError: If a node that cannot be left out does not answer.
    """
    if have_one_replica(location.nodes):
        return location
    answers = yield from TryQueryNodes(
        name="Check which replicas are up", sql=dict.fromkeys(location.nodes, Sql("SELECT 1"))
    )
    down = {node: error for node, error in answers.items() if isinstance(error, ClickHouseConnectionError)}
    if not down:
        return location
    up = tuple(node for node in location.nodes if node not in down)
    yield from _check_absent(location, up, down)
    for node in down:
        yield from Log(name=f"{node} is down. Other replicas of its shard are up: continuing without it.")
    return replace(location, nodes=up, absent=tuple(down))


def _check_absent(
    location: TableLocation, up: tuple[Node, ...], down: Mapping[Node, ClickHouseConnectionError]
) -> Steps[None]:
    target = location.target
    sql = Sql(
        "SELECT zookeeper_name, replica_name, mapKeys(mapFilter((name, is_active) -> is_active, replica_is_active)) "
        f"FROM system.replicas WHERE {in_table(target)}"
    )
    answers = yield from QueryNodes(name=f"Check the replicas of {target} in Keeper", sql=dict.fromkeys(up, sql))
    for node, error in down.items():
        of_shard = [
            rows[0]
            for replica, rows in answers.items()
            # The newest record of a shard comes from its Keeper, and only one is asked
            # (see `core.ledger.records.record`).
            if replica.shard_num == node.shard_num and rows and rows[0][0] == "default"
        ]
        answering = {name for _, name, _ in of_shard}
        # Where Keeper itself is down, no replica is active.
        if not of_shard or any(set(active) != answering for _, _, active in of_shard):
            raise ClickHouseConnectionError(
                _explain_need(error, node, has_others=bool(of_shard)), error.host, error.query_id
            )


def _explain_need(error: ClickHouseConnectionError, node: Node, *, has_others: bool) -> str:
    if not has_others:
        return error.message
    return (
        f"{error.message} Another replica of shard {node.shard_num} is up, but Keeper counts this one as alive. If it "
        "is down, loads continue without it once its session has expired (session_timeout_ms, 30 s by default). If it "
        "is up, workers must reach it."
    )
