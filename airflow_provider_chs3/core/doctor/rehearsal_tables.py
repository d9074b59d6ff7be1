"""A rehearsal: its few rows, of values that are easily changed or lost, its table, and what is left of it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TypeAlias

from airflow_provider_chs3.core.ledger.object_records import objects_table
from airflow_provider_chs3.core.ledger.table import make_ledger
from airflow_provider_chs3.core.load.end_attempts import end_earlier_attempts
from airflow_provider_chs3.core.load.staging_tables import Attempt
from airflow_provider_chs3.core.model.models import Node, TableName
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.model.quantities import quantity
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, is_table, literal, table
from airflow_provider_chs3.core.steps.fan_out import query_reachable
from airflow_provider_chs3.core.steps.operations import QueryNodes, Steps
from airflow_provider_chs3.core.target.node_facts import Target, inspect_target, look_at
from airflow_provider_chs3.core.target.replication import create_table as make_table
from airflow_provider_chs3.core.target.replication import find_replicas, run_ddl
from airflow_provider_chs3.core.target.table_facts import NAME_PREFIX, family, remember
from airflow_provider_chs3.core.target.topology import LEDGER_TABLE, TableLocation, TableRequest, resolve_table
from airflow_provider_chs3.exceptions import Chs3Error, PreflightError

#: Long ago, so that no real data is there.
PERIOD = Period.of_month(2001, 2)
ROWS_PER_FILE = 40

Row: TypeAlias = tuple[int, datetime, Decimal, str | None, tuple[str, ...]]

_TYPES = {
    "id": "UInt64",
    "ts": "DateTime('UTC')",
    "fare": "Decimal(9, 2)",
    "note": "Nullable(String)",
    "tags": "Array(String)",
}
_NOTES = (None, "", "\\N", "NULL", 'a "quoted", text', "ünïcödé", "two\nlines", "'; --")
_TAGS: tuple[tuple[str, ...], ...] = ((), ("a",), ("a,b", ""), ("]", "'"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Where(TableRequest):
    """The place of a rehearsal, whose table is like another one, or else a plain MergeTree."""

    like: TableName | None = None


def rows_of_file(number: int, *, version: int) -> list[Row]:
    """Return the rows of a file."""
    begin, end = datetime(2001, 2, 1, tzinfo=UTC), datetime(2001, 2, 28, 23, 59, 59, tzinfo=UTC)
    first = (version * 1000 + number) * ROWS_PER_FILE
    rows: list[Row] = []
    for location in range(ROWS_PER_FILE):
        at = (begin, end, begin + timedelta(hours=location, seconds=number))[location % 3]
        fare = Decimal(first + location) / 100 * (-1 if location % 5 == 0 else 1)
        rows.append((first + location, at, fare, _NOTES[location % len(_NOTES)], _TAGS[location % len(_TAGS)]))
    return rows


def body_of_file(rows: Iterable[Row]) -> bytes:
    """Return the rows as JSON lines."""
    lines = (
        {"id": row[0], "ts": f"{row[1]:%Y-%m-%d %H:%M:%S}", "fare": str(row[2]), "note": row[3], "tags": row[4]}
        for row in rows
    )
    return "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines).encode()


def plan_table(where: Where) -> Steps[tuple[TableLocation, Target]]:
    """Find the place of the rehearsal's table, and the facts of its nodes, without creating anything."""
    context = yield from _inspect_target(where, where.like or where.target, staging_database=where.target.database)
    if findings := list(_hindrances(where, context)):
        raise PreflightError(*findings)
    if where.like:
        context = yield from find_replicas(context)
    ledger = TableName(where.target.database, LEDGER_TABLE)
    location = TableLocation(cluster=context.cluster, target=where.target, ledger=ledger, nodes=tuple(context.nodes))
    return location, context


def create_table(where: Where, context: Target) -> Steps[None]:
    """Create the rehearsal's table on every node."""
    columns = ", ".join(f"{name} {declared}" for name, declared in _TYPES.items())
    head = f"CREATE TABLE {table(where.target)} ({columns}) ENGINE ="
    sql = {node: Sql(f"{head} {_engine(where, context, node)}") for node in context.nodes}
    yield from make_table(context, where.target, sql, name=f"Create {where.target}")


