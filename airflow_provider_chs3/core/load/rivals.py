"""Agree with concurrent attempts on which continues."""

from __future__ import annotations

from collections.abc import Collection

from airflow_provider_chs3.core.load.end_attempts import begins_with_any, end_named
from airflow_provider_chs3.core.load.staging_tables import (
    IS_STAGING,
    PERIODS_IN_COMMENT,
    Attempt,
    holds_any,
    in_staging,
    nonce_of,
    superseded_message,
)
from airflow_provider_chs3.core.sql.quoting import Sql, literal, literals
from airflow_provider_chs3.core.steps.operations import Steps
from airflow_provider_chs3.core.target.node_facts import TargetContext
from airflow_provider_chs3.exceptions import SupersededError


def take_over(context: TargetContext, attempt: Attempt) -> Steps[None]:
    """End attempts that created staging at the same time, or yield to them.

    The latest attempt wins, by the nonce in its name, so all agree whichever server answers. Attempts ask after
    creating their own staging, so at least the later of two sees the other. An attempt ends only earlier ones that it
    sees.

    Raises:
        SupersededError: If a newer attempt has taken over.
        TransientError: If queries do not end.
    """
    of_period = f"startsWith(name, {literal(attempt.prefix)})"
    query = (
        f"SELECT name, {of_period} FROM system.tables "
        f"WHERE {in_staging(context)} AND ({of_period} OR {holds_any([attempt])}) ORDER BY name DESC"
    )
    rows = yield from context.on_coordinator(name="Look for other attempts", sql=Sql(query))
    names = [name for name, is_of_period in rows if is_of_period]
    if not names or names[0] != attempt.name:
        raise SupersededError(superseded_message(attempt))
    # Loads of several periods yield to loads of a single period.
    if older := names[1:] + [name for name, is_of_period in rows if not is_of_period]:
        yield from end_named(context, older)


def settle_with_rivals(context: TargetContext, attempt: Attempt, periods: Collection[Attempt]) -> Steps[list[Attempt]]:
    """End earlier loads of several periods, and return the periods to leave to others.

    These are periods staged by a load of a single period, or being published by a later load of several, by nonce. Two
    loads that see each other agree on which ends the other.

    Raises:
        SupersededError: If the staging of the attempt is gone.
        TransientError: If queries of the others do not end.
    """
    prefixes = literals(period_attempt.prefix for period_attempt in periods)
    query = (
        f"SELECT name, {PERIODS_IN_COMMENT}, {begins_with_any(prefixes)} AS is_of_one, "
        f"{holds_any(periods)} AS is_of_several "
        f"FROM system.tables WHERE {in_staging(context)} AND {IS_STAGING}"
    )
    rows = yield from context.on_coordinator(name="Look for other attempts", sql=Sql(query))
    if attempt.name not in {name for name, *_ in rows}:
        raise SupersededError(superseded_message(attempt))
    others = [row for row in rows if nonce_of(row[0]) != attempt.nonce]
    older = [name for name, *_, is_of_several in others if is_of_several and nonce_of(name) < attempt.nonce]
    if older:
        yield from end_named(context, older)
    held = {
        period
        for name, of_table, *_, is_of_several in others
        if is_of_several and nonce_of(name) > attempt.nonce
        for period in of_table
    }
    alone = [name for name, *_, is_of_one, _ in others if is_of_one]
    return [
        period_attempt
        for period_attempt in periods
        if str(period_attempt.periods[0]) in held or any(name.startswith(period_attempt.prefix) for name in alone)
    ]
