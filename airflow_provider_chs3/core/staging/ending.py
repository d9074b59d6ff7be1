"""End attempts: what earlier ones run or left, and this one when it is done."""

from __future__ import annotations

from collections.abc import Collection

from airflow_provider_chs3.core.cluster.node_facts import TargetContext
from airflow_provider_chs3.core.sql.quoting import Sql, literal, literals, one_of, table
from airflow_provider_chs3.core.staging.tables import Attempt, ddl_settings, in_staging, superseded
from airflow_provider_chs3.core.values.error_codes import ACCESS_DENIED, QUERY_WAS_CANCELLED
from airflow_provider_chs3.core.values.models import Node, TableName
from airflow_provider_chs3.core.workflow.operations import QueryNodes, Row, Sleep, Steps
from airflow_provider_chs3.exceptions import ClickHouseServerError, SupersededError, TransientError

#: How long a newer attempt may take between killing queries and dropping staging.
_TAKE_OVER_SECONDS = 5

#: How long killed queries may take to end on every node.
_END_TIMEOUT_SECONDS = 300

#: Query ids of the statements with which groups of months record several of them.
_RECORDS_OF_GROUP = "^chs3_[0-9a-f]{16}_[0-9a-z]+_(intent|objects|published)_"


def end_earlier_attempts(context: TargetContext, *attempts: Attempt) -> Steps[None]:
    """End what other attempts of their months run or left, queries first, before staging is created.

    Args:
        context: The nodes.
        *attempts: The attempts that are to begin.

    Raises:
        TransientError: If queries do not end.
    """
    prefixes = literals(attempt.prefix for attempt in attempts)
    tables = f"arrayExists(prefix -> startsWith(name, prefix), [{prefixes}])"
    yield from _end(context, queries=_queries_of(prefixes), tables=tables)


def take_over(context: TargetContext, attempt: Attempt) -> Steps[None]:
    """End the attempts that created their staging at the same time, or yield to them.

    All attempts use the coordinator's answer: the newest staging there wins, by that node's clock. An attempt asks
    after it has created its own staging, so of two attempts at least one sees the other, and both agree. It ends only
    what the answer shows as older.

    Raises:
        SupersededError: If a newer attempt has taken over.
        TransientError: If queries do not end.
    """
    query = (
        f"SELECT name FROM system.tables WHERE {in_staging(context)} AND startsWith(name, {literal(attempt.prefix)}) "
        "ORDER BY metadata_modification_time DESC, name DESC"
    )
    ask = QueryNodes(name="Look for other attempts", sql={context.coordinator: Sql(query)})
    names = [name for (name,) in (yield from ask)[context.coordinator]]
    if not names or names[0] != attempt.name:
        raise SupersededError(superseded(attempt))
    if older := names[1:]:
        yield from end_named(context, older)


def check_alone(context: TargetContext, attempt: Attempt) -> Steps[None]:
    """Yield to every other attempt of the month, whenever it created its staging.

    Args:
        context: The nodes.
        attempt: This attempt, whose staging is there.

    Raises:
        SupersededError: If there is another attempt, or this one's staging is gone.
    """
    query = (
        f"SELECT name FROM system.tables WHERE {in_staging(context)} AND startsWith(name, {literal(attempt.prefix)})"
    )
    ask = QueryNodes(name="Look for other attempts", sql={context.coordinator: Sql(query)})
    if [name for (name,) in (yield from ask)[context.coordinator]] != [attempt.name]:
        raise SupersededError(superseded(attempt))


def rename_staging(context: TargetContext, attempt: Attempt, *, to: Attempt) -> Steps[None]:
    """Take over the staging of a process that is gone: if it comes back, it does not find its staging.

    Raises:
        SupersededError: If staging is gone from a node.
    """
    sql = Sql(f"RENAME TABLE {table(attempt.staging(context))} TO {table(to.staging(context))}")
    try:
        yield from context.on_each(name=f"Take staging over as {to.name}", sql=sql)
    except ClickHouseServerError as error:
        yield from check_not_superseded(context, attempt, error)
        raise


def end_attempt(context: TargetContext, attempt: Attempt) -> Steps[None]:
    """End this attempt, and those that it started over with: queries on every node, then staging."""
    name = literal(attempt.name)
    yield from _end(context, queries=f"startsWith(initial_query_id, {name})", tables=f"startsWith(name, {name})")


