"""Join the nodes' answers: each period of each table, with what every node has of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from airflow_provider_chs3.core.ledger.partition_state import PartitionState
from airflow_provider_chs3.core.ledger.records import PeriodOnNode
from airflow_provider_chs3.core.model.models import Node, TableName
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.steps.operations import Row
from airflow_provider_chs3.plugin.observation.periods_records import (
    FailureRecord,
    InsertRecord,
    PeriodRecords,
    period_records,
    recorded_partition_ids,
)
from airflow_provider_chs3.plugin.observation.snapshots import ClusterSnapshot, Partition
from airflow_provider_chs3.plugin.observation.unchanged_periods import parsed


class JoinedPeriod(NamedTuple):
    """One period, from the nodes that answered."""

    table: TableName
    period: Period
    records: Mapping[Node, PeriodRecords]
    partitions: Sequence[tuple[Node, Partition]]
    nodes: Mapping[Node, PeriodOnNode]
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
        """Return whether it was forgotten in the ledger, and no load has begun since."""
        has_claims = any(record.has_claims for record in self.records.values())
        return has_claims and self.unpublished is None and not any(record.record for record in self.records.values())

    @property
    def has_lost_ledger(self) -> bool:
        """Return whether a load published it, but no ledger knows it: somebody dropped or emptied the ledger."""
        is_loaded = any(record.load.attempt for record in self.records.values())
        return is_loaded and not any(record.has_claims for record in self.records.values())

    @property
    def owner(self) -> str:
        """The task of its newest load, if known."""
        newest = self.failure or self.unpublished
        if newest:
            return newest.owner
        # One that found no objects has inserted nothing.
        loads = (record.load.owner for record in self.records.values() if record.load.owner)
        return next(loads, self.inserting.owner if self.inserting else "")


def gone_periods(seen: ClusterSnapshot, table: TableName) -> Iterator[JoinedPeriod]:
    """Give the periods of a table that no node has."""
    of_nodes = {node: rows for node, snapshot in seen.nodes.items() if (rows := snapshot.gone.get(table))}
    for period in {period for rows in of_nodes.values() for period in rows}:
        records = {node: period_records(rows[period]) for node, rows in of_nodes.items() if period in rows}
        yield _joined(table, parsed(period), records, (), {})


def joined_periods(
    seen: ClusterSnapshot, only: Collection[TableName] | None
) -> Iterator[tuple[TableName, Iterator[JoinedPeriod]]]:
    """Give the tables in order, each with its periods, in any order."""
    for table in sorted({table for node in seen.nodes.values() for table in node.tables}):
        if only is None or table in only:
            yield table, _periods(seen, table)


def _periods(seen: ClusterSnapshot, table: TableName) -> Iterator[JoinedPeriod]:
    # Each node's facts about the table are looked up once, and not for each period again.
    of_table = [
        (
            node,
            snapshot,
            snapshot.records.get(table, {}),
            snapshot.known.get(table, ()),
            table in snapshot.tables_with_rows,
        )
        for node, snapshot in seen.nodes.items()
    ]
    for period, ids in _partition_ids(seen, table).items():
        records, partitions, nodes = {}, [], {}
        for node, answers, rows, known, has_rows in of_table:
            recorded = _with_arrival(period_records(row), rows) if (row := rows.get(period)) else None
            if recorded:
                records[node] = recorded
            states = [partition for key in ids if (partition := answers.partition(table, key))]
            partitions += [(node, partition) for partition in states]
            claimed = {record.partition_id for record in recorded.held.records} if recorded and recorded.held else set()
            nothing = PartitionState(mutations=answers.mutations.get(table, ()), broken=answers.broken.get(table, ()))
            on_node = _on_node(
                recorded, [partition.state for partition in states], nothing, is_of_several=len(ids | claimed) > 1
            )
            nodes[node] = replace(
                on_node, has_history=period in known, has_rows=has_rows, held=recorded.held if recorded else None
            )
        yield _joined(table, parsed(period), records, partitions, nodes)


def _with_arrival(recorded: PeriodRecords, rows: Mapping[str, Row]) -> PeriodRecords:
    """Return the records with the task that holds the period with an arrival, of which its load has left records."""
    row = rows.get(recorded.held.arrival) if recorded.held else None
    inserting = period_records(row).inserting if row else None
    return recorded._replace(load=recorded.load._replace(owner=inserting.owner)) if inserting else recorded


def _on_node(
    recorded: PeriodRecords | None, states: list[PartitionState], nothing: PartitionState, *, is_of_several: bool
) -> PeriodOnNode:
    record = recorded.record if recorded else None
    if not is_of_several:
        empty = replace(nothing, partition_id=record.partition_id) if record else nothing
        return PeriodOnNode(record, next(iter(states), empty))
    records = recorded.several if recorded and recorded.several else [record] if record else []
    return PeriodOnNode.of_several(records, states, nothing=nothing)


def _partition_ids(seen: ClusterSnapshot, table: TableName) -> dict[str, set[str]]:
    """Return the periods that a ledger knows, or that have rows, with their partitions, as far as they are known."""
    by_period: dict[str, set[str]] = defaultdict(set)
    for node in seen.nodes.values():
        for period, row in node.records.get(table, {}).items():
            by_period[period] |= recorded_partition_ids(row)
    recorded = {key for ids in by_period.values() for key in ids}
    for node in seen.nodes.values():
        key = node.tables[table].partition_key if table in node.tables else ""
        unknown = seen.choices.tables[table].unknown
        for partition_id in node.filled_partitions.get(table, ()):
            if partition_id not in recorded and (named := unknown.get(partition_id)):
                # A period that has several partitions has this one, too.
                by_period[named] = (
                    {*by_period[named], partition_id} if key.startswith("(") else by_period[named] or {partition_id}
                )
    return by_period


def _joined(
    table: TableName,
    period: Period,
    records: Mapping[Node, PeriodRecords],
    partitions: Sequence[tuple[Node, Partition]],
    nodes: Mapping[Node, PeriodOnNode],
) -> JoinedPeriod:
    inserting = unpublished = failure = None
    is_publishing = False
    for record in records.values():
        inserting = inserting or record.inserting
        unpublished = unpublished or record.unpublished
        is_publishing = is_publishing or record.is_publishing
        failure = failure or record.failure
    return JoinedPeriod(
        table=table,
        period=period,
        records=records,
        partitions=partitions,
        nodes=nodes,
        inserting=inserting,
        unpublished=unpublished,
        is_publishing=is_publishing,
        failure=failure,
    )
