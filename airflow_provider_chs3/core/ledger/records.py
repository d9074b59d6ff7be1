"""The records of periods: each node's ledger records what was published there."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from airflow_provider_chs3.core.ledger.mutations import mutations_of
from airflow_provider_chs3.core.ledger.partition_state import PartitionState
from airflow_provider_chs3.core.ledger.table import COLUMNS, LedgerKey
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, literal, table
from airflow_provider_chs3.core.values.models import TableName


@dataclass(frozen=True, slots=True)
class Record:
    """The newest record of a period on one node.

    Args:
        event: `intent` before the partition is replaced, `published` after.
        attempt: The nonce of the attempt that wrote it.
        fingerprint: Fingerprint of the objects.
        definition: Digest of the load's definition.
        source_bytes: Size of the objects in bytes.
        nodes: Number of nodes that the period was spread over.
        rows: Rows of the period on this node.
        min_block: Lowest block number of the partition, before it was replaced (`intent`) or after (`published`); 0
            without parts.
        max_block: The highest.
        data_version: Highest data version, above `max_block` if a mutation had run.
        evidence: The evidence by which the partition is recognized, before it was replaced or after (see
            `core.ledger.parts.Evidence`).
        sequence: Its number: the newest record of a node has the highest; in a replicated table, the newest of a shard.
        base: The attempt that loaded the whole period; empty if no increment may build on it.
        increments: Number of loads since then that added new objects alone.
        partition_id: The id of the period's partition then.
        age_seconds: Time since it was written, by the clock of its node.
        structure: The table, and what was loaded into it (see `core.ledger.structure_record`); empty if nothing was
            published.
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
    partition_id: str = ""
    age_seconds: float = field(default=float("inf"), compare=False)
    structure: str = ""


@dataclass(frozen=True, slots=True)
class PeriodOnNode:
    """One period on one node: its record, and its current partition.

    Args:
        record: The newest record; None if there is none, or the period was forgotten.
        state: The partition.
        has_history: Whether the node's ledger has records of this period for a table of this name, including those of
            an earlier table and of a forgotten period.
        has_rows: Whether the node has rows of the table, of any period.
        is_of_replica: Whether the record is a newer one, of another replica of the shard.
        table_uuid: UUID of the table that has the target's name now; empty if there is none, or not asked for.
    """

    record: Record | None
    state: PartitionState
    has_history: bool = False
    has_rows: bool = False
    is_of_replica: bool = False
    table_uuid: str = ""


#: Columns of a record, each with its value; JSON is given as what it is made of.
Values: TypeAlias = Mapping[str, str | int | Mapping[str, object]]

_EVENTS = "'intent', 'published', 'forgotten'"
#: Records that decide the state of a period on a node.
IS_STATE = f"event IN ({_EVENTS})"
#: The same, and those that found it unchanged.
IS_CHECKED = f"event IN ({_EVENTS}, 'unchanged')"
#: With LIMIT 1, the newest record.
NEWEST_FIRST = "ORDER BY sequence DESC, recorded_at DESC"
_AGE_SECONDS = "dateDiff('millisecond', recorded_at, now64(3)) / 1000"


def newest(columns: str, *, condition: str = IS_STATE) -> str:
    """Return an aggregate that takes columns, as a tuple, from the newest of a group of records.

    Args:
        columns: The columns.
        condition: The records that count; by default those that decide the state of a period.
    """
    return f"argMaxIf(({columns}), (sequence, recorded_at), {condition})"


def record_columns(*, structure: str = "structure") -> str:
    """Return the columns of `Record` in its order.

    Args:
        structure: An expression to ask for instead of the structure, which may be long. Default: the structure.
    """
    computed = {"age_seconds": _AGE_SECONDS, "structure": structure}
    return ", ".join(computed.get(name, name) for name in Record.__dataclass_fields__)


def record_of(fields: Iterable[Any]) -> Record | None:
    """Create the record from the values of `record_columns`; None if the period was forgotten."""
    found = Record(*fields)
    return None if found.event == "forgotten" else found


def uuid_now(key: LedgerKey) -> str:
    """Return a scalar subquery for the UUID of the table that has the target's name now; empty if there is none.

    Args:
        key: The period.
    """
    where = f"database = {literal(key.target.database)} AND name = {literal(key.target.table)}"
    return f"(SELECT any(toString(uuid)) FROM system.tables WHERE {where})"


