"""Observe a table's parts, merges and mutations with one statement per node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from airflow_provider_chs3.core.model.models import Node, TableName
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.sql.quoting import Sql, in_table, one_of, readable
from airflow_provider_chs3.core.steps.operations import QueryNodes, Row, Steps
from airflow_provider_chs3.core.target.node_capacity import Limits
from airflow_provider_chs3.core.target.node_facts import QUEUE, Target, inspect_target
from airflow_provider_chs3.core.target.period_partitions import PeriodPartitions, partitions_of, parts_of
from airflow_provider_chs3.core.target.table_facts import TableFacts
from airflow_provider_chs3.core.target.topology import TableRequest
from airflow_provider_chs3.exceptions import PreflightError

#: Without `system.replication_queue`, entries of a queue are only counted, up to as many.
_MOST_ENTRIES = 1_000
_IS_PLAIN = "NOT startsWith(partition_id, 'patch-')"
#: What `Activity.merge_state` takes of a partition: parts, bytes, bytes of the two smallest parts, age in seconds.
SIZES = f"""countIf({_IS_PLAIN}), sumIf(bytes_on_disk, {_IS_PLAIN}),
    arraySum(arraySlice(arraySort(groupArrayIf(bytes_on_disk, {_IS_PLAIN})), 1, 2)),
    dateDiff('second', max(modification_time), now())"""

#: Rows by their first fields: database and table, perhaps a partition.
_Grouped: TypeAlias = Mapping[tuple[str, ...], Sequence[Row]]


@dataclass(frozen=True, slots=True)
class Merge:
    """A running merge or mutation."""

    progress: float
    seconds: float
    size_bytes: int
    parts: int


@dataclass(frozen=True, kw_only=True, slots=True)
class UnfinishedMutation:
    """A mutation that still has parts of the period to rewrite."""

    command: str
    fail_reason: str
    age_seconds: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Replica:
    """State of a replica of the table: its delay behind the others, and the period's parts that it has yet to do."""

    is_readonly: bool
    delay_seconds: int
    queue: int = 0
    last_exception: str = ""
    postpone_reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class MergeState:
    """Merge state of one period on one node."""

    node: Node
    period: Period
    parts: int
    size_bytes: int
    two_smallest_bytes: int
    unchanged_seconds: int
    merges: tuple[Merge, ...]
    mutations: tuple[UnfinishedMutation, ...]
    limits: Limits
    table_parts: int
    free_bytes: int
    pool_is_busy: bool
    at_seconds: float
    broken_parts: tuple[str, ...] = ()
    replica: Replica | None = None
    partition_id: str = ""


def observe_periods(
    request: TableRequest,
    periods: tuple[Period, ...],
    *,
    known: dict[TableFacts, dict[Period, PeriodPartitions]] | None = None,
) -> Steps[tuple[MergeState, ...]]:
    """Find the nodes and partitions, and observe the merges of each partition on each node."""
    context = yield from inspect_table(request)
    owns = {} if known is None else known.setdefault(context.table_facts, {})
    if missing := [period for period in periods if period not in owns]:
        owns |= yield from partitions_of(context, missing)
    return (yield from observe(context, (yield from ids_of(context, {period: owns[period] for period in periods}))))


def ids_of(context: Target, owns: Mapping[Period, PeriodPartitions]) -> Steps[dict[str, Period]]:
    """Return the ids of the partitions that periods have on any node: id → period."""
    periods = {partitions.value: period for period, partitions in owns.items()}
    of_part = next((partitions.of_part for partitions in owns.values()), "")
    if not of_part:
        return periods
    target = context.target
    sql = Sql(
        f"SELECT DISTINCT partition_id, {of_part} FROM system.parts WHERE active AND {parts_of([*owns.values()])} "
        f"AND {in_table(target)}"
    )
    answers = yield from context.on_each(name="Look for the partitions of the periods", sql=sql)
    by_id = {partition_id: periods[value] for rows in answers.values() for partition_id, value in rows}
    # Nothing has the id of a period without any.
    return by_id | {value: period for value, period in periods.items() if period not in by_id.values()}


