"""Check the merges of one table's periods, or the backlog of the servers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from airflow_provider_chs3.core.arguments.merge_arguments import Thresholds
from airflow_provider_chs3.core.doctor.report import Check, in_a_line
from airflow_provider_chs3.core.ledger.queries import periods_of_partitions
from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.core.model.quantities import quantity
from airflow_provider_chs3.core.sql.quoting import Sql, in_table, one_of, readable
from airflow_provider_chs3.core.steps.fan_out import query_reachable
from airflow_provider_chs3.core.steps.operations import Row, Steps
from airflow_provider_chs3.core.target.node_facts import Target
from airflow_provider_chs3.core.watch.health import Health, judge
from airflow_provider_chs3.core.watch.merge_observation import observe
from airflow_provider_chs3.exceptions import Chs3Error

_NAME = "merges"
_LIMITS = ("parts_to_delay_insert", "parts_to_throw_insert", "max_avg_part_size_for_too_many_parts")


def check_merges_of(context: Target) -> Steps[Check]:
    """Check the merges of a table's periods."""
    target = context.target
    sql = Sql(f"SELECT DISTINCT partition_id FROM system.parts WHERE active AND {in_table(target)}")
    errors: dict[Node, Chs3Error] = {}
    rows = yield from query_reachable(f"Find the partitions of {target}", dict.fromkeys(context.nodes, sql), errors)
    ids = {row[0] for of_node in rows.values() for row in of_node}
    context = replace(context, nodes={node: context.nodes[node] for node in rows})
    try:
        periods = (yield from periods_of_partitions(context, ids)) if rows else {}
        states = (yield from observe(context, periods)) if periods else ()
    except Chs3Error as error:
        return Check(name=_NAME).with_errors({context.coordinator: error})
    verdicts = [judge(state, Thresholds()) for state in states]
    bad = (Health.STUCK, Health.SETTLED_WITH_TOO_MANY_PARTS)
    counts = Counter(str(verdict.health).replace("_", " ") for verdict in verdicts)
    seen = ", ".join(f"{count} {health}" for health, count in sorted(counts.items())) or "no parts"
    check = Check(
        name=_NAME,
        summary=f"{target}, {quantity(len(set(periods.values())), 'period')}, on all nodes: {seen}",
        findings=tuple(in_a_line(f"{verdict}.") for verdict in verdicts if verdict.health in bad),
        remarks=tuple(in_a_line(verdict) for verdict in verdicts if verdict.health is Health.SETTLING),
    )
    return check.with_errors(errors)


def check_backlog(nodes: Iterable[Node]) -> Steps[Check]:
    """Check how far servers are behind with merges and mutations of all tables."""
    errors: dict[Node, Chs3Error] = {}
    rows = yield from query_reachable("Read the backlog of merges", dict.fromkeys(nodes, Sql(_BACKLOG)), errors)
    seen = {node: of_node[0] for node, of_node in rows.items()}
    merging, waiting = sum(row[0] for row in seen.values()), sum(len(row[3]) for row in seen.values())
    most = max((row[1][0][3] for row in seen.values() if row[1]), default=0)
    check = Check(
        name=_NAME,
        summary=f"{merging} run, {waiting} mutations wait, at most {most:,} parts in a partition" if seen else "",
        findings=tuple(_describe_backlog(seen)),
    )
    return check.with_errors(errors)


_BACKLOG = f"""
SELECT
    (SELECT count() FROM system.merges),
    (SELECT groupArray((database, table, partition_id, parts, bytes)) FROM (
        SELECT database, table, partition_id, count() AS parts, sum(bytes_on_disk) AS bytes
        FROM system.parts WHERE active GROUP BY database, table, partition_id ORDER BY parts DESC LIMIT 1)),
    (SELECT groupArray((name, value)) FROM system.merge_tree_settings WHERE {one_of("name", _LIMITS)}),
    (SELECT groupArray((database, table, command, {readable("latest_fail_reason")}))
        FROM system.mutations WHERE NOT is_done),
    (SELECT groupArray((database, table, parts)) FROM (
        SELECT database, table, count() AS parts FROM system.detached_parts
        WHERE startsWith(reason, 'broken') GROUP BY database, table))
"""


def _describe_backlog(seen: Mapping[Node, Row]) -> Iterator[str]:
    for node, (_, fullest, limits, mutations, broken) in seen.items():
        for database, table, partition_id, parts, size_bytes in fullest:
            if _are_many(parts, size_bytes, {name: int(value) for name, value in limits}):
                yield (
                    f"{node}: partition {partition_id} of {database}.{table} has {parts:,} parts; inserts are "
                    f"slowed down at {dict(limits)['parts_to_delay_insert']}, refused at "
                    f"{dict(limits)['parts_to_throw_insert']}: see why with --table (docs/merge-health.md)."
                )
        for database, table, command, fail_reason in mutations:
            if fail_reason:
                yield in_a_line(
                    f"{node}: mutation {command} of {database}.{table} failed: {fail_reason.splitlines()[0]}; "
                    "fix its cause, or KILL MUTATION."
                )
        for database, table, parts in broken:
            yield (
                f"{node}: {parts} parts of {database}.{table} were broken, and their rows are missing unless a "
                "replica restored them: see system.detached_parts, and load their periods again."
            )


def _are_many(parts: int, size_bytes: int, limits: Mapping[str, int]) -> bool:
    """Apply the rule of `core.watch.health` with the server's limits; a named table's own limits count instead."""
    is_counted = size_bytes <= parts * limits["max_avg_part_size_for_too_many_parts"]
    return is_counted and parts > Thresholds().stuck_fraction * limits["parts_to_delay_insert"]
