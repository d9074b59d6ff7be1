"""Remove the staging of loads that are over, or dead."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from airflow_provider_chs3.core.ledger.records import PeriodOnNode, newest
from airflow_provider_chs3.core.load.end_attempts import (
    drop_staging,
    end_attempts,
    end_attempts_with,
    end_named,
    find_groups,
)
from airflow_provider_chs3.core.load.held import held_attempt
from airflow_provider_chs3.core.load.period_load import PeriodLoad
from airflow_provider_chs3.core.load.publication import Publication
from airflow_provider_chs3.core.load.staging_tables import Attempt
from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.sql.quoting import Sql, literal, one_of, table
from airflow_provider_chs3.core.steps.operations import Log, Steps
from airflow_provider_chs3.exceptions import Chs3Error


def clean_up(load: Publication, *, done: Sequence[Attempt] = ()) -> Steps[None]:
    """Remove the staging of an attempt; if that fails, the next load does it."""
    try:
        if done:
            yield from drop_staging(load.context, *done)
        else:
            yield from end_attempts_with(load.context, load.attempt.nonce)
    except Chs3Error as error:
        yield from Log(name=f"Staging of {load.periods} could not be removed; the next such load removes it. ({error})")


def clean_up_published(
    loads: Sequence[Publication], periods: Mapping[Period, Mapping[Node, PeriodOnNode]]
) -> Steps[None]:
    """Remove staging and held rows of attempts that published periods, in case they died right afterwards.

    Staging of other attempts stays, because a running one may know newer objects.
    """
    attempts = {
        attempt
        for load in loads
        for period in periods[load.period].values()
        if period.record
        for attempt in (replace(load.attempt, nonce=period.record.attempt), held_attempt(load, period.record.attempt))
    }
    if not attempts:
        return
    try:
        yield from end_attempts(loads[0].context, *sorted(attempts, key=lambda attempt: attempt.name))
    except Chs3Error as error:
        yield from Log(name=f"Staging of earlier loads could not be removed; the next load removes it. ({error})")


def drop_dead_groups(loads: Collection[PeriodLoad], own_attempts: Collection[tuple[Period, str]]) -> Steps[None]:
    """Drop the staging of other loads of several periods that nobody publishes from any more.

    These are earlier tries of this task, and loads with all periods published, by themselves or by later loads. Other
    loads may still run.
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
