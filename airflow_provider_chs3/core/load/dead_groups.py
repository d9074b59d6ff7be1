"""Drop what loads of several months left that died."""

from __future__ import annotations

from collections.abc import Collection

from airflow_provider_chs3.core.attempt.load_context import LoadContext
from airflow_provider_chs3.core.attempt.resume import attempts_of
from airflow_provider_chs3.core.ledger.records import newest
from airflow_provider_chs3.core.sql.quoting import Sql, one_of, table
from airflow_provider_chs3.core.staging.ending import end_attempts_with, end_named, find_inserted
from airflow_provider_chs3.core.workflow.operations import Log, QueryNodes, Steps


def drop_dead_groups(loads: Collection[LoadContext]) -> Steps[None]:
    """Drop the tables into which loads of several months have inserted, where nobody publishes from them any more.

    These are those of earlier tries of this task, and those all of whose months are published since. Others may be of
    loads that run.

    Args:
        loads: The loads of these months; at least one.
    """
    load = next(iter(loads))
    request = load.request
    if request.owner and (known := (yield from attempts_of(load.context, [request.month], request.owner))):
        yield from end_attempts_with(load.context, *sorted({nonce for _, nonce in known}))
    if not load.context.nodes[load.context.coordinator].has_ledger:
        return
    found = yield from find_inserted(load.context, *(each.attempt for each in loads))
    dead = []
    for name, months, created in found:
        if (yield from _are_published_since(load, months, created)):
            dead.append(name)
    if dead:
        yield from Log(name=f"Dropping staging that dead loads left: {', '.join(dead)}.")
        yield from end_named(load.context, dead)


def _are_published_since(load: LoadContext, months: Collection[str], created: int) -> Steps[bool]:
    """Check by the coordinator's records, and its clock."""
    coordinator = load.context.coordinator
    sql = Sql(
        f"SELECT count() FROM (SELECT {newest('event, toUnixTimestamp(recorded_at)')} AS found "
        f"FROM {table(load.context.ledger)} WHERE {load.key_on(coordinator).table_condition} "
        f"AND {one_of('month', months)} GROUP BY month HAVING found.1 = 'published' AND found.2 > {created})"
    )
    ask = QueryNodes(name="Check whether its months have been published since", sql={coordinator: sql})
    return bool((yield from ask)[coordinator][0][0] == len(months))
