"""Add records: claims with the structure of the table to each ledger, and loads to the table of loads."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from airflow_provider_chs3.core.ledger.records import IS_STATE, NEWEST_FIRST
from airflow_provider_chs3.core.ledger.table import COLUMNS, LOAD_EVENTS, LedgerKey
from airflow_provider_chs3.core.model.models import Node, SettingValues, TableName
from airflow_provider_chs3.core.sql.complete_answers import is_about_reading
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, in_table, is_table, literal, literals, table
from airflow_provider_chs3.core.steps.operations import QueryNodes
from airflow_provider_chs3.core.target.node_facts import Target
from airflow_provider_chs3.core.target.table_facts import Column, TableFacts, going_by_servers

#: JSON-safe: see `structure_of`.
Structure: TypeAlias = Mapping[str, Any]

_KEYS = ("partition_key", "sorting_key", "primary_key", "sampling_key")
#: Parts of the names of those that change how fast files are read, and not what is read.
_OF_SPEED = ("_block_", "_watermark", "_parallel_", "_push_down", "_bloom_filter", "_prefetch", "_seek")


def structure_of(
    context: Target,
    *,
    distribution: str,
    settings: SettingValues | None,
    shard_num: int | None = None,
    adds_columns: bool = False,
) -> Structure:
    """Return what decides the rows of a load and their nodes, besides the objects and the task's own arguments."""
    table_facts, by_key = context.table_facts, distribution == "sharding_key"
    return {
        "columns": [
            [column.name, column.type, column.default_kind, column.default_expression] for column in table_facts.columns
        ],
        **{name: getattr(table_facts, name) for name in _KEYS},
        "indices": [list(index) for index in table_facts.indices],
        "projections": [list(projection) for projection in table_facts.projections],
        "time_zone": None if settings is None else context.zone_of(settings),
        "server_zone": ", ".join(context.server_zones) if _goes_by_servers(table_facts) else "",
        "settings": None if settings is None else settings_of_reading(settings),
        "sharding": [context.sharding_key, len(context.publishers), shard_num] if by_key else None,
        **({"adds_columns": True} if adds_columns else {}),
    }


@lru_cache(maxsize=16)
def _goes_by_servers(table_facts: TableFacts) -> bool:
    return any(going_by_servers(table_facts))


def loaded_of(names: Iterable[str], in_files: Iterable[str] | None, *, every_column: bool) -> Structure:
    """Return what a load took from its files."""
    return {
        "loaded": sorted(names),
        "in_files": None if in_files is None else sorted(in_files),
        "every_column": every_column,
    }


def settings_of_reading(settings: SettingValues) -> dict[str, str]:
    """Return the user's settings that may change what is read from files, or the values made of it."""
    return {name: str(value) for name, value in sorted(settings.items()) if _changes_values(name)}


def as_text(*structures: Structure) -> str:
    """Return the text that the ledger stores."""
    return json.dumps(
        {name: value for structure in structures for name, value in structure.items()}, separators=(",", ":")
    )


def difference(recorded: Structure, current: Structure, *, shard_num: int) -> str:
    """Return why a load would make other rows now than then, as a text; empty if it would not."""
    return next(_differences(recorded, current, shard_num), "")


def _differences(recorded: Structure, current: Structure, shard_num: int) -> Iterator[str]:
    yield from _columns(recorded, current)
    yield from _describe_lacking(recorded, current)
    if current["time_zone"] is not None and recorded["time_zone"] != current["time_zone"]:
        was, is_now = recorded["time_zone"], current["time_zone"]
        yield f"times without a zone were read in {was!r}, and are now read in {is_now!r}"
    if recorded["server_zone"] != current["server_zone"]:
        yield f"the servers' time zone was {recorded['server_zone']!r} and is {current['server_zone']!r}"
    if current["settings"] is not None:
        yield from _settings(recorded["settings"], current["settings"])
    if recorded["sharding"] and current["sharding"]:
        yield from _sharding(recorded["sharding"], current["sharding"], shard_num)


def _columns(recorded: Structure, current: Structure) -> Iterator[str]:
    before = {column[0]: column for column in recorded["columns"]}
    for column in current["columns"]:
        name = column[0]
        if name not in before:
            yield from _describe_new(recorded, Column(*column))
        elif column != before[name] and not _makes_same_values(before[name], column):
            yield f"column {name!r} of the table was {_shown(before[name])} and is {_shown(column)}"