def period_on_node(row: Sequence[Any]) -> PeriodOnNode:
    """Parse the row of a period that `core.ledger.queries.look_up` asks for."""
    partition_id, ((records, has_history),), has_rows, mutations, states, table_uuid = row
    empty = PartitionState(mutations=mutations_of(mutations), partition_id=partition_id)
    found = (PartitionState.of(partition, state, mutations_of(mutations)) for partition, state in states)
    return PeriodOnNode(
        record_of(records[0]) if records else None,
        next(found, empty),
        has_history=bool(has_history),
        has_rows=bool(has_rows),
        table_uuid=table_uuid,
    )


def record(
    ledger: TableName,
    key: LedgerKey,
    event: str,
    values: Values,
    *,
    number: int = 0,
) -> Sql:
    """Return the statement that adds a record, numbered after those of the same period on this node.

    Args:
        ledger: The ledger.
        key: The key of the record.
        event: `intent`, `published`, `forgotten`, `inserting`, `load`, `failed` or `unchanged`.
        values: Further columns.
        number: The lowest number of the record.
    """
    given = rendered(event, key, values)
    names = ", ".join(identifier(name) for name in ("sequence", *given))
    return Sql(
        f"INSERT INTO {table(ledger)} ({names}) SELECT greatest(max(sequence) + 1, {number}), "
        f"{', '.join(given.values())} FROM {table(ledger)} WHERE {key.condition}"
    )


def rendered(event: str, key: LedgerKey, values: Values) -> dict[str, str]:
    """Return the columns of a record, but for its number, each with its value as SQL.

    Args:
        event: As in `record`.
        key: The key of the record.
        values: Further columns.
    """
    given: Values = {
        "event": event,
        "target_database": key.target.database,
        "target_table": key.target.table,
        "target_uuid": key.target_uuid,
        "period": str(key.period),
        "partition_id": key.partition_id,
        **values,
    }
    return {name: _value(value) for name, value in given.items()}


class Renewal(NamedTuple):
    """The current evidence of a published period.

    Args:
        key: The key of the record.
        attempt: The attempt that published.
        evidence: The columns with the evidence of the partition.
        structure: The structure.
    """

    key: LedgerKey
    attempt: str
    evidence: Mapping[str, str | int]
    structure: str


def renew(ledger: TableName, renewals: Sequence[Renewal]) -> Sql:
    """Return the statement that adds the newest record of periods again, with the current evidence.

    Merges changed the parts, or the table got columns. It remains the record of that time, and is added only if nothing
    came after it: an intent with the same number was recorded later, and counts as newer.

    Args:
        ledger: The ledger.
        renewals: The evidence of each period; at least one.
    """
    selects = " UNION ALL ".join(_renewed(ledger, each) for each in renewals)
    return Sql(f"INSERT INTO {table(ledger)} ({', '.join(map(identifier, COLUMNS))}) {selects}")


def _renewed(ledger: TableName, renewal: Renewal) -> str:
    values = {name: _value(value) for name, value in renewal.evidence.items()} | {
        "sequence": "sequence + 1",
        "structure": literal(renewal.structure),
    }
    return (
        f"SELECT {', '.join(values.get(name, name) for name in COLUMNS)} FROM (SELECT * FROM {table(ledger)} "
        f"WHERE {renewal.key.condition} AND {IS_STATE} {NEWEST_FIRST} LIMIT 1) "
        f"WHERE event = 'published' AND attempt = {literal(renewal.attempt)}"
    )


def number_of_creation(staging: TableName) -> str:
    """Return the lowest number of a record of an attempt whose staging is replicated; see `core.ledger.recording`.

    Args:
        staging: Its staging.
    """
    # A thousand records fit between it and the next one, which is many transactions later.
    paths = (
        f"SELECT zookeeper_path FROM system.replicas WHERE database = {literal(staging.database)} "
        f"AND table = {literal(staging.table)}"
    )
    return f"(SELECT bitShiftLeft(toUInt64(min(czxid)), 10) FROM system.zookeeper WHERE path IN ({paths}))"


def is_there(staging: TableName) -> str:
    """Return the condition that fails unless this staging exists; see `core.ledger.recording`.

    Args:
        staging: The staging.
    """
    tables = f"database = {literal(staging.database)} AND name = {literal(staging.table)}"
    is_gone = f"(SELECT count() FROM system.tables WHERE {tables}) = 0"
    return f"NOT throwIf({is_gone}, 'the staging of this attempt is gone: another one took over')"


def _value(value: str | int | Mapping[str, object]) -> str:
    if isinstance(value, int):
        # Of one type, whatever the number: of several statements in one UNION, columns of one name must have it.
        return f"toInt64({value})"
    return literal(value if isinstance(value, str) else json_text(value))


def json_text(value: Mapping[str, object]) -> str:
    """Return a value of a record that is JSON, as it is written there."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
