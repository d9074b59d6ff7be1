"""Tables that loads derive from another table of the same servers, and their periods whose base has changed since."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from airflow_provider_chs3.core.ledger.records import IS_STATE
from airflow_provider_chs3.core.load.discovery import VIEW_TO
from airflow_provider_chs3.core.model.models import Node, TableName
from airflow_provider_chs3.core.model.period import WHOLE_TABLE, Grain, Period
from airflow_provider_chs3.core.periods.select_source import VERSION, digest_of_base, partitions_on_shards, states_query
from airflow_provider_chs3.core.sql.quoting import Sql, literal, one_of, table
from airflow_provider_chs3.core.steps.fan_out import query_reachable
from airflow_provider_chs3.core.steps.operations import Row, Steps
from airflow_provider_chs3.core.target.topology import LEDGER_TABLE, OBJECTS_TABLE
from airflow_provider_chs3.exceptions import Chs3Error, ClickHouseServerError
from airflow_provider_chs3.plugin.observation.ledgers import Ledgers
from airflow_provider_chs3.plugin.observation.unchanged_periods import parsed, period_of


class Derived(NamedTuple):
    """The origin of a table that a SELECT fills from another one."""

    base: TableName
    view: str
    stale: Mapping[str, str]


class _Base(NamedTuple):
    """A base as it is now."""

    name: TableName
    uuids: tuple[str, ...]
    periods: Mapping[str, Period | None]
    shards: Mapping[int, Mapping[str, tuple[int, ...]]]


#: The attempt that loaded each period of a derived table, and the digest of what its base held then.
_Versions = Mapping[str, tuple[str, str]]


def look_at_derived_tables(ledgers: Ledgers, cluster: str | None) -> Steps[dict[TableName, Derived]]:
    """Find the tables that are derived from others, and their stale periods.

    A period is stale where a load would find another base: its partitions are compared as `SelectSource` does. Where a
    node does not answer, or replicas differ, nobody knows. That the SELECT is another one, only a plan tells.
    """
    versions = yield from _versions(ledgers, cluster or "")
    if not versions:
        return {}
    bases, views = yield from _bases(ledgers, {place for place, _ in versions.values()})
    derived = {}
    for name, (place, periods) in versions.items():
        # A name with dots may stand for several tables.
        named = [base for base in bases if str(base.name) == place]
        if len(named) == 1 and named[0].name != name:
            stale = {} if ledgers.down else _stale(periods, named[0])
            derived[name] = Derived(named[0].name, views.get((named[0].name, str(name)), ""), stale)
    return derived


def _versions(ledgers: Ledgers, cluster: str) -> Steps[dict[TableName, tuple[str, _Versions]]]:
    """Return the base of each table, as records call it, and what its periods were loaded from."""
    newest: dict[TableName, tuple[str, str, _Versions]] = {}
    for database in sorted({name for databases in ledgers.databases.values() for name in databases}):
        having = [node for node, databases in ledgers.databases.items() if database in databases]
        sql = dict.fromkeys([node for node in having if node not in ledgers.down], _versions_query(database, cluster))
        errors: dict[Node, Chs3Error] = {}
        # Each node has all of them.
        answers = yield from query_reachable("Find derived tables", sql, errors)
        # A user may not be allowed to read them, or there are none yet.
        ledgers.down.update(
            {node: error for node, error in errors.items() if not isinstance(error, ClickHouseServerError)}
        )
        for *name, place, lines in (row for rows in answers.values() for row in rows):
            fields = (line.split("\t") for line in lines.split("\n"))
            periods = {period: (attempt, digest) for period, attempt, digest in fields}
            last, table_name = max(periods, key=parsed), TableName(*name)
            if table_name not in newest or parsed(newest[table_name][0]) < parsed(last):
                newest[table_name] = (last, place, periods)
    return {name: (place, periods) for name, (_, place, periods) in newest.items()}


def _versions_query(database: str, cluster: str) -> Sql:
    ledger, objects = (table(TableName(database, name)) for name in (LEDGER_TABLE, OBJECTS_TABLE))
    keys = "target_database, target_table, target_uuid, period"
    # Rows are no objects: of tables that are loaded from files, nothing more is read.
    published = (
        f"SELECT {keys}, argMax(attempt, (sequence, recorded_at)) FROM {ledger} "
        f"WHERE {IS_STATE} AND objects = 0 AND source_bytes > 0 AND cluster = {literal(cluster)} GROUP BY {keys}"
    )
    place = "replaceAll(replaceAll(substring(path, 1, length(path) - length(period) - 1), '%2F', '/'), '%25', '%')"
    line = f"concat(period, '\\t', attempt, '\\t', extract(etag, {literal(VERSION)}))"
    return Sql(
        f"SELECT target_database, target_table, {place} AS place, arrayStringConcat(groupArray({line}), '\\n') "
        f"FROM {objects} WHERE ({keys}, attempt) IN ({published}) AND match(etag, {literal(VERSION)}) "
        "GROUP BY target_database, target_table, place"
    )


def _bases(ledgers: Ledgers, places: Iterable[str]) -> Steps[tuple[list[_Base], dict[tuple[TableName, str], str]]]:
    """Return the bases, and the views over each by the table that they write to."""
    is_named = one_of("concat(database, '.', name)", sorted(places))
    bases = f"(SELECT database, name FROM system.tables WHERE {is_named} AND endsWith(engine, 'MergeTree'))"
    reachable = [node for node in ledgers.databases if node not in ledgers.down]
    tables = Sql(
        "SELECT database, name, toString(uuid), partition_key, arrayZip(dependencies_database, dependencies_table) "
        f"FROM system.tables WHERE (database, name) IN {bases}"
    )
    rows = yield from query_reachable("Look at the bases", dict.fromkeys(reachable, tables), ledgers.down)
    states = states_query(f"(database, table) IN {bases}", "partition")
    parts = yield from query_reachable("Look at their partitions", dict.fromkeys(rows, states), ledgers.down)
    over = {TableName(*view): TableName(*row[:2]) for answer in rows.values() for row in answer for view in row[4]}
    writes_to = yield from _written_by(ledgers, rows, over)
    views = {(over[view], to): str(view) for view, to in writes_to.items()}
    return list(_joined(rows, parts)), views


def _written_by(ledgers: Ledgers, nodes: Iterable[Node], views: Collection[TableName]) -> Steps[dict[TableName, str]]:
    """Return the table that each view writes to, as its definition shows it."""
    if not views:
        return {}
    of_views = one_of("concat(database, '.', name)", sorted(map(str, views)))
    sql = Sql(
        f"SELECT database, name, replaceAll(extract(create_table_query, {literal(VIEW_TO.pattern)}), '`', '') "
        f"FROM system.tables WHERE {of_views} AND engine = 'MaterializedView'"
    )
    answers = yield from query_reachable("Look at the views", dict.fromkeys(nodes, sql), ledgers.down)
    return {TableName(*row[:2]): row[2] for rows in answers.values() for row in rows if TableName(*row[:2]) in views}


def _joined(tables: Mapping[Node, list[Row]], parts: Mapping[Node, list[Row]]) -> Iterator[_Base]:
    """Join the nodes' facts about each base; if its replicas differ, no partition is known."""
    for name in sorted({TableName(*row[:2]) for rows in tables.values() for row in rows}):
        of_nodes = {node: row[2:] for node, rows in tables.items() for row in rows if TableName(*row[:2]) == name}
        of_base = {node: [row[2:] for row in rows if TableName(*row[:2]) == name] for node, rows in parts.items()}
        shards: dict[int, dict[str, tuple[int, ...]]] = {}
        is_same = len(of_nodes) == len(parts)
        for node, rows in of_base.items():
            states = {row[0]: tuple(map(int, row[2:])) for row in rows}
            is_same = is_same and shards.setdefault(node.shard_num, states) == states
        key = next(iter(of_nodes.values()))[1]
        shown = {row[0]: str(row[1]) for rows in of_base.values() for row in rows} if is_same else {}
        yield _Base(
            name=name,
            uuids=tuple(uuid for uuid, *_ in of_nodes.values()),
            periods={partition_id: period_of(partition_id, text, key) for partition_id, text in shown.items()},
            shards=shards,
        )


def _stale(versions: _Versions, base: _Base) -> dict[str, str]:
    """Return the periods whose partitions in the base are others, or as others left them."""
    ids: dict[Period, list[str]] = defaultdict(list)
    for partition_id, period in base.periods.items():
        if period is None:
            # A key of another form: only a load finds its periods.
            return {}
        for grain in {parsed(version).grain for version in versions}:
            ids[WHOLE_TABLE if grain is Grain.ALL else Period.of(period.begin, grain)].append(partition_id)
    stale = {}
    for name, (attempt, digest) in versions.items():
        # Without rows in the base, a load finds nothing to load.
        if partition_ids := ids.get(parsed(name)):
            shards = partitions_on_shards(sorted(partition_ids), base.shards)
            if digest_of_base(base.uuids, shards) != digest:
                stale[name] = attempt
    return stale
