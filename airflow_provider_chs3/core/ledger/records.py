"""What was published: a table on every node that speaks of that node."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_chs3.core.ledger.mutations import mutations_of, mutations_query
from airflow_provider_chs3.core.ledger.partition_state import PartitionState
from airflow_provider_chs3.core.ledger.parts import PARTITION, partition_states
from airflow_provider_chs3.core.ledger.table import COLUMNS, LedgerKey, absent
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, literal, table
from airflow_provider_chs3.core.values.models import TableName
from airflow_provider_chs3.core.workflow.operations import Row


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
        evidence: By which the partition is known again, before it was replaced or after (see
            `core.ledger.parts.Evidence`); empty with an older package, whose records go by blocks and version alone.
        sequence: Its number: the newest of a node has the highest, and on a replicated table the newest of a shard.
        structure: The table, and what was loaded into it (see `core.ledger.structure_record`); empty where nothing was
            published, and with an older package.
        base: The attempt that loaded the whole month; empty where no increment may build on it.
        increments: How many loads since then added new objects alone.
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
    evidence: str = ""
    sequence: int = 0
    base: str = ""
    increments: int = 0
    structure: str = ""


@dataclass(frozen=True, slots=True)
class MonthOnNode:
    """One month on one node: what was recorded, and what is there now.

    Args:
        record: The newest record; None where there is none, or the month was forgotten.
        state: The partition.
        has_history: Whether the node's ledger has records of this month of a table of this name: those of an earlier
            table, and of a month that was forgotten, too.
        has_rows: Whether the node holds rows of the table, of whatever month.
        is_of_replica: Whether the record is that of another replica of the shard, newer than this one's.
    """

    record: Record | None
    state: PartitionState
    has_history: bool = False
    has_rows: bool = False
    is_of_replica: bool = False


_EVENTS = "'intent', 'published', 'forgotten'"
#: Records that decide the state of a month on a node.
IS_STATE = f"event IN ({_EVENTS})"
#: The same, and those that found it unchanged.
IS_CHECKED = f"event IN ({_EVENTS}, 'unchanged')"
#: With LIMIT 1, the newest record.
NEWEST_FIRST = "ORDER BY sequence DESC, recorded_at DESC"


def newest(columns: str, *, condition: str = IS_STATE) -> str:
    """Take columns, as a tuple, from the newest of a group of records.

    Args:
        columns: The columns.
        condition: Which records count; by default those that decide the state of a month.
    """
    return f"argMaxIf(({columns}), (sequence, recorded_at), {condition})"


def record_columns(known: Collection[str], *, structure: str | None = None) -> str:
    """The columns of `Record`, in its order; what the ledger of an older package lacks is 0 or empty.

    Args:
        known: The columns that the ledger has.
        structure: What to ask for in the place of the structure, which may be long; None asks for it.
    """
    columns = {name: name if name in known else absent(name) for name in Record.__dataclass_fields__}
    if structure is not None and "structure" in known:
        columns["structure"] = structure
    return ", ".join(columns.values())


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
            f"(SELECT groupArray(record) FROM (SELECT {newest(record_columns(columns))} AS record FROM {table(ledger)} "
            f"WHERE {key.condition} AND {IS_STATE} GROUP BY month))"
        )
        history = (
            f"(SELECT count() > 0 FROM {table(ledger)} WHERE {key.name_condition} AND {key.month_condition} "
            f"AND {IS_STATE})"
        )
    of_table = f"database = {literal(key.target.database)} AND table = {literal(key.target.table)}"
    has_rows = f"(SELECT sum(rows) > 0 FROM system.parts WHERE {of_table} AND active)"
    states = partition_states(f"{of_table} AND {PARTITION} = {literal(key.partition_id)}")
    return Sql(
        f"SELECT {literal(key.partition_id)}, {records}, {history}, {has_rows}, {mutations_query(of_table)}, "
        f"(SELECT groupArray(found) FROM ({states}))"
    )


def month_on_node(row: Row) -> MonthOnNode:
    """What `look_up` gave."""
    partition_id, records, has_history, has_rows, mutations, states = row
    empty = PartitionState(mutations=mutations_of(mutations), partition_id=partition_id)
    found = (PartitionState.of(partition, state, mutations_of(mutations)) for partition, state in states)
    return MonthOnNode(
        record_of(records[0]) if records else None,
        next(found, empty),
        has_history=bool(has_history),
        has_rows=bool(has_rows),
    )


def record(
    ledger: TableName,
    key: LedgerKey,
    event: str,
    values: Mapping[str, str | int | Mapping[str, object]],
    *,
    staging: TableName | None = None,
    is_replicated: bool = False,
    number: int = 0,
) -> Sql:
    """Add a record, numbered after those of the same month on this node.

    Replicas may be down while others publish, so that their ledgers do not have the same records. Where staging is
    replicated, the number is also not below that of Keeper's transaction which created it, and tells which record of
    all replicas is the newest, whichever of them were up.

    Args:
        ledger: The ledger.
        key: What the record is found by.
        event: `intent`, `published`, `forgotten`, `inserting`, `load`, `failed` or `unchanged`.
        values: Further columns.
        staging: Refuse, with an error, unless this table is there: an attempt that was taken over while it slept must
            not speak of what its successor has put into the partition.
        is_replicated: Whether that table is.
        number: The lowest number of the record.
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
    at_least = _number_of_creation(staging) if staging and is_replicated else str(number)
    return Sql(
        f"INSERT INTO {table(ledger)} ({names}) SELECT greatest(max(sequence) + 1, {at_least}), {rendered} "
        f"FROM {table(ledger)} WHERE {key.condition}{_unless_gone(staging) if staging else ''}"
    )