def _hindrances(where: Where, context: Target) -> Iterator[str]:
    like = where.like and context.target
    if finding := context.missing_database(where.target.database):
        yield finding
    elif like is None and len(context.publishers) < len(context.nodes):
        yield (
            f"Cluster {context.cluster!r} has shards of several replicas, which a plain MergeTree would not keep "
            "in sync: pass --like DATABASE.TABLE, the replicated table that loads go into."
        )
    elif like and (finding := context.missing_target("check --like DATABASE.TABLE")):
        yield finding
    elif like:
        engines = {facts.target.engine for facts in context.nodes.values() if facts.target}
        for engine in sorted(engine_name for engine_name in engines if not engine_name.endswith("MergeTree")):
            yield f"{like} is a {engine}, not a MergeTree: pass --like the table that loads go into."


def _engine(where: Where, context: Target, node: Node) -> str:
    facts = context.nodes[node]
    settings = facts.target.settings if facts.target else ""
    comment = literal("table of a rehearsal; can be dropped")
    engine = f"{family(facts.target.engine) if facts.target else ''}MergeTree"
    if facts.keeper is not None:
        engine = context.engine_beside(node, where.target.table)
    clause = settings and f" SETTINGS {settings}"
    return f"{engine} PARTITION BY toYYYYMM(ts) ORDER BY id{clause} COMMENT {comment}"


def read_table(where: Where, cluster: str | None) -> Sql:
    """Read all rows of the rehearsal's table, once for each shard."""
    source = table(where.target)
    if cluster:
        source = f"cluster({', '.join((literal(cluster), *map(identifier, where.target)))})"
    return Sql(f"SELECT {', '.join(_TYPES)} FROM {source} ORDER BY id")


def digests(where: Where, nodes: Sequence[Node]) -> Steps[dict[Node, object]]:
    """Read a digest of the rows on every node: the replicas of a shard must agree."""
    sql = Sql(f"SELECT count(), sum(cityHash64(tuple(*))) FROM {table(where.target)}")
    answers = yield from QueryNodes(name=f"Read {where.target} on every node", sql=dict.fromkeys(nodes, sql))
    return {node: rows[0] for node, rows in answers.items()}


def look_at_servers(where: Where, nodes: Sequence[Node]) -> Steps[tuple[tuple[str, ...], str]]:
    """Return the versions of the servers, and the engine of the rehearsal's table with its clauses."""
    sql = Sql(f"SELECT version(), (SELECT any(engine_full) FROM system.tables WHERE {is_table(where.target)})")
    answers = yield from QueryNodes(name="Ask every node for its version", sql=dict.fromkeys(nodes, sql))
    versions = sorted({rows[0][0] for rows in answers.values()})
    return tuple(versions), answers[nodes[0]][0][1]


def remember_passed(where: Where, staging_database: str | None) -> Steps[TableName | None]:
    """Record that the rehearsal has passed, and return the ledger; None if loads into such tables require no record."""
    if where.like is None:
        return None
    ledger = TableName(staging_database or where.like.database, LEDGER_TABLE)
    context = yield from _inspect_target(where, where.like, staging_database=ledger.database)
    if not any(facts.target and family(facts.target.engine) for facts in context.nodes.values()):
        return None
    yield from make_ledger(context, context.nodes)
    sql = dict.fromkeys(context.recorders, remember(ledger, where.like))
    yield from QueryNodes(name="Record that the rehearsal has passed", sql=sql, settings=context.record_settings)
    return ledger


def _inspect_target(where: Where, target: TableName, *, staging_database: str) -> Steps[Target]:
    request = TableRequest(
        target=target,
        cluster=where.cluster,
        default_cluster=where.default_cluster,
        staging_database=staging_database,
    )
    return (yield from inspect_target(request, needs_all=True))


@dataclass(frozen=True, slots=True)
class Cleaned:
    """The result of a clean-up."""

    tables: tuple[str, ...]
    unreached: Mapping[Node, Chs3Error]

    @property
    def left(self) -> str:
        """The tables that may be left, and on which nodes; empty if none are."""
        if not self.unreached:
            return ""
        nodes = ", ".join(f"{node} ({error})" for node, error in self.unreached.items())
        return f"left on {nodes}: {', '.join(self.tables) or 'tables of rehearsals'}, with staging and records"


