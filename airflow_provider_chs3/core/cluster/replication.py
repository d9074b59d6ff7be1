"""Replicated targets: their replicas hold the same parts, so that one of each shard publishes and the others follow.

Every replica reads objects and writes what it reads, so staging is replicated too, under a path of its own in Keeper:
where it was plain, the rows of a shard would lie on all of its replicas, a part on each, and no single REPLACE
PARTITION could put them into place. It must be a single one: two at once, one on each replica, were seen to leave the
rows of both (ClickHouse 18.16). The others follow by what they have of staging already, so that nothing travels twice.
"""

from __future__ import annotations

from airflow_provider_chs3.core.cluster.node_facts import TargetContext
from airflow_provider_chs3.core.sql.quoting import Sql, table
from airflow_provider_chs3.core.values.models import TableName
from airflow_provider_chs3.core.workflow.operations import Steps


def follow(context: TargetContext, name: TableName, *, wait_seconds: int | None = None) -> Steps[None]:
    """Wait until every replica of a table has what any replica of it has; nothing to do where it is not replicated.

    Merges are not waited for (`LIGHTWEIGHT`). A replica that does not manage within the server's `receive_timeout`
    (300 s by default) ends in error 159, and the next run does what is missing.

    Args:
        context: The nodes.
        name: The table.
        wait_seconds: How long; None leaves it to the server.
    """
    if context.table_facts.is_replicated:
        sql = Sql(f"SYSTEM SYNC REPLICA {table(name)} LIGHTWEIGHT")
        settings = {} if wait_seconds is None else {"receive_timeout": wait_seconds}
        yield from context.on_each(name=f"Wait for the replicas of {name}", sql=sql, settings=settings)
