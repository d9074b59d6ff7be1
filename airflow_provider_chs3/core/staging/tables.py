"""Create the staging table of one attempt, shaped as the target, and end what earlier attempts left."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from airflow_provider_chs3.core.cluster.node_facts import TargetContext
from airflow_provider_chs3.core.ledger.table import DURABLE, durable_settings
from airflow_provider_chs3.core.sql.quoting import Sql, literal, literals, one_of, table
from airflow_provider_chs3.core.sql.server_text import items
from airflow_provider_chs3.core.tuning.insert_settings import DDL_SETTINGS
from airflow_provider_chs3.core.values.models import ADAPTIVE_BUFFERS, Month, Node, SettingValues, TableName
from airflow_provider_chs3.core.workflow.operations import QueryNodes, Row, Sleep, Steps
from airflow_provider_chs3.exceptions import ClickHouseServerError, SupersededError, TransientError

_QUERY_WAS_CANCELLED = 394
_ACCESS_DENIED = 497

#: Where the target's engine merges rows. REPLACE PARTITION keeps the level of parts on older servers (seen on 25.8, no
#: more on 26.9), and FINAL takes a part that was merged in staging for one without equal keys: it told 20 rows for 5.
_WITHOUT_MERGES = (
    "max_bytes_to_merge_at_max_space_in_pool = 1, max_bytes_to_merge_at_min_space_in_pool = 1, "
    "parts_to_delay_insert = 1000000, parts_to_throw_insert = 1000000"
)

#: With so many columns their buffers matter: about 2 MB each, for every part that is being written. By default the
#: server has small ones from 500 columns on; with 300 they were measured to halve the memory of an insert.
_MANY_COLUMNS = 50

#: How long a newer attempt may take between killing queries and dropping staging.
_TAKE_OVER_SECONDS = 5

#: How long killed queries may take to end on every node.
_END_TIMEOUT_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of the protocol for one month of one table.

    Args:
        target: The local table.
        month: The month.
        nonce: Makes its names unique for ever: a late query of a dead attempt must not find a table to write into, and
            a stale attempt must not publish the rows of its successor.
    """

    target: TableName
    month: Month
    nonce: str

    @property
    def prefix(self) -> str:
        """Beginning of the names of all attempts of this month."""
        identity = f"{self.target.database}\0{self.target.table}\0{self.month}"
        return f"chs3_{hashlib.sha256(identity.encode()).hexdigest()[:16]}_"

    @property
    def name(self) -> str:
        """Name of the staging table, and beginning of the query ids."""
        return f"{self.prefix}{self.nonce}"

    def staging(self, context: TargetContext) -> TableName:
        """The staging table."""
        return TableName(context.staging_database, self.name)


def ddl_settings(context: TargetContext) -> SettingValues:
    """Return the settings for REPLACE PARTITION and DROP TABLE that every node knows."""
    return {name: value for name, value in DDL_SETTINGS.items() if name in context.known_settings}


def create_staging(context: TargetContext, attempt: Attempt, *, without_merges: bool = False) -> Steps[None]:
    """Create this attempt's staging on every node: MergeTree without TTL, replicated if the target is.

    No row is merged away in it, whatever the target's engine, so its count is proof. Columns, codecs, defaults,
    indices, projections and constraints come with `AS`; settings (storage policy, granularity) come from the target on
    that node. Types, codecs and keys that a server forbids in new tables by default are allowed if the target has them.

    Args:
        context: The nodes.
        attempt: The attempt.
        without_merges: Whether to leave its parts unmerged, as for those that are attached. Always so if the engine
            merges rows.

    Raises:
        SupersededError: If it was killed: the attempt that starts last ends all others of the month.
    """
    head = f"CREATE TABLE {table(attempt.staging(context))} AS {table(context.target)} ENGINE ="
    engines = {
        node: facts.keeper.engine_beside(attempt.name) if facts.keeper else "MergeTree"
        for node, facts in context.nodes.items()
    }
    step = QueryNodes(
        name=f"Create staging {attempt.name}",
        sql={
            node: Sql(f"{head} {engine} {_clauses(context, node, without_merges)}") for node, engine in engines.items()
        },
        settings=context.permissions,
        query_id=f"{attempt.name}_create",
    )
    try:
        yield step
    except ClickHouseServerError as error:
        if error.code == _QUERY_WAS_CANCELLED:
            raise SupersededError(superseded(attempt)) from error
        raise


