"""Complete what a dead attempt was publishing: its rows are staged, and all nodes have its intent, or are published."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from airflow_provider_chs3.core.attempt.load_context import LoadContext, SharedStaging, look_up_all
from airflow_provider_chs3.core.attempt.period_load import PeriodLoad, Periods, Staged
from airflow_provider_chs3.core.insertion.staged_rows import count_partitions, staged_of
from airflow_provider_chs3.core.ledger.comparison import intended_contents
from airflow_provider_chs3.core.ledger.partition_state import PartitionState
from airflow_provider_chs3.core.ledger.parts import NOTHING_BESIDE
from airflow_provider_chs3.core.ledger.records import PeriodOnNode, Record
from airflow_provider_chs3.core.load.cleaning import clean_up
from airflow_provider_chs3.core.object_history.records import recorded_objects
from airflow_provider_chs3.core.publication.members import members_on
from airflow_provider_chs3.core.publication.publish import publish
from airflow_provider_chs3.core.publication.shared_table import find_superseded
from airflow_provider_chs3.core.staging.ending import end_named, find_published_from, rename_staging
from airflow_provider_chs3.core.staging.rivals import settle_with_rivals
from airflow_provider_chs3.core.staging.tables import Attempt
from airflow_provider_chs3.core.values.models import Node
from airflow_provider_chs3.core.values.period import Period
from airflow_provider_chs3.core.workflow.operations import Gather, Log, Steps
from airflow_provider_chs3.exceptions import TransientError


def finish(periods: Periods) -> Steps[dict[Period, dict[Node, PartitionState]]]:
    """Publish what dead attempts had staged, without another insert.

    Args:
        periods: The periods that `core.ledger.comparison.intended` names such an attempt of. Those leave that `publish`
            refuses.

    Returns:
        The partition of each on each node. The others are to be loaded.
    """
    states, attempts = dict[Period, dict[Node, PartitionState]](), defaultdict[str, list[Period]](list)
    for each in periods:
        attempts[each.load.facts(each.before).intended].append(each.period)
    for nonce, some in attempts.items():
        tables = yield from find_published_from(periods.first.load.context, nonce)
        for name, of_table in tables.items():
            own = periods.those([period for period in some if str(period) in of_table])
            if own.items:
                states |= yield from _finish_from(name, nonce, own)
            for period, error in own.failed.items():
                periods.leave(period, error)
    return states


def _finish_from(name: str, nonce: str, periods: Periods) -> Steps[dict[Period, dict[Node, PartitionState]]]:
    first = periods.first.load
    # Who finds the period published ends all attempts whose names begin like this one's.
    request = replace(first.request, nonce=f"{nonce}{first.request.nonce}")
    own = Attempt(first.context.target, tuple(periods.items), request.nonce, number=int(len(periods.items) > 1))
    shared = SharedStaging(own, frozenset(each.load.own.value for each in periods), is_finished=True)
    load = replace(first, request=request, shared=shared)
    part = periods.those(periods.items)
    try:
        yield from part.together(_take_over(name, nonce, part, shared))
        for period, error in part.failed.items():
            yield from Log(
                name=f"{period}: attempt {nonce} died while it published it, and cannot be completed. {error}"
            )
        part = part.those(part.items)
        if part.items:
            yield from Log(name=f"Publishing what attempt {nonce} staged for {', '.join(map(str, part.items))}.")
        states = (yield from publish(part)) if part.items else {}
        yield from find_superseded(load.context, part, own)
    except Exception:
        yield from clean_up(load)
        raise
    for period, error in part.failed.items():
        periods.leave(period, error)
    yield from clean_up(load, done=[own] if len(states) == len(periods.items) else ())
    return states


def _take_over(name: str, nonce: str, periods: Periods, shared: SharedStaging) -> Steps[None]:
    """Take the table over, and check that all is as intended. Other periods leave.

    If the process of the attempt is not dead, it does not find its table any more.
    """
    context, own = periods.first.load.context, shared.attempt
    yield from rename_staging(context, name, to=own)
    yield from end_named(context, [name])
    rivals = yield from settle_with_rivals(context, own, [each.load.attempt for each in periods])
    periods.each(lambda each: _check_alone(each.load, rivals))
    periods.update(lambda each: each.of(replace(each.load, shared=shared)))
    loads = [each.load for each in periods]
    if not loads:
        return
    looks = (look_up_all(loads), count_partitions(loads[0], name="Count what is staged"))
    found, partitions = yield from Gather(name="Look at what was being published", workflows=looks)
    now = dict(zip(periods.items, found, strict=True))
    periods.update(lambda each: _as_intended(each, nonce, now[each.period], staged_of(each.load, partitions)))
    yield from periods.run(lambda each: _check_objects(each.load, nonce, each.intended))


def _check_alone(load: LoadContext, rivals: list[Attempt]) -> None:
    if load.attempt in rivals:
        raise TransientError("Another load of it has begun since.")


def _as_intended(
    each: PeriodLoad, nonce: str, now: Mapping[Node, PeriodOnNode], staged: Mapping[Node, Staged]
) -> PeriodLoad:
    if each.load.facts(now).intended != nonce:
        raise TransientError("It was changed meanwhile.")
    records = {node: period.record for node, period in now.items() if period.record}
    for node, period in now.items():
        for one in members_on(each, period, staged[node]):
            wanted = intended_contents(one.was.record) if one.was.record and not one.is_kept else NOTHING_BESIDE
            if wanted.rows != one.staged.rows or not wanted.has_parts_of(one.staged):
                raise TransientError(f"Staging on {node} does not hold the parts that were to be published.")
    return replace(each, before=now, staged=staged, intended=records)


def _check_objects(load: LoadContext, nonce: str, records: Mapping[Node, Record]) -> Steps[None]:
    for node, record in records.items():
        ask = recorded_objects(load.context.ledger, node, [(load.key_on(node), record.base)], intended=nonce)
        (objects,) = yield from ask
        if objects.fingerprint != record.fingerprint:
            raise TransientError(f"The record of its objects on {node} is not complete.")