def observe(context: Target, partitions: Mapping[str, Period]) -> Steps[tuple[MergeState, ...]]:
    """Observe the merges of some partitions on every node."""
    sql = {node: _query(context.target, partitions, facts.system_tables) for node, facts in context.nodes.items()}
    answers = yield from QueryNodes(name=f"Read the merges of {context.target}", sql=sql)
    activities = {node: Activity.of(row[3:]) for node, (row,) in answers.items()}
    limits = {
        node: activities[node].limits_of(context.target, facts.target)
        for node, facts in context.nodes.items()
        if facts.target is not None
    }
    return tuple(
        activities[node].merge_state(
            context.target,
            facts.target,
            partition_id,
            next((found[1:] for found in sizes if found[0] == partition_id), None),
            node=node,
            period=period,
            limits=limits[node],
            table_parts=table_parts,
            broken_parts=tuple(sorted(name for of_partition, name in broken if of_partition == partition_id)),
        )
        for partition_id, period in partitions.items()
        for node, facts in context.nodes.items()
        if facts.target is not None
        for sizes, table_parts, broken in (answers[node][0][:3],)
    )


def inspect_table(request: TableRequest) -> Steps[Target]:
    """Inspect a table, which every node must have."""
    context = yield from inspect_target(request)
    if finding := context.missing_target("create it there, or check table, database and cluster"):
        raise PreflightError(finding)
    return context


def _query(table: TableName, partition_ids: Iterable[str], system_tables: Collection[str]) -> Sql:
    of_table = in_table(table)
    of_periods = f"{of_table} AND {one_of('partition_id', partition_ids)}"
    return Sql(f"""
SELECT
    (SELECT groupArray(found) FROM (SELECT (partition_id, {SIZES}) AS found
        FROM system.parts WHERE active AND {of_periods} GROUP BY partition_id)),
    (SELECT count() FROM system.parts WHERE active AND {of_table}),
    (SELECT groupArray((partition_id, name)) FROM system.detached_parts WHERE {of_periods} AND {_lost_part(table)}),
    {activity_columns(of_table, system_tables)}
""")


def activity_columns(of_tables: str, system_tables: Collection[str]) -> str:
    """Return the columns of which `Activity` is made, for tables that a condition finds."""
    limits = one_of("name", Limits.__slots__)
    # A part is named <partition id>_<min block>_<max block>_<level>: the text before the first `_` is its partition.
    return f"""
    (SELECT groupArray((database, table, partition_id, (progress, elapsed, total_size_bytes_compressed, num_parts)))
        FROM system.merges WHERE {of_tables}),
    (SELECT groupArray((database, table, arrayDistinct(arrayMap(part -> splitByChar('_', part)[1], parts_to_do_names)),
            command, {readable("latest_fail_reason")}, dateDiff('second', create_time, now())))
        FROM system.mutations WHERE NOT is_done AND {of_tables}),
    {replicas_query(of_tables)},
    {queue_query(of_tables, system_tables)},
    (SELECT groupArray((name, value)) FROM system.merge_tree_settings WHERE {limits}),
    (SELECT groupArray((name, value)) FROM system.replicated_merge_tree_settings WHERE {limits}),
    (SELECT groupArray((policy_name, disks)) FROM system.storage_policies),
    (SELECT groupArray((name, unreserved_space)) FROM system.disks),
    (SELECT sumIf(value, name = 'BackgroundMergesAndMutationsPoolTask')
            >= sumIf(value, name = 'BackgroundMergesAndMutationsPoolSize') FROM system.metrics),
    uptime(),
    toFloat64(now64(3))"""


def _lost_part(table: TableName) -> str:
    """Return the condition on `system.detached_parts` that a part's rows are missing."""
    of_table = in_table(table)
    # A replica fetches such parts again. Plain tables merge across the gap, so a part that spans it proves nothing.
    is_restored = f"""(SELECT count() FROM system.replicas WHERE {of_table}) > 0 AND arrayExists(
        range -> range.1 = partition_id AND range.2 <= min_block_number AND max_block_number <= range.3,
        (SELECT groupArray((partition_id, min_block_number, max_block_number)) FROM system.parts
            WHERE active AND {of_table}))"""
    return f"startsWith(reason, 'broken') AND NOT ({is_restored})"


def replicas_query(of_tables: str) -> str:
    """Return the sub-query for the replicas of tables on a node; its array is empty if none is replicated."""
    return f"(SELECT groupArray((database, table, is_readonly, absolute_delay)) FROM system.replicas WHERE {of_tables})"


def queue_of(system_tables: Collection[str]) -> str:
    """Return where to read what replicas have yet to do: `system.replication_queue`, or entries without a part."""
    if QUEUE in system_tables:
        return f"system.{QUEUE}"
    return (
        "(SELECT database, table, 'GET_PART' AS type, '' AS new_part_name, now() AS create_time, 0 AS num_tries, "
        "'' AS last_exception, '' AS postpone_reason FROM system.replicas "
        f"ARRAY JOIN range(least(queue_size, {_MOST_ENTRIES})))"
    )


