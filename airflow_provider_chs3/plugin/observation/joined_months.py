"""Join the nodes' answers: each month of each table, with what every node has of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from airflow_provider_chs3.core.ledger.partition_state import PartitionState
from airflow_provider_chs3.core.ledger.records import MonthOnNode
from airflow_provider_chs3.core.preflight.target_checks import month_of_partition
from airflow_provider_chs3.core.values.models import Month, Node, TableName
from airflow_provider_chs3.plugin.observation.months_facts import ClusterSnapshot, Partition
from airflow_provider_chs3.plugin.observation.months_records import FailureRecord, InsertRecord, MonthRecords, by_month

_NO_PARTS = PartitionState()


@dataclass(frozen=True, kw_only=True, slots=True)
class JoinedMonth:
    """One month, from the nodes that answered.

    Args:
        table: Its table.
        month: The month.
        records: The records of the nodes that have some.
        partitions: Its partition on the nodes that have parts of it.
        nodes: The month on every node.
        inserting: The newest record of an insert; one node has it.
        unpublished: The same, unless its load has published the month.
        is_publishing: Whether that load has recorded that it is about to publish.
        failure: The failure of its newest load, if it failed.
    """

    table: TableName
    month: Month
    records: Mapping[Node, MonthRecords]
    partitions: Mapping[Node, Partition]
    nodes: Mapping[Node, MonthOnNode]
    inserting: InsertRecord | None
    unpublished: InsertRecord | None
    is_publishing: bool
    failure: FailureRecord | None

    def error(self, *, with_values: bool) -> str:
        """Return the error of that failure, which may quote values of rows if wanted; empty if there is none."""
        if self.failure is None:
            return ""
        return self.failure.error if with_values else self.failure.without_values

    @property
    def owner(self) -> str:
        """The task of its newest load, if known."""
        newest = self.failure or self.inserting
        return newest.owner if newest else ""


def joined_months(seen: ClusterSnapshot) -> Iterator[tuple[TableName, Iterator[JoinedMonth]]]:
    """Give the tables in order, each with its months, in any order.

    Args:
        seen: The nodes' answers.
    """
    for table in sorted({table for node in seen.nodes.values() for table in node.tables}):
        yield table, _months(seen, table)


@dataclass(frozen=True, slots=True)
class _TableOnNode:
    months: Mapping[Month, MonthRecords]
    partitions: Mapping[str, Partition]
    known: Collection[str]
    has_rows: bool

    def month(self, month: Month, own: MonthRecords | None, partition: Partition | None) -> MonthOnNode:
        record = own.record if own else None
        return MonthOnNode(
            record,
            partition.state if partition else _NO_PARTS,
            has_history=record is not None or str(month) in self.known,
            has_rows=self.has_rows,
        )


def _months(seen: ClusterSnapshot, table: TableName) -> Iterator[JoinedMonth]:
    on_nodes = {}
    for node, answers in seen.nodes.items():
        partitions = answers.partitions_of(table)
        on_nodes[node] = _TableOnNode(
            by_month(answers.records.get(table, ())),
            partitions,
            answers.known.get(table, ()),
            any(each.state.rows for each in partitions.values()),
        )
    for month, partition_id in _partition_ids(on_nodes.values()).items():
        yield _joined(table, month, partition_id, on_nodes)


def _partition_ids(on_nodes: Collection[_TableOnNode]) -> dict[Month, str]:
    """Return the months that a ledger knows, or that have rows, with their partitions; empty if no node has one."""
    found: dict[Month, str] = {}
    for each in on_nodes:
        for month, record in each.months.items():
            found[month] = record.partition_id or found.get(month, "")
    recorded = set(found.values())
    for each in on_nodes:
        for partition_id, partition in each.partitions.items():
            if partition_id not in recorded and partition.state.rows and (month := month_of_partition(partition_id)):
                found[month] = found.get(month) or partition_id
    return found


def _joined(table: TableName, month: Month, partition_id: str, on_nodes: Mapping[Node, _TableOnNode]) -> JoinedMonth:
    records, partitions, nodes = {}, {}, {}
    for node, each in on_nodes.items():
        own, partition = each.months.get(month), each.partitions.get(partition_id)
        if own:
            records[node] = own
        if partition:
            partitions[node] = partition
        nodes[node] = each.month(month, own, partition)
    every = records.values()
    return JoinedMonth(
        table=table,
        month=month,
        records=records,
        partitions=partitions,
        nodes=nodes,
        inserting=next((each.inserting for each in every if each.inserting), None),
        unpublished=next((each.unpublished for each in every if each.unpublished), None),
        is_publishing=any(each.is_publishing for each in every),
        failure=next((each.failure for each in every if each.failure), None),
    )
