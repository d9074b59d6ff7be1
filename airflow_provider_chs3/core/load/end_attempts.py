"""End attempts: their queries and their staging; of concurrent ones, agree on which continues."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from airflow_provider_chs3.core.ledger.records import newest
from airflow_provider_chs3.core.load.period_load import PeriodLoad
from airflow_provider_chs3.core.load.publication import Publication, held_attempt
from airflow_provider_chs3.core.load.staging_tables import (
    IS_STAGING,
    PERIODS_IN_COMMENT,
    Attempt,
    ddl_settings,
    holds_any,
    in_staging,
    nonce_of,
    published_from,
    superseded,
)
from airflow_provider_chs3.core.model.error_codes import ACCESS_DENIED, QUERY_WAS_CANCELLED
from airflow_provider_chs3.core.model.models import Node, TableName
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.sql.quoting import Sql, literal, literals, one_of, table
from airflow_provider_chs3.core.steps.operations import Gather, Log, QueryNodes, Sleep, Steps
from airflow_provider_chs3.core.target.node_facts import Target
from airflow_provider_chs3.core.target.replication import run_ddl
from airflow_provider_chs3.exceptions import Chs3Error, ClickHouseServerError, TransientError

#: How long a newer attempt may take between killing queries and dropping staging.
_TAKE_OVER_SECONDS = 5

#: How long killed queries may take to end on every node.
_END_TIMEOUT_SECONDS = 300


def end_earlier_attempts(context: Target, *attempts: Attempt) -> Steps[None]:
    """End other attempts at these periods, queries first; other periods of theirs then get another staging table."""
    prefixes = literals(attempt.prefix for attempt in attempts)
    tables = begins_with_any(prefixes)
    yield from _end_until_gone(context, queries=_queries_of(prefixes), tables=tables, of_several=holds_any(attempts))


def find_published_from(context: Target, nonce: str) -> Steps[dict[str, list[str]]]:
    """Find the tables that an attempt was to publish from, and that every node has: name → periods."""
    query = f"SELECT name, {PERIODS_IN_COMMENT} FROM system.tables WHERE {published_from(context, nonce)}"
    answers = yield from context.on_each(name=f"Look for staging of attempt {nonce}", sql=Sql(query))
    on_nodes = [{name: list(periods) for name, periods in rows} for rows in answers.values()]
    return {name: periods for name, periods in on_nodes[0].items() if all(name in others for others in on_nodes)}


def rename_staging(context: Target, name: str, *, to: Attempt) -> Steps[None]:
    """Take over the staging of a dead process by a new name: should it still run, it finds no staging."""
    sql = Sql(f"RENAME TABLE {table(TableName(context.staging_database, name))} TO {table(to.staging(context))}")
    try:
        yield from run_ddl(context, dict.fromkeys(context.nodes, sql), name=f"Take staging over as {to.name}")
    except ClickHouseServerError as error:
        if not (yield from is_staging_there(context, name)):
            raise superseded(to) from error
        raise


def drop_staging(context: Target, *attempts: Attempt) -> Steps[None]:
    """Drop the staging of attempts with only finished statements, so that nothing has to be killed.

    Its files are links to published parts, so it need not wait for their removal, which took a tenth of a second for
    sixty periods. It waits for replicas, because the last one removes the path in Keeper.
    """
    end = " SYNC" if context.table_facts.is_replicated else ""
    yield from drop_tables(context, {attempt.name: context.nodes for attempt in attempts}, end=end)


def drop_held(context: Target, *spared: Attempt) -> Steps[None]:
    """Drop the held versions of the periods of some attempts, except theirs."""
    prefixes = literals(attempt.prefix for attempt in spared)
    query = (
        f"SELECT name FROM system.tables WHERE {in_staging(context)} AND {begins_with_any(prefixes)} "
        f"AND name NOT IN ({literals(attempt.name for attempt in spared)})"
    )
    answers = yield from context.on_each(name="Look for what is held", sql=Sql(query))
    names = sorted({name for rows in answers.values() for (name,) in rows})
    if names:
        yield from drop_tables(context, dict.fromkeys(names, context.nodes))


def end_attempts(context: Target, *attempts: Attempt) -> Steps[None]:
    """End attempts and their retries: queries on every node, then staging."""
    names = literals(attempt.name for attempt in attempts)
    yield from _end_until_gone(context, queries=_queries_of(names), tables=begins_with_any(names))


def end_attempts_with(context: Target, *nonces: str) -> Steps[None]:
    """End all attempts with these nonces, at groups of periods and at single periods."""
    names = literal(f"^chs3_[0-9a-f]{{16}}_({'|'.join(map(re.escape, nonces))})")
    yield from _end_until_gone(context, queries=f"match(initial_query_id, {names})", tables=f"match(name, {names})")


def end_queries(context: Target, attempt: Attempt) -> Steps[None]:
    """End the queries of an attempt on every node, but keep its staging."""
    yield from _end_until_gone(context, queries=_queries_of(literal(attempt.name)), tables="0")


def end_named(context: Target, names: Collection[str]) -> Steps[None]:
    """End the attempts with these names: queries on every node, then staging."""
    yield from _end_until_gone(context, queries=_queries_of(literals(names)), tables=one_of("name", names))


def check_not_superseded(context: Target, attempt: Attempt, error: Exception) -> Steps[None]:
    """Raise a `SupersededError` if staging is gone: a newer attempt kills queries of this one, and then drops it."""
    was_killed = isinstance(error, ClickHouseServerError) and error.code == QUERY_WAS_CANCELLED
    for waited_seconds in range(_TAKE_OVER_SECONDS if was_killed else 1):
        if waited_seconds:
            yield from Sleep(name="Wait to see who killed the query", seconds=1)
        if not (yield from is_staging_there(context, attempt.name)):
            raise superseded(attempt)


def is_staging_there(context: Target, name: str) -> Steps[bool]:
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


def _end_until_gone(context: Target, *, queries: str, tables: str, of_several: str = "0") -> Steps[None]:
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
        tables_left = sorted({name for rows in answers.values() for kind, name in rows if kind != "query"})
        if unknown:
            # First end their queries.
            known |= unknown
        elif running:
            yield from _kill_queries(running, f"{queries}{of_known}")
            yield from Sleep(name="Wait until they end", seconds=1)
        elif tables_left:
            nodes_of = {
                name: [node for node, rows in answers.items() if any(name == other for _, other in rows)]
                for name in tables_left
            }
            yield from drop_tables(context, nodes_of)
            if context.shared and dropped.issuperset(tables_left):
                yield from Sleep(name="Wait for servers that lag behind the statements of their database", seconds=1)
            dropped.update(tables_left)
        else:
            return
    if not running:
        raise TransientError(
            f"Staging of an earlier attempt is still there after DROP TABLE: {', '.join(tables_left)}. "
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


def drop_tables(context: Target, nodes_of: Mapping[str, Collection[Node]], *, end: str = " SYNC") -> Steps[None]:
    """Drop all tables in parallel, because removing the files of many periods takes a while."""
    drops = list[Steps[None]]()
    for name, nodes in nodes_of.items():
        sql = Sql(f"DROP TABLE IF EXISTS {table(TableName(context.staging_database, name))}{end}")
        settings = ddl_settings(context)
        drops.append(run_ddl(context, dict.fromkeys(nodes, sql), name=f"Drop {name}", settings=settings))
    yield from Gather(name="Drop staging", workflows=tuple(drops)) if len(drops) > 1 else drops[0]


def take_over(context: Target, attempt: Attempt) -> Steps[None]:
    """End attempts that created staging at the same time, or yield to them with a `SupersededError`.

    The latest attempt wins, by the nonce in its name, so all agree whichever server answers. Attempts ask after
    creating their own staging, so at least the later of two sees the other. An attempt ends only earlier ones that it
    sees.
    """
    of_period = f"startsWith(name, {literal(attempt.prefix)})"
    query = (
        f"SELECT name, {of_period} FROM system.tables "
        f"WHERE {in_staging(context)} AND ({of_period} OR {holds_any([attempt])}) ORDER BY name DESC"
    )
    rows = yield from context.on_coordinator(name="Look for other attempts", sql=Sql(query))
    names = [name for name, is_of_period in rows if is_of_period]
    if not names or names[0] != attempt.name:
        raise superseded(attempt)
    # Loads of several periods yield to loads of a single period.
    if older := names[1:] + [name for name, is_of_period in rows if not is_of_period]:
        yield from end_named(context, older)


def settle_with_rivals(
    context: Target, attempt: Attempt, periods: Collection[Attempt], *, is_joint: bool = False
) -> Steps[list[Attempt]]:
    """End earlier loads of several periods, and return the periods to leave to others.

    These are periods staged by a load of a single period, or being published by a later load of several, by nonce. Two
    loads that see each other agree on which ends the other. One that publishes all or none waits for no earlier load.
    """
    prefixes = literals(period_attempt.prefix for period_attempt in periods)
    query = (
        f"SELECT name, {PERIODS_IN_COMMENT}, {begins_with_any(prefixes)} AS is_of_one, "
        f"{holds_any(periods)} AS is_of_several "
        f"FROM system.tables WHERE {in_staging(context)} AND {IS_STAGING}"
    )
    rows = yield from context.on_coordinator(name="Look for other attempts", sql=Sql(query))
    if attempt.name not in {name for name, *_ in rows}:
        raise superseded(attempt)
    others = [row for row in rows if nonce_of(row[0]) != attempt.nonce]
    may_end = [name for name, *_, is_of_one, is_of_several in others if is_of_several or (is_joint and is_of_one)]
    older = [name for name in may_end if nonce_of(name) < attempt.nonce]
    if older:
        yield from end_named(context, older)
    held = {
        period
        for name, of_table, *_, is_of_several in others
        if is_of_several and nonce_of(name) > attempt.nonce
        for period in of_table
    }
    alone = [name for name, *_, is_of_one, _ in others if is_of_one and name not in older]
    return [
        period_attempt
        for period_attempt in periods
        if str(period_attempt.periods[0]) in held or any(name.startswith(period_attempt.prefix) for name in alone)
    ]


def clean_up(load: Publication, *, done: Sequence[Attempt] = ()) -> Steps[None]:
    """Remove the staging of an attempt; if that fails, the next load does it."""
    removing = drop_staging(load.context, *done) if done else end_attempts_with(load.context, load.attempt.nonce)
    failed = f"Staging of {load.periods} could not be removed; the next such load removes it."
    yield from log_failure(removing, failed)


def log_failure(steps: Steps[None], failed: str) -> Steps[None]:
    """Run a workflow whose failure does no harm: its error is logged."""
    try:
        yield from steps
    except Chs3Error as error:
        yield from Log(name=f"{failed} ({error})")


def clean_up_published(loads: Sequence[Publication]) -> Steps[None]:
    """Remove what attempts left that published periods; others may still run, and know newer objects."""
    attempts = {
        attempt
        for load in loads
        for period in load.before.values()
        if period.record
        for attempt in (replace(load.attempt, nonce=period.record.attempt), held_attempt(load, period.record.attempt))
    }
    if attempts:
        ending = end_attempts(loads[0].context, *sorted(attempts, key=lambda attempt: attempt.name))
        yield from log_failure(ending, "Staging of earlier loads could not be removed; the next load removes it.")


def drop_dead_groups(loads: Collection[PeriodLoad], own_attempts: Collection[tuple[Period, str]]) -> Steps[None]:
    """Drop the staging of other loads of several periods that nobody publishes from any more.

    These are earlier tries of this task, and loads with all periods published, by themselves or by later loads. Other
    loads may still run.
    """
    load, context = next(iter(loads)), next(iter(loads)).context
    if own_attempts:
        yield from end_attempts_with(context, *sorted({nonce for _, nonce in own_attempts}))
    if not context.nodes[context.coordinator].has_ledger:
        return
    attempts, dead = [item.attempt for item in loads], list[str]()
    query = (
        f"SELECT name, {PERIODS_IN_COMMENT}, toUnixTimestamp(metadata_modification_time) FROM system.tables "
        f"WHERE {in_staging(context)} AND ({holds_any(attempts)} OR {holds_any(attempts, is_published=False)})"
    )
    answers = yield from context.on_each(name="Look for what loads of several periods left", sql=Sql(query))
    # As the coordinator has them, else any node: a replica that was down still has dropped tables.
    tables = {row[0]: row for rows in (*answers.values(), answers[context.coordinator]) for row in rows}
    for nonce in dict.fromkeys(map(nonce_of, tables)):
        names, of_tables, created = zip(*(row for row in tables.values() if nonce_of(row[0]) == nonce), strict=True)
        if (yield from _are_published(load, set[str]().union(*of_tables), nonce, min(created))):
            dead += sorted(names)
    if dead:
        yield from Log(name=f"Dropping staging that dead loads left: {', '.join(dead)}.")
        yield from end_named(context, dead)


def _are_published(load: PeriodLoad, periods: Collection[str], nonce: str, began: int) -> Steps[bool]:
    """Check by the coordinator's records and clock that a load, or a later one, published all its periods."""
    sql = Sql(
        f"SELECT count() FROM (SELECT {newest('event, toUnixTimestamp(recorded_at), attempt')} AS found "
        f"FROM {table(load.context.ledger)} WHERE {load.key_on(load.context.coordinator).table_condition} "
        f"AND {one_of('period', sorted(periods))} GROUP BY period "
        f"HAVING found.1 = 'published' AND (found.2 > {began} OR startsWith({literal(nonce)}, found.3)))"
    )
    name = "Check whether its periods have been published since"
    ((count,),) = yield from load.context.on_coordinator(name=name, sql=sql)
    return bool(count == len(periods))