def queue_query(of_tables: str, system_tables: Collection[str]) -> str:
    """Return the sub-query for the parts that replicas have yet to fetch, merge or mutate; see `queue_of`."""
    return (
        "(SELECT groupArray((database, table, splitByChar('_', new_part_name)[1], "
        f"{readable('last_exception')}, postpone_reason)) FROM {queue_of(system_tables)} "
        "WHERE type IN ('GET_PART', 'ATTACH_PART', 'MERGE_PARTS', 'MUTATE_PART', 'REPLACE_RANGE') "
        f"AND {of_tables})"
    )


@dataclass(frozen=True, kw_only=True)
class Activity:
    """The merges, mutations and replicas of tables on a node, its limits and its room; made of `activity_columns`."""

    merges: _Grouped = field(default_factory=dict)
    mutations: _Grouped = field(default_factory=dict)
    replicas: _Grouped = field(default_factory=dict)
    queue: _Grouped = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)
    limits_of_replicated: Mapping[str, str] = field(default_factory=dict)
    free_bytes: Mapping[str, int] = field(default_factory=dict)
    pool_is_busy: bool = False
    uptime_seconds: int = 0
    at_seconds: float = 0.0

    @classmethod
    def of(cls, row: Row) -> Activity:
        """Parse a node's answer."""
        merges, mutations, replicas, queue, limits, of_replicated, policies, disks, pool, uptime, at_seconds = row
        free = dict(disks)
        return cls(
            merges=grouped(merges, 3),
            mutations=grouped(mutations, 2),
            replicas=grouped(replicas, 2),
            queue=grouped(queue, 2),
            limits=dict(limits),
            limits_of_replicated=dict(of_replicated),
            free_bytes={policy: max((free.get(name, 0) for name in names), default=0) for policy, names in policies},
            pool_is_busy=bool(pool),
            uptime_seconds=uptime,
            at_seconds=at_seconds,
        )

    def limits_of(self, name: TableName, facts: TableFacts) -> Limits:
        """Return the part limits of a table; to find its own ones among its settings takes a while."""
        return Limits.of(self.limits_of_replicated if self.replicas.get(name) else self.limits, facts.settings)

    def merge_state(
        self, name: TableName, facts: TableFacts, partition_id: str, sizes: Row | None, **others: Any
    ) -> MergeState:
        """Return the merge state of a partition; `sizes` are those of `SIZES`, None if it has no parts."""
        parts, size_bytes, two_smallest_bytes, age_seconds = sizes or (0, 0, 0, self.uptime_seconds)
        return MergeState(
            parts=parts,
            size_bytes=size_bytes,
            two_smallest_bytes=two_smallest_bytes,
            # A server that has just started has had no time to merge the parts that it found.
            unchanged_seconds=min(age_seconds, self.uptime_seconds),
            merges=tuple(Merge(*merge) for (merge,) in self.merges.get((*name, partition_id), ())),
            mutations=tuple(
                UnfinishedMutation(command=command, fail_reason=fail_reason, age_seconds=age_seconds)
                for partition_ids, command, fail_reason, age_seconds in self.mutations.get(name, ())
                if partition_id in partition_ids
            ),
            free_bytes=self.free_bytes.get(facts.storage_policy, 0),
            pool_is_busy=self.pool_is_busy,
            at_seconds=self.at_seconds,
            partition_id=partition_id,
            replica=replica_of(partition_id, self.replicas.get(name, ()), self.queue.get(name, ())),
            **others,
        )


def grouped(rows: Iterable[Row], size: int) -> _Grouped:
    """Group rows by their first `size` fields."""
    by_key: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        by_key[row[:size]].append(row[size:])
    return by_key


def replica_of(partition_id: str, replicas: Sequence[Row], queue: Iterable[Row]) -> Replica | None:
    """Build the state of a period's replica on a node; None if the table is not replicated."""
    if not replicas:
        return None
    is_readonly, delay_seconds = replicas[0]
    # REPLACE PARTITION names no new part, so it may concern any period.
    waiting = [reasons for of_partition, *reasons in queue if of_partition in (partition_id, "")]
    return Replica(
        is_readonly=bool(is_readonly),
        delay_seconds=delay_seconds,
        queue=len(waiting),
        last_exception=next((error for error, _ in waiting if error), ""),
        postpone_reason=next((reason for _, reason in waiting if reason), ""),
    )
