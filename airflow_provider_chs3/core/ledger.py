"""What was published: a table on every node that speaks of that node, and what follows from it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from airflow_provider_chs3.core.ledger_table import LedgerKey, absent
from airflow_provider_chs3.core.models import Node, PartitionState, TableName
from airflow_provider_chs3.core.sql import Sql, identifier, literal, table
from airflow_provider_chs3.core.steps import Row

#: Its name, in the staging database of every node.
LEDGER_TABLE = "chs3_ledger"


@dataclass(frozen=True, slots=True)
class Record:
    """The newest record of a month on one node.

    Args:
        event: `intent` before the partition is replaced, `published` after.
        attempt: The nonce of the attempt that wrote it.
        fingerprint: Of the objects.
        definition: Of what was made of them.
        source_bytes: Size of the objects.
        nodes: How many nodes the month was spread over.
        rows: Rows of the month on this node.
        min_block: Lowest block number of the partition, before it was replaced (`intent`) or after (`published`); 0
            where it had no parts.
        max_block: The highest.
        data_version: Highest data version, above `max_block` where a mutation had run; 0 with an older package.
    """

    event: str
    attempt: str
    fingerprint: str
    definition: str
    source_bytes: int
    nodes: int
    rows: int
    min_block: int
    max_block: int
    data_version: int = 0


@dataclass(frozen=True, slots=True)
class MonthOnNode:
    """One month on one node: what was recorded, and what is there now.

    Args:
        record: The newest record; None where there is none, or the month was forgotten.
        state: The partition.
        has_history: Whether the node's ledger has records of this month of a table of this name: those of an earlier
            table, and of a month that was forgotten, too.
    """

    record: Record | None
    state: PartitionState
    has_history: bool = False


#: The events that tell where a month stands on a node.
STANDING_EVENTS = "'intent', 'published', 'forgotten'"


def record_columns(known: Collection[str]) -> str:
    """The columns of `Record`, in its order; what the ledger of an older package lacks is 0 or empty.

    Args:
        known: The columns that the ledger has.
    """
    return ", ".join(name if name in known else absent(name) for name in Record.__dataclass_fields__)


def record_of(fields: Iterable[Any]) -> Record | None:
    """The record that `record_columns` gave; a month that was forgotten has none."""
    found = Record(*fields)
    return None if found.event == "forgotten" else found


def look_up(ledger: TableName, key: LedgerKey, *, columns: Collection[str]) -> Sql:
    """Ask a node for the newest record of a month, and for the month's parts.

    Args:
        ledger: The ledger.
        key: Names the month.
        columns: Those of the node's ledger; none where it has no ledger.
    """
    records, history = "emptyArrayString()", "0"
    if columns:
        records = (
            f"(SELECT groupArray(record) FROM (SELECT ({record_columns(columns)}) AS record FROM {table(ledger)} "
            f"WHERE {key.condition} AND event IN ({STANDING_EVENTS}) "
            "ORDER BY sequence DESC, recorded_at DESC LIMIT 1))"
        )
        history = (
            f"(SELECT count() > 0 FROM {table(ledger)} WHERE {key.name_condition} AND {key.month_condition} "
            f"AND event IN ({STANDING_EVENTS}))"
        )
    # Parts without rows do not count: REPLACE PARTITION covers the old parts with one, which is active again after a
    # restart. A lightweight update leaves the parts as they are and writes patches beside them, in a partition of their
    # own (patch-<hash>-<id>): their version tells of it.
    part = f"partition_id = {literal(key.partition_id)} AND rows > 0"
    patch = f"startsWith(partition_id, 'patch-') AND endsWith(partition_id, {literal('-' + key.partition_id)})"
    # Not a tuple out of a sub-query: that is a Nullable(Tuple(…)), which clickhouse-driver cannot read.
    return Sql(
        f"SELECT {records}, sumIf(rows, {part}), countIf({part}), sumIf(bytes_on_disk, {part}), "
        f"minIf(min_block_number, {part}), maxIf(max_block_number, {part}), max(data_version), {history} "
        f"FROM system.parts WHERE database = {literal(key.target.database)} AND table = {literal(key.target.table)} "
        f"AND active AND (partition_id = {literal(key.partition_id)} OR {patch})"
    )


def month_on_node(row: Row) -> MonthOnNode:
    """What `look_up` gave."""
    records, *state, has_history = row
    return MonthOnNode(record_of(records[0]) if records else None, PartitionState(*state), bool(has_history))


def record(
    ledger: TableName,
    key: LedgerKey,
    event: str,
    values: Mapping[str, str | int | Mapping[str, object]],
    *,
    staging: TableName | None = None,
) -> Sql:
    """Add a record, numbered after those of the same month on this node.

    Args:
        ledger: The ledger.
        key: What the record is found by.
        event: `intent`, `published`, `forgotten`, `inserting`, `load`, `failed` or `unchanged`.
        values: Further columns.
        staging: Refuse, with an error, unless this table is there: an attempt that was taken over while it slept must
            not speak of what its successor has put into the partition.
    """
    given: dict[str, str | int | Mapping[str, object]] = {
        "event": event,
        "target_database": key.target.database,
        "target_table": key.target.table,
        "target_uuid": key.target_uuid,
        "month": str(key.month),
        "partition_id": key.partition_id,
        **values,
    }
    names = ", ".join(identifier(name) for name in ("sequence", *given))
    rendered = ", ".join(_value(value) for value in given.values())
    return Sql(
        f"INSERT INTO {table(ledger)} ({names}) SELECT max(sequence) + 1, {rendered} "
        f"FROM {table(ledger)} WHERE {key.condition}{_unless_gone(staging) if staging else ''}"
    )


def _unless_gone(staging: TableName) -> str:
    # HAVING, as an aggregate has its one row whatever the condition finds.
    tables = f"database = {literal(staging.database)} AND name = {literal(staging.table)}"
    is_gone = f"(SELECT count() FROM system.tables WHERE {tables}) = 0"
    return f" HAVING NOT throwIf({is_gone}, 'the staging of this attempt is gone: another one took over')"


def _value(value: str | int | Mapping[str, object]) -> str:
    if isinstance(value, int):
        return str(value)
    return literal(value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False))


class Standing(Enum):
    """What a run finds of a month."""

    UNCHANGED = "as published"
    NEW = "never loaded"
    OBJECTS_CHANGED = "its objects changed since it was published"
    DEFINITION_CHANGED = "what is made of its objects changed since it was published"
    UNFINISHED = "an earlier load did not finish, or a node has not got it"
    OTHER_NODES = "it was published on another number of nodes than the cluster has now"
    LEDGER_LOST = "a node has lost its records of it"
    ROWS_UNKNOWN = "the partition holds rows that no load has put there"
    TARGET_CHANGED = "the partition was changed since it was published"


def standing(
    months: Mapping[Node, MonthOnNode],
    *,
    fingerprint: str,
    definition: str | None,
    may_lose_all: bool,
    keeps_every_row: bool,
) -> tuple[Standing, tuple[Node, ...]]:
    """Compare what is there with what is wanted.

    A month counts as published only if the newest record of every node says so, with one fingerprint, all nodes that it
    was spread over are there, and its partition is as it was then.

    Args:
        months: What each node has.
        fingerprint: Of the objects as they are now.
        definition: Of what is to be made of them; None does not compare it.
        may_lose_all: Whether rows may expire or cancel each other out, so that parts may go by themselves.
        keeps_every_row: Whether no merge makes rows fewer.

    Returns:
        The standing, and the nodes that it is about.
    """
    lost = _nodes_without_history(months)
    unknown = tuple(
        node for node, month in months.items() if month.record is None and month.state.rows and node not in lost
    )
    if unknown:
        return Standing.ROWS_UNKNOWN, unknown
    changed = tuple(
        node
        for node, month in months.items()
        if is_changed(month, may_lose_all=may_lose_all, keeps_every_row=keeps_every_row)
    )
    if changed:
        return Standing.TARGET_CHANGED, changed
    if lost:
        return Standing.LEDGER_LOST, lost
    if all(month.record is None for month in months.values()):
        return Standing.NEW, tuple(months)
    published = {
        node: month.record for node, month in months.items() if month.record and month.record.event == "published"
    }
    if len(published) < len(months) or len({each.fingerprint for each in published.values()}) > 1:
        return Standing.UNFINISHED, tuple(node for node in months if node not in published)
    if any(each.nodes != len(months) for each in published.values()):
        return Standing.OTHER_NODES, tuple(months)
    one = next(iter(published.values()))
    if one.fingerprint != fingerprint:
        return Standing.OBJECTS_CHANGED, tuple(months)
    if definition is not None and any(each.definition != definition for each in published.values()):
        return Standing.DEFINITION_CHANGED, tuple(months)
    return Standing.UNCHANGED, ()


def _nodes_without_history(months: Mapping[Node, MonthOnNode]) -> tuple[Node, ...]:
    """Nodes that lost what they knew of a month, where all others tell that a load has put it on every node."""
    lost = [node for node, month in months.items() if month.record is None and not month.has_history]
    tell = [
        month.record is not None and month.record.event == "published" and month.record.nodes == len(months)
        for node, month in months.items()
        if node not in lost
    ]
    return tuple(node for node in lost if months[node].state.rows) if tell and all(tell) else ()


def is_changed(month: MonthOnNode, *, may_lose_all: bool, keeps_every_row: bool) -> bool:
    """Whether somebody else changed a partition since the newest record.

    Merges keep the range of block numbers, an INSERT raises its end, a mutation raises `data_version` above it. Part
    names and row counts tell nothing: merges, Replacing engines and TTL change those by themselves.

    After an intent the partition is either as it was before, or what the attempt that died has put there.
    """
    record, state = month.record, month.state
    if record is None or _has_blocks_of(record, state, may_lose_all=may_lose_all):
        return False
    return record.event == "published" or not _is_replaced(record, state, keeps_every_row=keeps_every_row)


def _has_blocks_of(record: Record, state: PartitionState, *, may_lose_all: bool) -> bool:
    # Replicas number blocks from 0, which an adopted month may have.
    was_empty = not record.max_block and not (record.event == "published" and record.rows)
    if not state.parts or was_empty:
        return not state.parts and (may_lose_all or was_empty)
    if state.max_block > record.max_block or state.data_version > max(record.max_block, record.data_version):
        return False
    # What is new has higher numbers. Lower ones come from the covering part without rows, once a merge took it in.
    return may_lose_all or (state.min_block <= record.min_block and state.max_block == record.max_block)


def _is_replaced(intent: Record, state: PartitionState, *, keeps_every_row: bool) -> bool:
    """Whether a partition holds what was staged: blocks newer than before, no mutation, and as many rows."""
    if not state.parts:
        return not intent.rows
    is_new = state.min_block > intent.max_block and state.data_version <= state.max_block
    return is_new and (state.rows == intent.rows or (not keeps_every_row and state.rows < intent.rows))
