"""Check disks and replication."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from airflow_provider_chs3.core.arguments.merge_arguments import Thresholds
from airflow_provider_chs3.core.doctor.report import Check
from airflow_provider_chs3.core.load.staging_tables import KEPT_BYTES
from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.core.model.quantities import size_text
from airflow_provider_chs3.core.sql.quoting import Sql
from airflow_provider_chs3.core.steps.fan_out import query_reachable
from airflow_provider_chs3.core.steps.operations import Row, Steps
from airflow_provider_chs3.core.watch.health import FREE_SPACE_FACTOR
from airflow_provider_chs3.exceptions import Chs3Error

#: A smaller free fraction of a disk is too little: a merge of a tenth of its data would no longer fit.
_LOW_FREE_FRACTION = 0.1


def check_room(nodes: Iterable[Node]) -> Steps[tuple[Check, dict[Node, int]]]:
    """Check the free space of local disks, and return that of each node, too."""
    errors: dict[Node, Chs3Error] = {}
    sql = Sql(
        f"SELECT name, free_space, total_space, ({KEPT_BYTES}) FROM system.disks "
        "WHERE type = 'Local' AND total_space > 0"
    )
    rows = yield from query_reachable("Read the free space of the disks", dict.fromkeys(nodes, sql), errors)
    free = {node: sum(row[1] for row in disks) for node, disks in rows.items() if disks}
    findings = [
        f"{node}: disk {name!r} has {size_text(free_bytes)} of {size_text(total_bytes)} free, and a merge "
        f"takes {FREE_SPACE_FACTOR} times the size of its parts: free some space there."
        for node, disks in rows.items()
        for name, free_bytes, total_bytes, _ in disks
        if free_bytes < _LOW_FREE_FRACTION * total_bytes
    ]
    least, kept_bytes = min(free.values(), default=0), sum(disks[0][-1] for disks in rows.values() if disks)
    summary = f"at least {size_text(least)} free on each node" if free else ""
    if kept_bytes:
        summary += f"; earlier versions and held rows take up to {size_text(kept_bytes)}, see chs3 versions"
    if rows and not free:
        summary = "no local disks"
    return Check(name="disks", summary=summary, findings=tuple(findings)).with_errors(errors), free


#: All replicas of a node, without the columns that require a request to Keeper.
REPLICAS = Sql(
    "SELECT database, table, toUInt8(is_readonly), toUInt8(is_session_expired), toInt64(absolute_delay), "
    "toInt64(queue_size) FROM system.replicas"
)


def check_replication(nodes: Iterable[Node]) -> Steps[Check]:
    """Check that replicas keep up, and that Keeper answers them."""
    errors: dict[Node, Chs3Error] = {}
    rows = yield from query_reachable("Check the replicas", dict.fromkeys(nodes, REPLICAS), errors)
    return judge_replicas(rows).with_errors(errors)


def judge_replicas(rows: Mapping[Node, Iterable[Row]]) -> Check:
    """Judge the state of replicas."""
    findings, count, queued = [], 0, 0
    longest_seconds = Thresholds().max_replica_delay_seconds
    for node, replicas in rows.items():
        for database, table, is_readonly, is_session_expired, delay_seconds, queue in replicas:
            count, queued = count + 1, queued + queue
            of = f"{node}: the replica of {database}.{table}"
            if is_session_expired:
                findings.append(
                    f"{of} has lost its session with Keeper: check that Keeper is up and reachable from there."
                )
            elif is_readonly:
                findings.append(f"{of} is read-only: check Keeper, and system.replicas on this node.")
            if delay_seconds > longest_seconds:
                findings.append(f"{of} lags {delay_seconds:,} s behind: check system.replication_queue on this node.")
    summary = f"{count} replicas, {queued} parts in their queues" if count else "no table is replicated"
    return Check(name="replication", summary=summary if rows else "", findings=tuple(findings))
