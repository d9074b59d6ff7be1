"""Replicated targets: replicas hold the same parts, so one replica of each shard publishes and the others follow.

Every replica reads objects and writes their rows, so staging is replicated too, under its own path in Keeper: if it
were plain, a shard's rows would be spread over its replicas, and no single REPLACE PARTITION could publish them.
It must be a single one: two at once, one on each replica, were seen to leave the rows of both (ClickHouse 18.16). The
others follow with the parts that they already have in staging, so nothing is transferred twice.
"""

from __future__ import annotations

from airflow_provider_chs3.core.cluster.node_facts import TargetContext
from airflow_provider_chs3.core.sql.quoting import Sql, table
from airflow_provider_chs3.core.values.models import TableName
from airflow_provider_chs3.core.workflow.operations import Steps
from airflow_provider_chs3.exceptions import ClickHouseServerError, ReplicasBehindError

#: Code of ClickHouse for a replica that did not follow in time.
_TIMEOUT_EXCEEDED = 159


def follow(context: TargetContext, name: TableName, *, wait_seconds: int | None = None) -> Steps[None]:
    """Wait until all replicas of a table have the same data; do nothing if it is not replicated.

    This does not wait for merges (`LIGHTWEIGHT`).

    Args:
        context: The nodes.
        name: The table.
        wait_seconds: Timeout in seconds; None uses the server's `receive_timeout`, 300 s by default.

    Raises:
        ReplicasBehindError: If a replica takes longer. The next run does what is missing.
    """
    if context.table_facts.is_replicated:
        sql = Sql(f"SYSTEM SYNC REPLICA {table(name)} LIGHTWEIGHT")
        settings = {} if wait_seconds is None else {"receive_timeout": wait_seconds}
        try:
            yield from context.on_each(name=f"Wait for the replicas of {name}", sql=sql, settings=settings)
        except ClickHouseServerError as error:
            if error.code != _TIMEOUT_EXCEEDED:
                raise
            raise ReplicasBehindError(
                f"Replicas of {name} have not caught up with each other in time (159, from {error.host}). Look at "
                "system.replication_queue on each of them: postpone_reason and last_exception say what they wait for. "
                "If somebody stopped them, SYSTEM START FETCHES and SYSTEM START REPLICATION QUEUES start them again."
            ) from error
