"""One month in detail: the records of its newest loads, and its parts on each node."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_chs3.core.cluster.topology import LEDGER_TABLE, nodes_of
from airflow_provider_chs3.core.ledger.records import NEWEST_FIRST
from airflow_provider_chs3.core.ledger.table import absent, columns_of_ledgers
from airflow_provider_chs3.core.sql.quoting import Sql, literal, literals, table
from airflow_provider_chs3.core.values.models import Month, Node, TableName
from airflow_provider_chs3.core.workflow.fan_out import query_reachable, texts_of
from airflow_provider_chs3.core.workflow.operations import Row, Steps
from airflow_provider_chs3.exceptions import Chs3Error

_COLUMNS = ("event", "attempt", "sequence", "rows", "objects", "source_bytes", "details")
#: Records of one node that belong to no load, and make earlier records of loads obsolete.
_STANDING = ("intent", "published", "forgotten", "unchanged")


@dataclass(frozen=True, slots=True)
class Entry:
    """The newest record of one event of a month, in the ledger of one node.

    Args:
        event: The event.
        attempt: The load's attempt.
        sequence: Its number among the month's records on that node.
        rows: Rows of the month on that node.
        objects: Objects of the month.
        source_bytes: Their size in bytes.
        details: Further values.
        recorded_at: Time of the record, in UTC, by the node's clock.
    """

    event: str
    attempt: str
    sequence: int
    rows: int
    objects: int
    source_bytes: int
    details: Mapping[str, Any]
    recorded_at: str


@dataclass(frozen=True, slots=True)
class NodeShare:
    """A node's share of a month.

    Args:
        rows: Current rows.
        parts: Current parts.
        size_bytes: Bytes on disk.
        published_rows: Rows when the month was published; None if not known.
    """

    rows: int
    parts: int
    size_bytes: int
    published_rows: int | None


@dataclass(frozen=True, kw_only=True)
class MonthDetails:
    """One month of one table.

    Args:
        nodes: The share of each node that answered.
        down: The reasons why the others did not.
        load: The newest load that published.
        is_published: Whether the partition is still what that load published.
        inserting: A later load that is inserting, or was about to.
        failure: The failure of the newest load; None if it did not fail.
        owner: The task of the newest load, as JSON: DAG, run, task, map index; empty if not known.
    """

    nodes: Mapping[Node, NodeShare]
    down: Mapping[Node, str]
    load: Entry | None
    is_published: bool
    inserting: Entry | None
    failure: Entry | None
    owner: str

    @property
    def is_known(self) -> bool:
        """Whether any node has the month, or may have it."""
        found = self.load or self.inserting or self.failure or any(each.rows for each in self.nodes.values())
        return bool(found or self.down) or any(each.published_rows is not None for each in self.nodes.values())


def look_at_month(cluster: str | None, target: TableName, month: Month) -> Steps[MonthDetails]:
    """Read one month on every node, with two short statements; a node that does not answer is reported as down.

    Args:
        cluster: The cluster; None is the single server of the connection.
        target: The local table.
        month: The month.

    Raises:
        PreflightError: If the cluster is not known.
        Chs3Error: If no host of the connection answers.
    """
    nodes = yield from nodes_of(cluster)
    down: dict[Node, Chs3Error] = {}
    found = yield from query_reachable("Find the ledgers", dict.fromkeys(nodes, columns_of_ledgers()), down)
    statements = {node: _of_month(target, month, dict(rows)) for node, rows in found.items()}
    answers = yield from query_reachable(f"Read the records and parts of {month}", statements, down)
    answered = {node: (_entries(rows[0][0]), rows[0][1:]) for node, rows in answers.items()}
    return _details(answered, texts_of(down))


def _of_month(target: TableName, month: Month, columns_by_database: Mapping[str, Collection[str]]) -> Sql:
    """Return the query for the newest record of each event, and for the parts."""
    name = f"database = {literal(target.database)} AND table = {literal(target.table)}"
    records, partition_ids = "emptyArrayString()", literals(_usual_partition_ids(month))
    if columns_by_database:
        found = [_records(target, month, *each) for each in sorted(columns_by_database.items())]
        every = " UNION ALL ".join(text for text, _ in found)
        records = f"(SELECT groupArray(({', '.join(_COLUMNS)}, at)) FROM ({every}))"
        partition_ids = " UNION ALL ".join(
            [f"SELECT arrayJoin([{partition_ids}])", *(f"SELECT partition_id {rest}" for _, rest in found)]
        )
    return Sql(
        f"SELECT {records}, sum(rows), count(), sum(bytes_on_disk) FROM system.parts "
        f"WHERE {name} AND active AND rows > 0 AND partition_id IN ({partition_ids})"
    )


def _records(target: TableName, month: Month, database: str, columns: Collection[str]) -> tuple[str, str]:
    """Return the query for one ledger: complete, and the part after its columns, without order and limit."""
    uuid = (
        f"SELECT toString(uuid) FROM system.tables WHERE database = {literal(target.database)} "
        f"AND name = {literal(target.table)}"
    )
    rest = (
        f"FROM {table(TableName(database, LEDGER_TABLE))} WHERE target_database = {literal(target.database)} "
        f"AND target_table = {literal(target.table)} AND target_uuid IN ({uuid}) AND month = {literal(str(month))}"
    )
    named = ", ".join(name if name in columns else f"{absent(name)} AS {name}" for name in _COLUMNS)
    return (
        f"SELECT {named}, formatDateTime(recorded_at, '%F %T', 'UTC') AS at {rest} {NEWEST_FIRST} LIMIT 1 BY event",
        rest,
    )


def _usual_partition_ids(month: Month) -> tuple[str, str]:
    # As in `plugin.observation.months`: a month that no ledger has is in the partition that toYYYYMM or
    # toStartOfMonth gives it.
    number = f"{month.year}{month.number:02d}"
    return number, f"{number}01"


def _entries(rows: Iterable[Row]) -> dict[str, Entry]:
    """Return the records by event, and the newest of each if a node has several ledgers."""
    found: dict[str, Entry] = {}
    for event, attempt, sequence, count, objects, source_bytes, details, recorded_at in rows:
        values = json.loads(details) if details else {}
        if event not in found or found[event].recorded_at < recorded_at:
            found[event] = Entry(event, attempt, sequence, count, objects, source_bytes, values, recorded_at)
    return found


def _details(answered: Mapping[Node, tuple[Mapping[str, Entry], Row]], down: Mapping[Node, str]) -> MonthDetails:
    published = {
        node: _unless_older(entries, "published", than=("intent", "forgotten"))
        for node, (entries, _) in answered.items()
    }
    nodes = {
        node: NodeShare(rows, parts, size_bytes, record.rows if (record := published[node]) else None)
        for node, (_, (rows, parts, size_bytes)) in answered.items()
    }
    ledgers = [entries for entries, _ in answered.values()]
    load = _newest(entries.get("load") for entries in ledgers)
    inserting = _newest(_unless_older(entries, "inserting", than=("load", *_STANDING)) for entries in ledgers)
    failure = _newest(_unless_older(entries, "failed", than=("inserting", *_STANDING)) for entries in ledgers)
    attempts = {each.attempt for each in published.values() if each}
    newest = failure or _newest(entries.get("inserting") for entries in ledgers)
    return MonthDetails(
        nodes=nodes,
        down=down,
        load=load,
        is_published=load is not None and load.attempt in attempts,
        inserting=inserting,
        failure=failure,
        owner=newest.details.get("owner", "") if newest else "",
    )


def _newest(entries: Iterable[Entry | None]) -> Entry | None:
    """Return the newest record: one node has it, unless another node became the cluster's first."""
    return max((each for each in entries if each), key=lambda each: each.recorded_at, default=None)


def _unless_older(entries: Mapping[str, Entry], event: str, *, than: Iterable[str]) -> Entry | None:
    found = entries.get(event)
    others = max((entries[other].sequence for other in than if other in entries), default=0)
    return found if found and found.sequence > others else None
