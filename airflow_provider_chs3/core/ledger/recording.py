"""Add records: claims to the ledger of each node, and what loads did to the coordinator's table of loads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from airflow_provider_chs3.core.ledger.records import IS_STATE, NEWEST_FIRST
from airflow_provider_chs3.core.ledger.table import COLUMNS, LOAD_EVENTS, LedgerKey
from airflow_provider_chs3.core.model.models import Node, TableName
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, in_table, is_table, literal, literals, table
from airflow_provider_chs3.core.steps.operations import QueryNodes
from airflow_provider_chs3.core.target.node_facts import Target

#: A value of a column; numbers by name are those of a Map.
Value: TypeAlias = str | int | float | Sequence[str] | Mapping[str, float] | None
#: Columns of a record, each with its value.
Values: TypeAlias = Mapping[str, Value]
#: A record on a node: its key, and further columns.
RecordOnNode: TypeAlias = tuple[Node, LedgerKey, Values]


def add_records(
    context: Target,
    event: str,
    records: Iterable[RecordOnNode],
    *,
    name: str,
    staging: TableName | None = None,
    number: int = 0,
    query_id: str | None = None,
) -> QueryNodes:
    """Return the step that adds records of one table, each numbered after those of its period on its node.

    Replicas may be down while others publish, so their own ledgers do not have the same records. There, the number of a
    claim is also at least that of the Keeper transaction that created staging, so that the newest record of all
    replicas has the highest number, whichever of them were up.
    """
    by_node = defaultdict[Node, list[tuple[LedgerKey, Values]]](list)
    for node, key, values in records:
        if node in context.recorders:
            by_node[node].append((key, values))
    into, at_least = context.loads if event in LOAD_EVENTS else context.ledger, str(number)
    if staging and into == context.ledger and context.table_facts.is_replicated and not context.shared:
        at_least = _number_of_creation(staging)
    unless_gone = f" WHERE {is_there(staging)}" if staging else ""
    sql = {
        node: Sql(f"{_insert(into, event, of_node, _last(context, node, into, of_node), at_least)}{unless_gone}")
        for node, of_node in by_node.items()
    }
    settings = {} if event in LOAD_EVENTS else context.record_settings
    return QueryNodes(name=name, sql=sql, settings=settings, query_id=query_id)


def _last(context: Target, node: Node, into: TableName, records: Sequence[tuple[LedgerKey, Values]]) -> str:
    """Return the query for the last number of each period on a node, of claims as of loads."""
    facts = context.nodes[node]
    known = ((context.ledger, facts.has_ledger), (context.loads, facts.has_loads))
    of_periods = (
        f"{records[0][0].table_condition} AND period IN ({literals({str(key.period): 0 for key, _ in records})})"
    )
    numbers = " UNION ALL ".join(
        f"SELECT period, sequence FROM {table(name)} WHERE {of_periods}"
        for name, is_known in known
        if is_known or name == into
    )
    return f"SELECT period, max(sequence) AS last FROM ({numbers}) GROUP BY period"


def _insert(into: TableName, event: str, records: Sequence[tuple[LedgerKey, Values]], last: str, at_least: str) -> str:
    """Return the INSERT. Values that all records have in common are written once.

    There is no JOIN, which settings of a profile would change.
    """
    rows = [_rendered(event, key, values) for key, values in _name_partitions(event, records)]
    varying = ["period", *(name for name in rows[0] if name != "period" and len({row[name] for row in rows}) > 1)]
    columns = {name: f"each.{varying.index(name) + 1}" if name in varying else rows[0][name] for name in rows[0]}
    # Parentheses around one value do not make a tuple.
    tuples = ", ".join(f"tuple({', '.join(row[name] for name in varying)})" for row in rows)
    return (
        f"INSERT INTO {table(into)} ({', '.join(map(identifier, ('sequence', *columns)))}) "
        f"WITH (SELECT groupArray((period, last)) FROM ({last})) AS found "
        "SELECT greatest(arraySum(arrayMap(one -> if(one.1 = each.1, one.2, 0), found)) + 1, "
        f"{at_least}), {', '.join(columns.values())} FROM (SELECT arrayJoin([{tuples}]) AS each)"
    )


def _name_partitions(event: str, records: Sequence[tuple[LedgerKey, Values]]) -> Iterable[tuple[LedgerKey, Values]]:
    """Name in each claim all partitions that its period has on the node, so that a lost record of another one shows."""
    if event in LOAD_EVENTS:
        return records
    partitions = defaultdict[str, list[str]](list)
    for key, _ in records:
        partitions[str(key.period)].append(key.partition_id)
    return [(key, {**values, "partitions": sorted(partitions[str(key.period)])}) for key, values in records]


def _rendered(event: str, key: LedgerKey, values: Values) -> dict[str, str]:
    """Return the columns of a record, but for its number, each with its value as SQL."""
    given: Values = {
        "event": event,
        "target_database": key.target.database,
        "target_table": key.target.table,
        "target_uuid": key.target_uuid,
        "period": str(key.period),
        "partition_id": key.partition_id,
        **values,
    }
    return {name: _sql_of(value) for name, value in given.items()}


def _sql_of(value: Value) -> str:
    """Return a value as SQL, always of one type: of several statements in one UNION, a column must have it."""
    if value is None:
        return "CAST(NULL AS Nullable(Int64))"
    if isinstance(value, str):
        return literal(value)
    if isinstance(value, int):
        return f"toInt64({int(value)})"
    if isinstance(value, float):
        return f"toFloat64({value})"
    if isinstance(value, Mapping):
        numbers = ", ".join(f"toFloat64({number})" for number in value.values())
        return f"CAST(([{literals(value)}], [{numbers}]) AS Map(String, Float64))"
    return f"CAST([{literals(value)}] AS Array(String))"


class Renewal(NamedTuple):
    """The current evidence of a published period."""

    key: LedgerKey
    attempt: str
    evidence: Mapping[str, str | int]
    structure: str


def renew(ledger: TableName, renewals: Sequence[Renewal]) -> Sql:
    """Return the statement that adds the newest record of periods again, with the current evidence.

    Merges changed the parts, or the table got columns. It remains the record of that time, and is added only if nothing
    came after it: an intent with the same number was recorded later, and counts as newer.
    """
    selects = " UNION ALL ".join(_renewed(ledger, renewal) for renewal in renewals)
    return Sql(f"INSERT INTO {table(ledger)} ({', '.join(map(identifier, COLUMNS))}) {selects}")


def _renewed(ledger: TableName, renewal: Renewal) -> str:
    values = {name: _sql_of(value) for name, value in renewal.evidence.items()} | {
        "sequence": "sequence + 1",
        "structure": literal(renewal.structure),
    }
    partition = f"partition_id = {literal(renewal.key.partition_id)}"
    return (
        f"SELECT {', '.join(values.get(name, name) for name in COLUMNS)} FROM (SELECT * FROM {table(ledger)} "
        f"WHERE {renewal.key.condition} AND {partition} AND {IS_STATE} {NEWEST_FIRST} LIMIT 1) "
        f"WHERE event = 'published' AND attempt = {literal(renewal.attempt)}"
    )


def _number_of_creation(staging: TableName) -> str:
    """Return the lowest number of a record of an attempt whose staging is replicated; see `add_records`."""
    # A thousand records fit between it and the next one, which is many transactions later.
    paths = f"SELECT zookeeper_path FROM system.replicas WHERE {in_table(staging)}"
    return f"(SELECT bitShiftLeft(toUInt64(min(czxid)), 10) FROM system.zookeeper WHERE path IN ({paths}))"


def is_there(staging: TableName) -> str:
    """Return the condition that fails unless this staging exists; see `add_records`."""
    is_gone = f"(SELECT count() FROM system.tables WHERE {is_table(staging)}) = 0"
    return f"NOT throwIf({is_gone}, 'the staging of this attempt is gone: another one took over')"
