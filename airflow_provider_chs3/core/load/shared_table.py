"""Publish several periods from a shared staging table, which gets their rows by hard links.

A later load of any of these periods drops that table. The other periods then get a new one, because their rows are
still in the table of the insert. A batch of a single period needs no second table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from airflow_provider_chs3.core.load.end_attempts import check_not_superseded, settle_with_rivals
from airflow_provider_chs3.core.load.increment_completion import begin_increments, complete_increments
from airflow_provider_chs3.core.load.period_load import PeriodLoad, Periods
from airflow_provider_chs3.core.load.publication import (
    PartitionStates,
    Staged,
    count_partitions,
    periods_text,
    staged_of,
)
from airflow_provider_chs3.core.load.publish import publish
from airflow_provider_chs3.core.load.staging_tables import Attempt, attach_partitions, create_staging, superseded
from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.steps.operations import Log, Steps
from airflow_provider_chs3.core.target.node_facts import Target
from airflow_provider_chs3.exceptions import Chs3Error, SupersededError, TransientError, VerificationError

#: How many tables other loads may end, before periods are loaded one by one.
_MOST_TABLES = 5


def publish_from_shared_table(load: PeriodLoad, periods: Periods, attempts: list[Attempt]) -> Steps[PartitionStates]:
    """Publish periods that are staged together."""
    states, waiting = PartitionStates(), periods.subset(periods.items)
    for number in range(1, _MOST_TABLES + 1):
        if not waiting.items:
            return states
        attempts.append(Attempt(load.context.target, tuple(waiting.items), load.attempt.nonce, number))
        part = waiting.subset(waiting.items)
        rivals = yield from part.run_together(_create_shared_staging(part, attempts[-1]))
        if rivals is not None:
            for item in part:
                if item.period in rivals:
                    part.set_aside(item.period, superseded(item.attempt))
            states |= yield from _publish_part(load, part, attempts[-1])
        periods.merge(part)
        lost = [
            period
            for period, error in part.failed.items()
            if isinstance(error, SupersededError) and period not in (rivals or ())
        ]
        if lost:
            yield from Log(name=f"Another load dropped the staging table of {len(lost)} periods: creating another one.")
        waiting = waiting.subset(lost)
    often = TransientError(f"Other loads interrupted the publication {_MOST_TABLES} times. Nothing more was published.")
    for item in waiting:
        periods.set_aside(item.period, often)
    return states


def _create_shared_staging(periods: Periods, attempt: Attempt) -> Steps[set[Period]]:
    """Create the table, and return the periods that others are loading."""
    attempts = {item.period: item.attempt for item in periods}
    context = periods.first.context
    yield from create_staging(context, attempt)
    held = yield from settle_with_rivals(context, attempt, attempts.values(), is_joint=periods.is_joint)
    return {period for period, period_attempt in attempts.items() if period_attempt in held}


def _publish_part(load: PeriodLoad, periods: Periods, attempt: Attempt) -> Steps[PartitionStates]:
    values = frozenset(period.period_partitions.value for period in periods)
    staged = {period.period: period.staged for period in periods}
    periods.update(lambda item: replace(item, attempt=attempt, others_in_staging=values))
    yield from begin_increments(periods)
    yield from periods.run_together(_fill_staging(load, periods, staged))
    yield from complete_increments(periods)
    states = yield from publish(periods)
    yield from find_superseded(load.context, periods, attempt)
    return states


def find_superseded(context: Target, periods: Periods, attempt: Attempt) -> Steps[None]:
    """Find out whether periods failed because another load ended the attempt, and set their error."""
    failed = [period for period, error in periods.failed.items() if not isinstance(error, SupersededError)]
    if not failed:
        return
    try:
        yield from check_not_superseded(context, attempt, periods.failed[failed[0]])
    except SupersededError as error:
        periods.failed |= dict.fromkeys(failed, error)
    except Chs3Error:
        # The first error is more informative.
        return


def _fill_staging(load: PeriodLoad, periods: Periods, staged: Mapping[Period, Mapping[Node, Staged]]) -> Steps[None]:
    """Attach the periods' partitions by hard links; beside published rows, they are verified at once, too."""

    def attach(items: Sequence[PeriodLoad]) -> Steps[Sequence[PeriodLoad]]:
        attempt, nodes = items[0].attempt, load.context.publishers
        yield from attach_partitions(
            load.context,
            load.staging,
            attempt.staging(load.context),
            ((node, key) for item in items for node in nodes for key in staged[item.period][node].partitions),
            name=f"Take the rows of {periods_text(items)} out of the group's",
            query_id=f"{attempt.name}_fill",
        )
        return items

    # A repeated ATTACH would double rows: staging is never reused.
    yield from periods.ask(attach, is_repeatable=False)
    added = periods.select(lambda item: item.increment is not None)
    if added.items:
        partitions = yield from count_partitions(added.first, name="Count what is staged")
        added.update(lambda item: _check_filled(item, staged[item.period], staged_of(item, partitions)))
        periods.merge(added)


def _check_filled(period_load: PeriodLoad, wanted: Mapping[Node, Staged], current: Mapping[Node, Staged]) -> PeriodLoad:
    """Check that the rows beside those attached first are the staged ones."""
    attached = {} if period_load.adds else period_load.staged
    for node, staged in current.items():
        was = attached.get(node, Staged({}))
        came = (staged.rows - was.rows, _count_parts(staged) - _count_parts(was))
        if came != (wanted[node].rows, _count_parts(wanted[node])) or None in _count_parts(wanted[node]):
            raise VerificationError(
                f"Staging {period_load.staging} on {node} got {came[0]} of the {wanted[node].rows} staged rows "
                f"of {period_load.period}, or other parts. The period was not published."
            )
    return replace(period_load, staged=current)


def _count_parts(staged: Staged) -> Counter[tuple[str, str] | None]:
    """Count the parts by partition; None if they are too many."""
    partitions = staged.partitions.items()
    return Counter(
        None if of.of_parts is None else (key, part) for key, of in partitions for part in of.of_parts or ("",)
    )
