"""The rows and the table of a rehearsal: few, and with values that are easily lost."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TypeAlias

from airflow_provider_chs3.core.ledger import LEDGER_TABLE
from airflow_provider_chs3.core.ledger_table import make_ledger
from airflow_provider_chs3.core.models import Month, Node, TableName
from airflow_provider_chs3.core.place import Place, locate
from airflow_provider_chs3.core.rehearsed import NAME_PREFIX, family, remember
from airflow_provider_chs3.core.replication import find_replicas
from airflow_provider_chs3.core.sql import Sql, identifier, literal, table
from airflow_provider_chs3.core.staging import Attempt, end_earlier_attempts
from airflow_provider_chs3.core.steps import AskNodes, Steps
from airflow_provider_chs3.core.target import NodeFacts, Surroundings, look_around

#: Long past, so that nothing real is there.
MONTH = Month(2001, 2)
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
class Where:
    """Where a rehearsal takes place.

    Args:
        target: Its table.
        cluster: As loads are given it.
        default_cluster: The connection's.
        like: A table whose engine, replicas and settings it has; None makes a plain MergeTree.
    """

    target: TableName
    cluster: str | None
    default_cluster: str | None
    like: TableName | None = None

    @property
    def ledger(self) -> TableName:
        """Where its loads record what they publish."""
        return TableName(self.target.database, LEDGER_TABLE)


def rows_of_file(number: int, *, version: int) -> list[Row]:
    """The rows of a file.

    Args:
        number: The file's, from 0.
        version: Another one gives other values, and other ids.
    """
    begin, end = datetime(2001, 2, 1, tzinfo=UTC), datetime(2001, 2, 28, 23, 59, 59, tzinfo=UTC)
    first = (version * 1000 + number) * ROWS_PER_FILE
    rows: list[Row] = []
    for place in range(ROWS_PER_FILE):
        at = (begin, end, begin + timedelta(hours=place, seconds=number))[place % 3]
        fare = Decimal(first + place) / 100 * (-1 if place % 5 == 0 else 1)
        rows.append((first + place, at, fare, _NOTES[place % len(_NOTES)], _TAGS[place % len(_TAGS)]))
    return rows


def body_of_file(rows: Iterable[Row]) -> bytes:
    """The rows as lines of JSON.

    Args:
        rows: The rows.
    """
    lines = (
        {"id": each[0], "ts": f"{each[1]:%Y-%m-%d %H:%M:%S}", "fare": str(each[2]), "note": each[3], "tags": each[4]}
        for each in rows
    )
    return "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines).encode()


def create_table(where: Where) -> Steps[tuple[Node, ...]]:
    """Create the rehearsal's table on every node, and give the nodes.

    Args:
        where: Which table.

    Raises:
        PreflightError: If the cluster is not known, or the table that it is to be like is not one for loads.
    """
    clauses = f"PARTITION BY toYYYYMM(ts) ORDER BY id{{settings}} COMMENT {literal('a rehearsal: it may be dropped')}"
    if where.like is None:
        place = yield from _place(where)
        engines = dict.fromkeys(place.nodes, f"MergeTree {clauses.format(settings='')}")
    else:
        around = yield from _look_around(where, where.like)
        around = yield from find_replicas(around)
        engines = {
            node: f"{_engine_like(facts, where.target.table)} "
            f"{clauses.format(settings=_settings_of(facts.target.settings if facts.target else ''))}"
            for node, facts in around.nodes.items()
        }
    columns = ", ".join(f"{name} {declared}" for name, declared in _TYPES.items())
    head = f"CREATE TABLE {table(where.target)} ({columns}) ENGINE ="
    yield AskNodes(
        name=f"Create {where.target}", sql={node: Sql(f"{head} {engine}") for node, engine in engines.items()}
    )
    return tuple(engines)


def _engine_like(facts: NodeFacts, name: str) -> str:
    if facts.keeper:
        return facts.keeper.engine_beside(name)
    return f"{family(facts.target.engine) if facts.target else ''}MergeTree"


def _settings_of(settings: str) -> str:
    return f" SETTINGS {settings}" if settings else ""


def read_table(where: Where, cluster: str | None) -> Sql:
    """Ask for all rows of the rehearsal's table, each shard's once.

    Args:
        where: Which table.
        cluster: The cluster that was found; None for a single server.
    """
    target = where.target
    source = (
        f"cluster({literal(cluster)}, {identifier(target.database)}, {identifier(target.table)})"
        if cluster
        else table(target)
    )
    return Sql(f"SELECT {', '.join(_TYPES)} FROM {source} ORDER BY id")


def digests(where: Where, nodes: Sequence[Node]) -> Steps[dict[Node, object]]:
    """Ask every node for a digest of the rows that it holds: replicas of a shard must agree.

    Args:
        where: Which table.
        nodes: The nodes.
    """
    sql = Sql(f"SELECT count(), sum(cityHash64(*)) FROM {table(where.target)}")
    answers = yield AskNodes(name=f"Read {where.target} on every node", sql=dict.fromkeys(nodes, sql))
    return {node: rows[0] for node, rows in answers.items()}


def look_at_servers(where: Where, nodes: Sequence[Node]) -> Steps[tuple[tuple[str, ...], str]]:
    """The versions of the servers, and the engine of the rehearsal's table with its clauses.

    Args:
        where: Which table.
        nodes: The nodes.
    """
    target = where.target
    engine = (
        f"(SELECT any(engine_full) FROM system.tables WHERE database = {literal(target.database)} "
        f"AND name = {literal(target.table)})"
    )
    sql = Sql(f"SELECT version(), {engine}")
    answers = yield AskNodes(name="Ask every node for its version", sql=dict.fromkeys(nodes, sql))
    versions = sorted({rows[0][0] for rows in answers.values()})
    return tuple(versions), answers[nodes[0]][0][1]


def remember_passed(where: Where, staging_database: str | None) -> Steps[TableName | None]:
    """Record that the rehearsal has passed, where loads into tables of that engine ask for it.

    Args:
        where: Which rehearsal.
        staging_database: That of the loads of the table that this one is like; None is that table's own.

    Returns:
        The ledger that remembers it; None where the engine needs no rehearsal.
    """
    if where.like is None:
        return None
    ledger = TableName(staging_database or where.like.database, LEDGER_TABLE)
    around = yield from _look_around(where, where.like, ledger)
    if not any(facts.target and family(facts.target.engine) for facts in around.nodes.values()):
        return None
    yield from make_ledger(ledger, {node: facts.ledger_columns for node, facts in around.nodes.items()})
    yield around.on_each(name="Record that the rehearsal has passed", sql=remember(ledger, where.like))
    return ledger


def find_tables(where: Where) -> Steps[list[str]]:
    """The tables of rehearsals that are left in the database, on any node.

    Args:
        where: Which database.
    """
    place = yield from _place(where)
    sql = Sql(
        f"SELECT name FROM system.tables WHERE database = {literal(where.target.database)} "
        f"AND startsWith(name, {literal(NAME_PREFIX)})"
    )
    answers = yield AskNodes(name="Look for tables of rehearsals", sql=dict.fromkeys(place.nodes, sql))
    return sorted({name for rows in answers.values() for (name,) in rows})


def drop_table(where: Where) -> Steps[None]:
    """Drop the rehearsal's table, the staging of its loads and their records, on every node.

    The ledger goes too where it has no other records.

    Args:
        where: Which table.
    """
    around = yield from _look_around(where, where.target)
    yield from end_earlier_attempts(around, Attempt(where.target, MONTH, ""))
    yield around.on_each(name=f"Drop {where.target}", sql=Sql(f"DROP TABLE IF EXISTS {table(where.target)} SYNC"))
    ledger = table(where.ledger)
    knowing = [node for node, facts in around.nodes.items() if facts.has_ledger]
    others = Sql(f"SELECT countIf(NOT startsWith(target_table, {literal(NAME_PREFIX)})) FROM {ledger}")
    answers = yield AskNodes(name="Look for other records", sql=dict.fromkeys(knowing, others))
    own = f"target_table = {literal(where.target.table)}"
    delete = Sql(f"ALTER TABLE {ledger} DELETE WHERE {own} SETTINGS mutations_sync = 1")
    drop = Sql(f"DROP TABLE IF EXISTS {ledger} SYNC")
    statements = {node: delete if rows[0][0] else drop for node, rows in answers.items()}
    yield AskNodes(name="Take its records out of the ledger", sql=statements)


def _place(where: Where) -> Steps[Place]:
    return (
        yield from locate(
            target=where.target, cluster=where.cluster, default_cluster=where.default_cluster, ledger=where.ledger
        )
    )


def _look_around(where: Where, target: TableName, ledger: TableName | None = None) -> Steps[Surroundings]:
    return (
        yield from look_around(
            target=target,
            cluster=where.cluster,
            default_cluster=where.default_cluster,
            ledger=ledger or where.ledger,
            settings=(),
            needs_all=True,
        )
    )