def renew(ledger: TableName, key: LedgerKey, *, attempt: str, evidence: Mapping[str, str | int], structure: str) -> Sql:
    """Add the newest record of a month once more, with what the partition is known by now.

    Merges have changed the parts, the table got columns, or an older version of this package recorded less. It stays
    the record of that time, and is added only where nothing came after it: an intent of the same number was recorded
    later, and goes before it.

    Args:
        ledger: The ledger, with all columns.
        key: What the record is found by.
        attempt: The attempt that published.
        evidence: Columns that tell of the partition.
        structure: The structure.
    """
    values = {name: _value(value) for name, value in evidence.items()} | {
        "sequence": "sequence + 1",
        "structure": literal(structure),
    }
    return Sql(
        f"INSERT INTO {table(ledger)} ({', '.join(map(identifier, COLUMNS))}) "
        f"SELECT {', '.join(values.get(name, name) for name in COLUMNS)} FROM (SELECT * FROM {table(ledger)} "
        f"WHERE {key.condition} AND {IS_STATE} {NEWEST_FIRST} LIMIT 1) "
        f"WHERE event = 'published' AND attempt = {literal(attempt)}"
    )


def _number_of_creation(staging: TableName) -> str:
    # A thousand records fit between it and the next one, which is many transactions later.
    paths = (
        f"SELECT zookeeper_path FROM system.replicas WHERE database = {literal(staging.database)} "
        f"AND table = {literal(staging.table)}"
    )
    return f"(SELECT bitShiftLeft(toUInt64(min(czxid)), 10) FROM system.zookeeper WHERE path IN ({paths}))"


def _unless_gone(staging: TableName) -> str:
    # HAVING, as an aggregate has its one row whatever the condition finds.
    tables = f"database = {literal(staging.database)} AND name = {literal(staging.table)}"
    is_gone = f"(SELECT count() FROM system.tables WHERE {tables}) = 0"
    return f" HAVING NOT throwIf({is_gone}, 'the staging of this attempt is gone: another one took over')"


def _value(value: str | int | Mapping[str, object]) -> str:
    if isinstance(value, int):
        return str(value)
    return literal(value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False))
