"""Join the nodes' answers: each month of each table, with what every node has of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from airflow_provider_chs3.core.ledger.partition_state import PartitionState
from airflow_provider_chs3.core.ledger.records import MonthOnNode
from airflow_provider_chs3.core.preflight.target_checks import month_of_partition
from airflow_provider_chs3.core.values.models import Month, Node, TableName
from airflow_provider_chs3.plugin.observation.months_facts import ClusterSnapshot, Partition
from airflow_provider_chs3.plugin.observation.months_records import (
    FailureRecord,
    InsertRecord,
    MonthRecords,
    month_records,
    recorded_partition_id,
)

_NO_PARTS = PartitionState()


class JoinedMonth(NamedTuple):
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
    def is_forgotten(self) -> bool:
        """Whether it was forgotten in the ledger, and no load has begun since."""
        is_recorded = any(each.record for each in self.records.values())
        return self.inserting is not None and self.unpublished is None and not is_recorded

    @property
    def owner(self) -> str:
        """The task of its newest load, if known."""
        newest = self.failure or self.unpublished
        if newest:
            return newest.owner
        # One that found no objects has inserted nothing.
        loads = (each.load.owner for each in self.records.values() if each.load.owner)
        return next(loads, self.inserting.owner if self.inserting else "")


def gone_months(seen: ClusterSnapshot, table: TableName) -> Iterator[JoinedMonth]:
    """Give the months of a table that no node has.

    Args:
        seen: The nodes' answers.
        table: The table.
    """
    of_nodes = {node: rows for node, each in seen.nodes.items() if (rows := each.gone.get(table))}
    for month in {month for rows in of_nodes.values() for month in rows}:
        records = {node: month_records(rows[month]) for node, rows in of_nodes.items() if month in rows}
        yield _joined(table, Month.parse(month), records, {}, {})


def joined_months(
    seen: ClusterSnapshot, only: Collection[TableName] | None
) -> Iterator[tuple[TableName, Iterator[JoinedMonth]]]:
    """Give the tables in order, each with its months, in any order.

    Args:
        seen: The nodes' answers.
        only: These tables; None for all.
    """
    for table in sorted({table for node in seen.nodes.values() for table in node.tables}):
        if only is None or table in only:
            yield table, _months(seen, table)


def _months(seen: ClusterSnapshot, table: TableName) -> Iterator[JoinedMonth]:
    # What each node has of the table is looked up once, and not for each month again.
    of_table = [
        (node, each, each.records.get(table, {}), each.known.get(table, ()), bool(each.filled_partitions.get(table)))
        for node, each in seen.nodes.items()
    ]
    for month, partition_id in _partition_ids(seen, table).items():
        records, partitions, nodes = {}, {}, {}
        for node, answers, rows, known, has_rows in of_table:
            row = rows.get(month)
            own, partition = month_records(row) if row else None, answers.partition(table, partition_id)
            if own:
                records[node] = own
            if partition:
                partitions[node] = partition
            nodes[node] = MonthOnNode(
                own.record if own else None,
                partition.state if partition else _NO_PARTS,
                has_history=month in known,
                has_rows=has_rows,
            )
        yield _joined(table, Month.parse(month), records, partitions, nodes)


def _partition_ids(seen: ClusterSnapshot, table: TableName) -> dict[str, str]:
    """Return the months that a ledger knows, or that have rows, with their partitions; empty if no node has one."""
    found: dict[str, str] = {}
    for node in seen.nodes.values():
        for month, row in node.records.get(table, {}).items():
            found[month] = recorded_partition_id(row) or found.get(month, "")
    recorded = set(found.values())
    for node in seen.nodes.values():
        key = node.tables[table].partition_key if table in node.tables else ""
        for partition_id in node.filled_partitions.get(table, ()):
            if partition_id not in recorded and (named := month_of_partition(partition_id, key=key)):
                found[str(named)] = found.get(str(named)) or partition_id
    return found


def _joined(
    table: TableName,
    month: Month,
    records: Mapping[Node, MonthRecords],
    partitions: Mapping[Node, Partition],
    nodes: Mapping[Node, MonthOnNode],
) -> JoinedMonth:
    inserting = unpublished = failure = None
    is_publishing = False
    for each in records.values():
        inserting = inserting or each.inserting
        unpublished = unpublished or each.unpublished
        is_publishing = is_publishing or each.is_publishing
        failure = failure or each.failure
    return JoinedMonth(
        table=table,
        month=month,
        records=records,
        partitions=partitions,
        nodes=nodes,
        inserting=inserting,
        unpublished=unpublished,
        is_publishing=is_publishing,
        failure=failure,
    )