def clean_after(location: TableLocation) -> Steps[Cleaned]:
    """Drop a rehearsal's table, the staging of its loads and their records, on every node that answers.

    The tables of records are also dropped if they contain no other records.
    """
    down: dict[Node, Chs3Error] = {}
    up = yield from query_reachable("Check which nodes answer", dict.fromkeys(location.nodes, Sql("SELECT 1")), down)
    if up:
        yield from _drop(replace(location, nodes=tuple(up)))
    return Cleaned((location.target.table,), down)


def clean_database(where: Where) -> Steps[Cleaned]:
    """Drop the tables of all rehearsals in a database, with their staging and records."""
    location = yield from resolve_table(where)
    database = where.target.database
    sql = Sql(
        f"SELECT name FROM system.tables WHERE database = {literal(database)} "
        f"AND startsWith(name, {literal(NAME_PREFIX)})"
    )
    down: dict[Node, Chs3Error] = {}
    answers = yield from query_reachable("Find the tables of rehearsals", dict.fromkeys(location.nodes, sql), down)
    names = sorted({name for rows in answers.values() for (name,) in rows})
    for name in names:
        yield from _drop(replace(location, target=TableName(database, name), nodes=tuple(answers)))
    return Cleaned(tuple(names), down)


def _drop(location: TableLocation) -> Steps[None]:
    context = yield from look_at(location, settings=())
    target = location.target
    yield from end_earlier_attempts(context, Attempt(target, (PERIOD,), ""))
    drop = Sql(f"DROP TABLE IF EXISTS {table(target)} SYNC")
    yield from run_ddl(context, dict.fromkeys(context.nodes, drop), name=f"Drop {target}")
    ledger, objects = location.ledger, objects_table(location.ledger)
    nodes = {node: context.nodes[node] for node in context.recorders}
    yield from _delete_records(context, ledger, [node for node, facts in nodes.items() if facts.has_ledger])
    yield from _delete_records(context, objects, [node for node, facts in nodes.items() if facts.objects])
    yield from _delete_records(context, context.loads, [node for node, facts in nodes.items() if facts.loads])


def _delete_records(context: Target, records: TableName, nodes: Collection[Node]) -> Steps[None]:
    """Delete the records of a rehearsal's table, or drop the table of records if it contains no other records."""
    others = Sql(f"SELECT countIf(NOT startsWith(target_table, {literal(NAME_PREFIX)})) FROM {table(records)}")
    answers = yield from QueryNodes(name="Count the records of other tables", sql=dict.fromkeys(nodes, others))
    target = context.target
    of_target = f"target_table = {literal(target.table)}"
    delete = Sql(f"ALTER TABLE {table(records)} DELETE WHERE {of_target} SETTINGS mutations_sync = 1")
    drop = Sql(f"DROP TABLE IF EXISTS {table(records)} SYNC")
    kept = [node for node, rows in answers.items() if rows[0][0]]
    name = f"Delete the records of {target} from {records}"
    yield from QueryNodes(name=name, sql=dict.fromkeys(kept, delete))
    yield from run_ddl(context, dict.fromkeys(answers.keys() - kept, drop), name=name)


@dataclass(frozen=True, slots=True)
class Scenario:
    """The result of one scenario."""

    name: str
    seconds: float
    is_exact: bool
    found: str

    def __str__(self) -> str:
        return f"{'ok' if self.is_exact else 'WRONG':<6} {self.seconds:6.1f} s  {self.name}: {self.found}"


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """The result of a rehearsal."""

    versions: tuple[str, ...]
    nodes: int
    shards: int
    engine: str
    scenes: list[Scenario]

    @property
    def is_exact(self) -> bool:
        """Return whether every scenario was exact."""
        return all(scene.is_exact for scene in self.scenes)

    @property
    def header(self) -> str:
        """The servers and the table, in one line."""
        size = f"{quantity(self.nodes, 'node')}, {quantity(self.shards, 'shard')}"
        return f"ClickHouse {', '.join(self.versions)}, {size}, {self.engine}"
