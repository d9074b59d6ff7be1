"""The answers of a cluster's nodes about all tables that have a ledger."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from airflow_provider_chs3.core.ledger.partition_state import Broken, Mutation, Part, PartitionState
from airflow_provider_chs3.core.model.models import Node, TableName
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.steps.operations import Row
from airflow_provider_chs3.core.target.node_capacity import Limits
from airflow_provider_chs3.core.target.table_facts import TableFacts
from airflow_provider_chs3.core.watch.merge_observation import Activity, MergeState
from airflow_provider_chs3.plugin.observation.derived_tables import Derived
from airflow_provider_chs3.plugin.observation.due_times import Due
from airflow_provider_chs3.plugin.observation.periods_records import recorded_partition_ids
from airflow_provider_chs3.plugin.observation.unchanged_periods import Choices, TableSummary


class Partition(NamedTuple):
    """The parts of a period on one node, for the comparison with the ledger and for merge health."""

    state: PartitionState
    parts: int
    size_bytes: int
    two_smallest_bytes: int
    age_seconds: int


@dataclass(frozen=True, kw_only=True)
class NodeSnapshot:
    """The answers of one node."""

    tables: Mapping[TableName, TableFacts] = field(default_factory=dict)
    names: Mapping[str, TableName] = field(default_factory=dict)
    records: Mapping[TableName, Mapping[str, Row]] = field(default_factory=dict)
    known: Mapping[TableName, Collection[str]] = field(default_factory=dict)
    tables_with_rows: Collection[TableName] = ()
    gone: Mapping[TableName, Mapping[str, Row]] = field(default_factory=dict)
    renamed: Mapping[TableName, TableName] = field(default_factory=dict)
    partitions: Mapping[TableName, Mapping[str, Row]] = field(default_factory=dict)
    filled_partitions: Mapping[TableName, Collection[str]] = field(default_factory=dict)
    sources: Mapping[tuple[TableName, str], tuple[Part, ...]] = field(default_factory=dict)
    mutations: Mapping[TableName, tuple[Mutation, ...]] = field(default_factory=dict)
    broken: Mapping[TableName, Broken] = field(default_factory=dict)
    staging: tuple[str, ...] = ()
    structures: Mapping[TableName, str] = field(default_factory=dict)
    processes: tuple[Row, ...] = ()
    activity: Activity = field(default_factory=Activity)
    table_parts: Mapping[TableName, int] = field(default_factory=dict)
    unrecorded: Mapping[TableName, TableSummary] = field(default_factory=dict)

    def busy_partitions(self, table: TableName, *, max_replica_delay_seconds: float) -> set[str] | None:
        """Return the partitions of a table in which something happens; None for all."""
        seen = self.activity
        queued = {row[0] for row in seen.queue.get(table, ())}
        is_behind = any(
            is_readonly or seconds > max_replica_delay_seconds for is_readonly, seconds in seen.replicas.get(table, ())
        )
        if is_behind or "" in queued:
            return None
        merged = (key[2] for key in seen.merges if key[:2] == table)
        mutated = (key for row in seen.mutations.get(table, ()) for key in row[0])
        return {*queued, *merged, *mutated}

    @cached_property
    def _quiet_tables(self) -> set[TableName]:
        """The tables without mutations that run or wait, or replicas that have to catch up."""
        seen = self.activity
        behind = {name for name, ((is_readonly, seconds), *_) in seen.replicas.items() if is_readonly or seconds}
        return self.tables.keys() - {*seen.mutations, *seen.queue, *behind}

    @cached_property
    def _limits(self) -> dict[TableName, Limits]:
        return {name: self.activity.limits_of(name, facts) for name, facts in self.tables.items()}

    def partition(self, table: TableName, partition_id: str) -> Partition | None:
        """Return a partition; None if it has no parts."""
        row = self.partitions.get(table, {}).get(partition_id)
        if row is None:
            return None
        *state, parts, size_bytes, two_smallest_bytes, age_seconds = row
        mutations, broken = self.mutations.get(table, ()), self.broken.get(table, ())
        of_partition = PartitionState.of(partition_id, state, mutations, broken=broken)
        return Partition(
            state=replace(of_partition, sources=self.sources.get((table, partition_id), ())),
            parts=parts,
            size_bytes=size_bytes,
            two_smallest_bytes=two_smallest_bytes,
            age_seconds=age_seconds,
        )

    def may_publish(self, held: str, table: TableName) -> bool:
        """Check whether held rows can still be published: their table is there, with the columns of the target."""
        digests = (digest for name, digest in self.structures.items() if name.table == held)
        return held in self.staging and next(digests, "") == self.structures.get(table, "")

    def is_quiet(self, table: TableName, partition: Partition, *, spare_parts: int) -> bool:
        """Check whether a period's merges are healthy at first sight: it has few parts, and nothing happens to them."""
        is_merging = (*table, partition.state.partition_id) in self.activity.merges
        return partition.parts <= spare_parts and table in self._quiet_tables and not is_merging

    def merge_state(self, node: Node, table: TableName, period: Period, partition: Partition) -> MergeState:
        """Return the state of a period's merges, without broken parts: the comparison with the ledger names these."""
        return self.activity.merge_state(
            table,
            self.tables[table],
            partition.state.partition_id,
            partition[1:],
            node=node,
            period=period,
            limits=self._limits[table],
            table_parts=self.table_parts[table],
        )


@dataclass(frozen=True, kw_only=True)
class ClusterSnapshot:
    """The answers of a cluster."""

    cluster: str | None
    nodes: Mapping[Node, NodeSnapshot]
    down: Mapping[Node, str]
    unread: str
    choices: Choices
    summaries: Mapping[Node, Mapping[TableName, TableSummary]]
    derived: Mapping[TableName, Derived]
    due: Mapping[TableName, Due]

    @property
    def processes(self) -> list[tuple[Node, Row]]:
        """The queries of loads, each with its node."""
        return [(node, process) for node, snapshot in self.nodes.items() for process in snapshot.processes]

    def versions(self, table: TableName, period: str) -> dict[Node, tuple[int, int, int]]:
        """Return the highest block of a recorded period on each node, its data version and its rows."""
        rows = [row for snapshot in self.nodes.values() if (row := snapshot.records.get(table, {}).get(period))]
        ids = {key for row in rows for key in recorded_partition_ids(row)}
        partitions = {node: [snapshot.partition(table, key) for key in ids] for node, snapshot in self.nodes.items()}
        states = {node: [partition.state for partition in of_node if partition] for node, of_node in partitions.items()}
        return {
            node: (
                max((state.max_block for state in of_node), default=0),
                max((state.data_version for state in of_node), default=0),
                sum(state.rows for state in of_node),
            )
            for node, of_node in states.items()
        }
