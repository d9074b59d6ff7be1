"""Remove a load's staging once it is over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from airflow_provider_chs3.core.attempt.load_context import LoadContext
from airflow_provider_chs3.core.ledger.records import PeriodOnNode
from airflow_provider_chs3.core.staging.ending import drop_staging, end_attempts, end_attempts_with
from airflow_provider_chs3.core.staging.tables import Attempt
from airflow_provider_chs3.core.values.models import Node
from airflow_provider_chs3.core.values.period import Period
from airflow_provider_chs3.core.workflow.operations import Log, Steps
from airflow_provider_chs3.exceptions import Chs3Error


def clean_up(load: LoadContext, *, done: Sequence[Attempt] = ()) -> Steps[None]:
    """Remove what an attempt has staged; if that fails, the next load does it.

    Args:
        load: The load.
        done: The attempts that name its staging, if all went well; else what still runs of it is ended first.
    """
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
    """Remove the staging of the attempts that published periods, in case they died right afterwards.

    Staging of other attempts stays: one that is running knows newer objects.

    Args:
        loads: The loads that find their period published; at least one.
        periods: Each period on each node.
    """
    attempts = {
        replace(load.attempt, nonce=found.record.attempt)
        for load in loads
        for found in periods[load.request.period].values()
        if found.record
    }
    if not attempts:
        return
    try:
        yield from end_attempts(loads[0].context, *sorted(attempts, key=lambda each: each.name))
    except Chs3Error as error:
        yield from Log(name=f"Staging of earlier loads could not be removed; the next load will remove it. ({error})")