def _describe_new(recorded: Structure, column: Column) -> Iterator[str]:
    """Return the difference that a new column makes: none if no file has it, as existing rows have its default."""
    if not recorded["every_column"] or not column.is_loaded:
        return
    in_files = recorded["in_files"]
    if in_files is None and column.default_kind != "EPHEMERAL":
        yield f"column {column.name!r} was added to the table"
    elif in_files is not None and column.name in in_files:
        yield f"column {column.name!r} was added to the table, and the period's files have it"


def _describe_lacking(recorded: Structure, current: Structure) -> Iterator[str]:
    """Return the difference that it makes to add columns from now on: none if the files have no others."""
    if not current.get("adds_columns") or recorded.get("adds_columns") or not recorded["every_column"]:
        return
    in_files = recorded["in_files"]
    if in_files is None:
        yield (
            "its files have not been checked for columns that the table lacks, which "
            "policies={'on_new_columns': 'add'} adds"
        )
        return
    lacking = sorted(set(in_files) - {column[0] for column in current["columns"]})
    if lacking:
        names = ", ".join(map(repr, lacking))
        yield f"its files have {names}, which policies={{'on_new_columns': 'add'}} adds to the table"


def _makes_same_values(before: Sequence[str], current: Sequence[str]) -> bool:
    """Check whether two columns give the same values: an ALIAS is computed when read; an Enum may get more names."""
    if before[1:] == current[1:] or before[2] == current[2] == "ALIAS":
        return True
    return before[2:] == current[2:] and before[1].startswith("Enum") and current[1].startswith("Enum")


def _shown(column: Sequence[str]) -> str:
    return " ".join(filter(None, column[1:]))


def _settings(before: Mapping[str, str], current: Mapping[str, str]) -> Iterator[str]:
    for name in sorted({*before, *current}):
        if before.get(name) != current.get(name) and _changes_values(name):
            was, is_now = (repr(settings[name]) if name in settings else "not set" for settings in (before, current))
            yield f"setting {name} was {was} and is {is_now}"


def _sharding(before: Sequence[Any], current: Sequence[Any], shard_num: int) -> Iterator[str]:
    (key, shards, place), (key_now, shards_now, _) = before, current
    if key != key_now:
        yield f"the sharding key was {key} and is {key_now}"
    elif (shards, place) != (shards_now, shard_num):
        yield f"shard {place} of {shards} is shard {shard_num} of {shards_now} now"


def _changes_values(setting: str) -> bool:
    # The time zone is recorded by itself, whoever names it.
    return (
        setting != "session_timezone" and is_about_reading(setting) and not any(part in setting for part in _OF_SPEED)
    )


def loaded_as_recorded(text: str, loaded: Iterable[str], in_files: Iterable[str] | None) -> bool:
    """Check whether a load takes the same columns, from files with the same columns, as the recorded load."""
    recorded: Structure = json.loads(text)
    current = loaded_of(loaded, in_files, every_column=True)
    return all(recorded[name] == current[name] for name in ("loaded", "in_files"))


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
    """Return the query for the last numbers of the periods on a node, of claims as of loads."""
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
    return f"SELECT maxMap(map(period, sequence)) FROM ({numbers})"


def _insert(into: TableName, event: str, records: Sequence[tuple[LedgerKey, Values]], last: str, at_least: str) -> str:
    """Return the INSERT: common values are written once, without a JOIN, which settings of a profile would change."""
    rows = [_rendered(event, key, values) for key, values in _name_partitions(event, records)]
    varying = ["period", *(name for name in rows[0] if name != "period" and len({row[name] for row in rows}) > 1)]
    columns = {name: f"each.{varying.index(name) + 1}" if name in varying else rows[0][name] for name in rows[0]}
    # Parentheses around one value do not make a tuple.
    tuples = ", ".join(f"tuple({', '.join(row[name] for name in varying)})" for row in rows)
    return (
        f"INSERT INTO {table(into)} ({', '.join(map(identifier, ('sequence', *columns)))}) "
        f"WITH ({last}) AS last SELECT greatest(last[each.1] + 1, {at_least}), {', '.join(columns.values())} "
        f"FROM (SELECT arrayJoin([{tuples}]) AS each)"
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