def _clauses(context: TargetContext, node: Node, without_merges: bool) -> str:
    table_facts = context.table_facts
    clauses = (
        ("PARTITION BY", table_facts.partition_key),
        ("PRIMARY KEY", table_facts.explicit_primary_key),
        ("ORDER BY", table_facts.order_by),
        ("SAMPLE BY", table_facts.sampling_key),
        ("SETTINGS", ", ".join(_staging_settings(context, node, without_merges))),
    )
    return " ".join(f"{keyword} {value}" for keyword, value in clauses if value)


def _staging_settings(context: TargetContext, node: Node, without_merges: bool) -> Iterator[str]:
    table_facts = context.table_facts
    # Each node's own: the policy of a disk that the table itself defines may have another name on each.
    on_node = context.nodes[node].target
    own = items(on_node.settings) if on_node else ()
    yield from (each for each in own if each.partition(" ")[0] not in DURABLE)
    # A REPLACE PARTITION that was recorded must not be of rows that a power cut takes away.
    yield from durable_settings()
    if without_merges or not table_facts.is_plain:
        yield _WITHOUT_MERGES
    if (
        len(table_facts.columns) >= _MANY_COLUMNS
        and ADAPTIVE_BUFFERS in context.known_settings
        and ADAPTIVE_BUFFERS not in table_facts.settings
    ):
        yield f"{ADAPTIVE_BUFFERS} = {_MANY_COLUMNS}"


def end_earlier_attempts(context: TargetContext, attempt: Attempt) -> Steps[None]:
    """End what other attempts of this month run or left, queries first, before staging is created.

    Raises:
        TransientError: If queries do not end.
    """
    yield from _end(
        context,
        queries=f"startsWith(initial_query_id, {literal(attempt.prefix)})",
        tables=f"startsWith(name, {literal(attempt.prefix)})",
    )


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
        f"SELECT name FROM system.tables WHERE {_in_staging(context)} AND startsWith(name, {literal(attempt.prefix)}) "
        "ORDER BY metadata_modification_time DESC, name DESC"
    )
    ask = QueryNodes(name="Look for other attempts", sql={context.coordinator: Sql(query)})
    names = [name for (name,) in (yield from ask)[context.coordinator]]
    if not names or names[0] != attempt.name:
        raise SupersededError(superseded(attempt))
    if older := names[1:]:
        yield from end_named(context, older)


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


def end_named(context: TargetContext, names: Collection[str]) -> Steps[None]:
    """End the attempts of these names: queries on every node, then staging.

    Raises:
        TransientError: If queries do not end.
    """
    yield from _end(
        context,
        queries=f"arrayExists(name -> startsWith(initial_query_id, name), [{literals(names)}])",
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
    was_killed = isinstance(error, ClickHouseServerError) and error.code == _QUERY_WAS_CANCELLED
    for waited_seconds in range(_TAKE_OVER_SECONDS if was_killed else 1):
        if waited_seconds:
            yield from Sleep(name="Wait to see who killed the query", seconds=1)
        if not (yield from is_staging_there(context, attempt)):
            raise SupersededError(superseded(attempt))


def is_staging_there(context: TargetContext, attempt: Attempt) -> Steps[bool]:
    """Check whether every node still has the attempt's staging."""
    query = f"SELECT count() FROM system.tables WHERE {_in_staging(context)} AND name = {literal(attempt.name)}"
    answers = yield from context.on_each(name="Look whether staging is still there", sql=Sql(query))
    return all(rows[0][0] for rows in answers.values())


def superseded(attempt: Attempt) -> str:
    """Return the message for an attempt that a newer one has ended."""
    return (
        f"Another load of {attempt.target} for {attempt.month} started later and took over, or somebody ended this "
        "one: it stopped and published nothing more. Let another one finish; give the task max_active_tis_per_dag=1 to "
        "avoid overlaps."
    )


def _in_staging(context: TargetContext) -> str:
    return f"database = {literal(context.staging_database)}"


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
        f"UNION ALL SELECT 'table', name FROM system.tables WHERE {_in_staging(context)} AND {tables}"
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
        if error.code != _ACCESS_DENIED:
            raise


def _drop(context: TargetContext, found: dict[Node, list[Row]]) -> Steps[None]:
    for name in sorted({name for rows in found.values() for _, name in rows}):
        nodes = [node for node, rows in found.items() if ("table", name) in rows]
        sql = Sql(f"DROP TABLE IF EXISTS {table(TableName(context.staging_database, name))} SYNC")
        yield from QueryNodes(
            name=f"Drop staging {name}", sql=dict.fromkeys(nodes, sql), settings=ddl_settings(context)
        )