def end_attempts_with(context: TargetContext, nonce: str) -> Steps[None]:
    """End all attempts of a nonce: of a group of months, and of each of its months."""
    names = literal(f"^chs3_[0-9a-f]{{16}}_{nonce}")
    yield from _end(context, queries=f"match(initial_query_id, {names})", tables=f"match(name, {names})")


def end_named(context: TargetContext, names: Collection[str]) -> Steps[None]:
    """End the attempts of these names: queries on every node, then staging.

    Raises:
        TransientError: If queries do not end.
    """
    yield from _end(
        context,
        queries=_queries_of(literals(names)),
        tables=f"{one_of('name', names)}",
    )


def check_not_superseded(context: TargetContext, attempt: Attempt, error: Exception) -> Steps[None]:
    """Check after an error whether it came from a newer attempt.

    That attempt kills the queries of this one, and then drops its staging.

    Args:
        context: The nodes.
        attempt: This attempt.
        error: The error.

    Raises:
        SupersededError: If staging is gone.
    """
    was_killed = isinstance(error, ClickHouseServerError) and error.code == QUERY_WAS_CANCELLED
    for waited_seconds in range(_TAKE_OVER_SECONDS if was_killed else 1):
        if waited_seconds:
            yield from Sleep(name="Wait to see who killed the query", seconds=1)
        if not (yield from is_staging_there(context, attempt)):
            raise SupersededError(superseded(attempt))


def is_staging_there(context: TargetContext, attempt: Attempt) -> Steps[bool]:
    """Check whether every node still has the attempt's staging."""
    query = f"SELECT count() FROM system.tables WHERE {in_staging(context)} AND name = {literal(attempt.name)}"
    answers = yield from context.on_each(name="Look whether staging is still there", sql=Sql(query))
    return all(rows[0][0] for rows in answers.values())


def _queries_of(names: str) -> str:
    """Return the condition that finds the queries of attempts, by the beginnings of their names.

    A group of months records several with one statement, which names the staging of each: it ends with any of them, and
    the group sends a statement for each of the others.
    """
    of_group = f"match(query_id, {literal(_RECORDS_OF_GROUP)}) AND position(query, name) > 0"
    return f"arrayExists(name -> startsWith(initial_query_id, name) OR ({of_group}), [{names}])"


def _end(context: TargetContext, *, queries: str, tables: str) -> Steps[None]:
    """Kill queries, wait, and drop staging.

    KILL QUERY answers "finished" while other nodes still run the query, so nodes are asked until none does.

    Args:
        context: The nodes.
        queries: Condition on `initial_query_id` that finds the queries.
        tables: Condition on `name` that finds the staging.
    """
    look = Sql(
        f"SELECT 'query', query_id FROM system.processes WHERE {queries} "
        f"UNION ALL SELECT 'table', name FROM system.tables WHERE {in_staging(context)} AND {tables}"
    )
    for _ in range(_END_TIMEOUT_SECONDS):
        found = yield from context.on_each(name="Look for what attempts left", sql=look)
        running = [node for node, rows in found.items() if any(kind == "query" for kind, _ in rows)]
        if running:
            yield from _kill(running, queries)
            yield from Sleep(name="Wait until they end", seconds=1)
        elif any(found.values()):
            yield from _drop(context, found)
        else:
            return
    raise TransientError(
        f"Queries of an earlier attempt still run on {', '.join(map(str, running))} {_END_TIMEOUT_SECONDS} s after "
        f"KILL QUERY: look at them in system.processes ({queries}). "
        "Those of another user need KILL QUERY ON *.*."
    )


def _kill(nodes: list[Node], queries: str) -> Steps[None]:
    kill = Sql(f"KILL QUERY WHERE {queries} ASYNC")
    try:
        yield from QueryNodes(name="Kill queries", sql=dict.fromkeys(nodes, kill))
    except ClickHouseServerError as error:
        # Where nodes log in to each other as another user, a query's parts there are that user's: they end with it.
        if error.code != ACCESS_DENIED:
            raise


def _drop(context: TargetContext, found: dict[Node, list[Row]]) -> Steps[None]:
    for name in sorted({name for rows in found.values() for _, name in rows}):
        nodes = [node for node, rows in found.items() if ("table", name) in rows]
        sql = Sql(f"DROP TABLE IF EXISTS {table(TableName(context.staging_database, name))} SYNC")
        yield from QueryNodes(
            name=f"Drop staging {name}", sql=dict.fromkeys(nodes, sql), settings=ddl_settings(context)
        )
