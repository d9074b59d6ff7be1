"""Remove the staging of loads that are over, or dead."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from airflow_provider_chs3.core.ledger.records import PeriodOnNode, newest
from airflow_provider_chs3.core.load.held import held_attempt
from airflow_provider_chs3.core.load.load_context import LoadContext
from airflow_provider_chs3.core.load.staging_cleanup import (
    drop_staging,
    end_attempts,
    end_attempts_with,
    end_named,
    find_groups,
)
from airflow_provider_chs3.core.load.staging_tables import Attempt
from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.sql.quoting import Sql, literal, one_of, table
from airflow_provider_chs3.core.steps.operations import Log, Steps
from airflow_provider_chs3.exceptions import Chs3Error


def clean_up(load: LoadContext, *, done: Sequence[Attempt] = ()) -> Steps[None]:
    """Remove what an attempt has staged; if that fails, the next load does it."""
    try:
        if done:
            yield from drop_staging(load.context, *done)
        else:
            yield from end_attempts_with(load.context, load.request.nonce)
    except Chs3Error as error:
        yield from Log(
            name=f"Staging of {load.periods} could not be removed; the next load of it will remove it. ({error})"
        )


def clean_up_published(
    loads: Sequence[LoadContext], periods: Mapping[Period, Mapping[Node, PeriodOnNode]]
) -> Steps[None]:
    """Remove the staging of the attempts that published periods, and what was held, in case they died right afterwards.

    Staging of other attempts stays: one that is running knows newer objects.
    """
    attempts = {
        attempt
        for load in loads
        for period in periods[load.request.period].values()
        if period.record
        for attempt in (replace(load.attempt, nonce=period.record.attempt), held_attempt(load, period.record.attempt))
    }
    if not attempts:
        return
    try:
        yield from end_attempts(loads[0].context, *sorted(attempts, key=lambda attempt: attempt.name))
    except Chs3Error as error:
        yield from Log(name=f"Staging of earlier loads could not be removed; the next load will remove it. ({error})")


def drop_dead_groups(loads: Collection[LoadContext], own_attempts: Collection[tuple[Period, str]]) -> Steps[None]:
    """Drop the staging of other loads of several periods, where nobody publishes from it any more.

    These are earlier tries of this task, and loads all of whose periods were published, by them or since. Others may
    run.
    """
    load = next(iter(loads))
    if own_attempts:
        yield from end_attempts_with(load.context, *sorted({nonce for _, nonce in own_attempts}))
    if not load.context.nodes[load.context.coordinator].has_ledger:
        return
    groups = yield from find_groups(load.context, *(load.attempt for load in loads))
    dead = []
    for nonce, group in groups.items():
        if (yield from _are_published(load, group.periods, nonce, group.began)):
            dead += sorted(group.names)
    if dead:
        yield from Log(name=f"Dropping staging that dead loads left: {', '.join(dead)}.")
        yield from end_named(load.context, dead)


def _are_published(load: LoadContext, periods: Collection[str], nonce: str, began: int) -> Steps[bool]:
    """Check that each period was published by a load, or since it began, by the coordinator's records and its clock."""
    sql = Sql(
        f"SELECT count() FROM (SELECT {newest('event, toUnixTimestamp(recorded_at), attempt')} AS found "
        f"FROM {table(load.context.ledger)} WHERE {load.key_on(load.context.coordinator).table_condition} "
        f"AND {one_of('period', sorted(periods))} GROUP BY period "
        f"HAVING found.1 = 'published' AND (found.2 > {began} OR startsWith({literal(nonce)}, found.3)))"
    )
    name = "Check whether its periods have been published since"
    ((count,),) = yield from load.context.on_coordinator(name=name, sql=sql)
    return bool(count == len(periods))
