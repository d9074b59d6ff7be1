"""End attempts: their queries and their staging."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from airflow_provider_chs3.core.load.staging_tables import (
    PERIODS_IN_COMMENT,
    Attempt,
    ddl_settings,
    holds_any,
    in_staging,
    nonce_of,
    published_from,
    superseded_message,
)
from airflow_provider_chs3.core.model.error_codes import ACCESS_DENIED, QUERY_WAS_CANCELLED
from airflow_provider_chs3.core.model.models import Node, TableName
from airflow_provider_chs3.core.sql.quoting import Sql, literal, literals, one_of, table
from airflow_provider_chs3.core.steps.operations import Gather, QueryNodes, Row, Sleep, Steps
from airflow_provider_chs3.core.target.node_facts import TargetContext
from airflow_provider_chs3.core.target.replication import run_ddl
from airflow_provider_chs3.exceptions import ClickHouseServerError, SupersededError, TransientError

#: How long a newer attempt may take between killing queries and dropping staging.
_TAKE_OVER_SECONDS = 5

#: How long killed queries may take to end on every node.
_END_TIMEOUT_SECONDS = 300


def end_earlier_attempts(context: TargetContext, *attempts: Attempt) -> Steps[None]:
    """End other attempts at these periods, queries first, before staging is created.

    This may drop a shared staging table of other periods, too; their load then creates another one.

    Raises:
        TransientError: If queries do not end.
    """
    prefixes = literals(attempt.prefix for attempt in attempts)
    tables = begins_with_any(prefixes)
    yield from _end_until_gone(context, queries=_queries_of(prefixes), tables=tables, of_several=holds_any(attempts))


class Group(NamedTuple):
    """The staging tables of a load of several periods."""

    names: set[str]
    periods: set[str]
    began: int


def find_groups(context: TargetContext, *periods: Attempt) -> Steps[dict[str, Group]]:
    """Find the staging of loads of several periods that include some of these: nonce → tables.

    Returns:
        Tables as the coordinator has them, else any node: a replica that was down still has dropped tables.
    """
    query = (
        f"SELECT name, {PERIODS_IN_COMMENT}, toUnixTimestamp(metadata_modification_time) FROM system.tables "
        f"WHERE {in_staging(context)} AND ({holds_any(periods)} OR {holds_any(periods, is_published=False)})"
    )
    answers = yield from context.on_each(name="Look for what loads of several periods left", sql=Sql(query))
    tables = {row[0]: row for rows in (*answers.values(), answers[context.coordinator]) for row in rows}
    groups: dict[str, Group] = {}
    for name, of_table, created in tables.values():
        names, known, began = groups.get(nonce_of(name), Group(set(), set(), created))
        groups[nonce_of(name)] = Group(names | {name}, known | set(of_table), min(began, created))
    return groups


def find_published_from(context: TargetContext, nonce: str) -> Steps[dict[str, list[str]]]:
    """Find the tables that an attempt was to publish from: name → periods.

    Returns:
        The tables that every node has.
    """
    query = f"SELECT name, {PERIODS_IN_COMMENT} FROM system.tables WHERE {published_from(context, nonce)}"
    answers = yield from context.on_each(name=f"Look for staging of attempt {nonce}", sql=Sql(query))
    on_nodes = [{name: list(periods) for name, periods in rows} for rows in answers.values()]
    return {name: periods for name, periods in on_nodes[0].items() if all(name in others for others in on_nodes)}


def rename_staging(context: TargetContext, name: str, *, to: Attempt) -> Steps[None]:
    """Take over the staging of a dead process by a new name: should it still run, it finds no staging.

    Raises:
        SupersededError: If staging is gone from a node.
    """
    sql = Sql(f"RENAME TABLE {table(TableName(context.staging_database, name))} TO {table(to.staging(context))}")
    try:
        yield from run_ddl(context, dict.fromkeys(context.nodes, sql), name=f"Take staging over as {to.name}")
    except ClickHouseServerError as error:
        if not (yield from is_staging_there(context, name)):
            raise SupersededError(superseded_message(to)) from error
        raise


def drop_staging(context: TargetContext, *attempts: Attempt) -> Steps[None]:
    """Drop the staging of attempts with only finished statements, so that nothing has to be killed.

    Its files are links to published parts, so it need not wait for their removal, which took a tenth of a second for
    sixty periods. It waits for replicas, because the last one removes the path in Keeper.
    """
    end = " SYNC" if context.table_facts.is_replicated else ""
    yield from _drop_tables(context, {attempt.name: context.nodes for attempt in attempts}, end=end)


def drop_held(context: TargetContext, but: Attempt) -> Steps[None]:
    """Drop the held versions of a period except one."""
    query = (
        f"SELECT name FROM system.tables WHERE {in_staging(context)} AND startsWith(name, {literal(but.prefix)}) "
        f"AND name != {literal(but.name)}"
    )
    answers = yield from context.on_each(name="Look for what is held", sql=Sql(query))
    names = sorted({name for rows in answers.values() for (name,) in rows})
    if names:
        yield from _drop_tables(context, dict.fromkeys(names, context.nodes))


def end_attempts(context: TargetContext, *attempts: Attempt) -> Steps[None]:
    """End attempts and their retries: queries on every node, then staging."""
    names = literals(attempt.name for attempt in attempts)
    yield from _end_until_gone(context, queries=_queries_of(names), tables=begins_with_any(names))


def end_attempts_with(context: TargetContext, *nonces: str) -> Steps[None]:
    """End all attempts with these nonces, at groups of periods and at single periods."""
    names = literal(f"^chs3_[0-9a-f]{{16}}_({'|'.join(map(re.escape, nonces))})")
    yield from _end_until_gone(context, queries=f"match(initial_query_id, {names})", tables=f"match(name, {names})")


def end_queries(context: TargetContext, attempt: Attempt) -> Steps[None]:
    """End the queries of an attempt on every node, but keep its staging.

    Raises:
        TransientError: If queries do not end.
    """
    yield from _end_until_gone(context, queries=_queries_of(literal(attempt.name)), tables="0")


def end_named(context: TargetContext, names: Collection[str]) -> Steps[None]:
    """End the attempts with these names: queries on every node, then staging.

    Raises:
        TransientError: If queries do not end.
    """
    yield from _end_until_gone(
        context,
        queries=_queries_of(literals(names)),
        tables=f"{one_of('name', names)}",
    )


def check_not_superseded(context: TargetContext, attempt: Attempt, error: Exception) -> Steps[None]:
    """Check whether a newer attempt caused an error.

    Such an attempt kills the queries of this one, and then drops its staging.

    Raises:
        SupersededError: If staging is gone.
    """
    was_killed = isinstance(error, ClickHouseServerError) and error.code == QUERY_WAS_CANCELLED
    for waited_seconds in range(_TAKE_OVER_SECONDS if was_killed else 1):
        if waited_seconds:
            yield from Sleep(name="Wait to see who killed the query", seconds=1)
        if not (yield from is_staging_there(context, attempt.name)):
            raise SupersededError(superseded_message(attempt))


def is_staging_there(context: TargetContext, name: str) -> Steps[bool]:
    """Check whether every node still has a staging table."""
    query = f"SELECT count() FROM system.tables WHERE {in_staging(context)} AND name = {literal(name)}"
    answers = yield from context.on_each(name="Look whether staging is still there", sql=Sql(query))
    return all(rows[0][0] for rows in answers.values())


def begins_with_any(prefixes: str) -> str:
    """Return the condition for the staging of attempts, by prefix."""
    return f"arrayExists(prefix -> startsWith(name, prefix), [{prefixes}])"


def _queries_of(names: str) -> str:
    """Return the condition for the queries of attempts, by prefix."""
    return f"arrayExists(name -> startsWith(initial_query_id, name), [{names}])"


def _end_until_gone(context: TargetContext, *, queries: str, tables: str, of_several: str = "0") -> Steps[None]:
    """Kill queries, wait, and drop staging, until no node runs such a query or has such a table.

    KILL QUERY answers "finished" while other nodes still run the query, so this asks until none does. The query after
    the drop is a fence: it finds REPLACE PARTITION statements that began before the drop, and waits for them; later
    ones find no table. Without it, if servers do not wait for each other, 22 of 25 stale statements (150 parts)
    overwrote the successor's publication.
    """
    known, dropped = set[str](), set[str]()
    for _ in range(_END_TIMEOUT_SECONDS):
        of_known = f" OR {_queries_of(literals(sorted(known)))}" if known else ""
        look = Sql(
            f"SELECT 'query', query_id FROM system.processes WHERE {queries}{of_known} "
            f"UNION ALL SELECT if({tables}, 'table', 'several'), name FROM system.tables "
            f"WHERE {in_staging(context)} AND ({tables} OR {of_several})"
        )
        answers = yield from context.on_each(name="Look for what attempts left", sql=look)
        running = [node for node, rows in answers.items() if any(kind == "query" for kind, _ in rows)]
        unknown = {name for rows in answers.values() for kind, name in rows if kind == "several"} - known
        if unknown:
            # First end their queries.
            known |= unknown
        elif running:
            yield from _kill_queries(running, f"{queries}{of_known}")
            yield from Sleep(name="Wait until they end", seconds=1)
        elif any(answers.values()):
            nodes_of = {
                name: [node for node, rows in answers.items() if any(name == other for _, other in rows)]
                for name in sorted(_table_names(answers))
            }
            yield from _drop_tables(context, nodes_of)
            if context.shared and nodes_of.keys() <= dropped:
                yield from Sleep(name="Wait for servers that lag behind the statements of their database", seconds=1)
            dropped |= nodes_of.keys()
        else:
            return
    if not running:
        names = ", ".join(sorted(_table_names(answers)))
        raise TransientError(
            f"Staging of an earlier attempt is still there after DROP TABLE: {names}. "
            "Find out what keeps it: a setting of the profile, or a server that cannot remove files."
        )
    raise TransientError(
        f"Queries of an earlier attempt still run on {', '.join(map(str, running))} {_END_TIMEOUT_SECONDS} s after "
        f"KILL QUERY: look at them in system.processes ({queries}). "
        "Those of another user need KILL QUERY ON *.*."
    )


def _kill_queries(nodes: list[Node], queries: str) -> Steps[None]:
    kill = Sql(f"KILL QUERY WHERE {queries} ASYNC")
    try:
        yield from QueryNodes(name="Kill queries", sql=dict.fromkeys(nodes, kill))
    except ClickHouseServerError as error:
        # If nodes log in to each other as another user, subqueries belong to that user, and end with the query.
        if error.code != ACCESS_DENIED:
            raise


def _table_names(answers: Mapping[Node, Sequence[Row]]) -> set[str]:
    return {name for rows in answers.values() for _, name in rows}


def _drop_tables(
    context: TargetContext, nodes_of: Mapping[str, Collection[Node]], *, end: str = " SYNC"
) -> Steps[None]:
    """Drop all tables in parallel, because removing the files of many periods takes a while."""
    drops = tuple(_drop_table(context, nodes, name, end) for name, nodes in nodes_of.items())
    yield from Gather(name="Drop staging", workflows=drops) if len(drops) > 1 else drops[0]


def _drop_table(context: TargetContext, nodes: Collection[Node], name: str, end: str) -> Steps[None]:
    sql = Sql(f"DROP TABLE IF EXISTS {table(TableName(context.staging_database, name))}{end}")
    drops = dict.fromkeys(nodes, sql)
    yield from run_ddl(context, drops, name=f"Drop staging {name}", settings=ddl_settings(context))
