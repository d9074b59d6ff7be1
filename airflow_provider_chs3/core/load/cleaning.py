"""Remove a load's staging once it is over."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from airflow_provider_chs3.core.attempt.load_context import LoadContext
from airflow_provider_chs3.core.ledger.records import MonthOnNode
from airflow_provider_chs3.core.staging.ending import drop_staging, end_attempt, end_attempts_with
from airflow_provider_chs3.core.staging.tables import Attempt
from airflow_provider_chs3.core.values.models import Node
from airflow_provider_chs3.core.workflow.operations import Log, Steps
from airflow_provider_chs3.exceptions import Chs3Error


def clean_up(load: LoadContext, *, is_done: bool = False) -> Steps[None]:
    """Remove the staging of an attempt; if that fails, the next load does it.

    Args:
        load: The load.
        is_done: Whether the load went well; else what still runs of it is ended first.
    """
    end = drop_staging if is_done else end_attempt
    try:
        yield from end(load.context, load.attempt)
    except Chs3Error as error:
        yield from Log(
            name=f"Staging {load.staging} could not be removed; the next load of this month will remove it. ({error})"
        )


def clean_up_all(load: LoadContext, *, done: Collection[Attempt] = ()) -> Steps[None]:
    """Remove the staging of several months that were loaded together; if that fails, the next load does it.

    Args:
        load: The load of them.
        done: Its attempts, if all months went well; else what still runs of them is ended first.
    """
    try:
        if done:
            yield from drop_staging(load.context, *done)
        else:
            yield from end_attempts_with(load.context, load.request.nonce)
    except Chs3Error as error:
        yield from Log(name=f"Staging of {load.months} could not be removed; the next load will remove it. ({error})")


def clean_up_published(load: LoadContext, before: Mapping[Node, MonthOnNode]) -> Steps[None]:
    """Remove the staging of the attempt that published, in case it died right afterwards.

    Staging of other attempts stays: one that is running knows newer objects.

    Args:
        load: The load that finds the month published.
        before: The month on each node.
    """
    for nonce in sorted({month.record.attempt for month in before.values() if month.record}):
        yield from clean_up(replace(load, request=replace(load.request, nonce=nonce)))
