"""Complete the publication of a dead attempt: its rows are staged, and all nodes have its intent or its publication.

Approved versions are published the same way, once their intent is recorded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from airflow_provider_chs3.core.ledger.object_records import recorded_objects
from airflow_provider_chs3.core.ledger.partition_state import NOTHING_BESIDE
from airflow_provider_chs3.core.ledger.period_comparison import evidence_of, held_by_node, intended_contents
from airflow_provider_chs3.core.ledger.recording import RecordOnNode, add_records
from airflow_provider_chs3.core.ledger.records import Held, PeriodOnNode
from airflow_provider_chs3.core.load.end_attempts import (
    check_not_superseded,
    clean_up,
    end_earlier_attempts,
    end_named,
    find_published_from,
    rename_staging,
    settle_with_rivals,
    take_over,
)
from airflow_provider_chs3.core.load.kept_versions import keep_versions, link_partitions
from airflow_provider_chs3.core.load.period_load import PeriodLoad, Periods, periods_of
from airflow_provider_chs3.core.load.publication import (
    PartitionStates,
    Staged,
    count_partitions,
    held_attempt,
    look_up_all,
    staged_of,
    values_of,
)
from airflow_provider_chs3.core.load.publish import publish
from airflow_provider_chs3.core.load.shared_table import find_superseded
from airflow_provider_chs3.core.load.staging_tables import Attempt, create_staging
from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.steps.operations import Gather, Log, Steps
from airflow_provider_chs3.exceptions import SupersededError, TargetChangedError, TransientError, VerificationError


def finish(periods: Periods) -> Steps[PartitionStates]:
    """Publish the staging of dead attempts, without another insert; return the states of the published periods."""
    states, attempts = PartitionStates(), defaultdict[str, list[Period]](list)
    for item in periods:
        attempts[item.facts(item.before).intended].append(item.period)
    for nonce, intended in attempts.items():
        tables = yield from find_published_from(periods.first.context, nonce)
        for name, of_table in tables.items():
            part = periods.subset([period for period in intended if str(period) in of_table])
            if part.items:
                states |= yield from _finish_table(name, nonce, part)
            periods.merge(part)
    return states


def _finish_table(name: str, nonce: str, periods: Periods) -> Steps[PartitionStates]:
    first = periods.first
    # A load that finds the period published ends all attempts with this prefix.
    began, all_periods = f"{nonce}{first.attempt.nonce}", tuple(periods.items)
    attempt = Attempt(first.context.target, all_periods, began, number=int(len(all_periods) > 1))
    load = replace(first, attempt=attempt)
    part = periods.subset(periods.items)
    try:
        yield from part.run_together(_take_over(name, nonce, part, attempt))
        for period, error in part.failed.items():
            yield from Log(
                name=f"{period}: attempt {nonce} died while it published it, and cannot be completed. {error}"
            )
            if load.request.is_approval and isinstance(error, SupersededError):
                periods.set_aside(period, error)
        part = part.subset(part.items)
        if part.items:
            yield from Log(name=f"Publishing what attempt {nonce} staged for {', '.join(map(str, part.items))}.")
        states = yield from publish(part)
        yield from find_superseded(load.context, part, attempt)
    except Exception:
        yield from clean_up(load)
        raise
    for period, error in part.failed.items():
        periods.set_aside(period, error)
    yield from clean_up(load, done=[attempt] if len(states) == len(periods.items) else ())
    return states


def _take_over(name: str, nonce: str, periods: Periods, attempt: Attempt) -> Steps[None]:
    """Take the table over, so that a running process no longer finds it, and check that it holds the intended rows."""
    context, staged = periods.first.context, frozenset(item.period_partitions.value for item in periods)
    yield from rename_staging(context, name, to=attempt)
    yield from end_named(context, [name])
    rivals = yield from settle_with_rivals(context, attempt, [period.attempt for period in periods])
    for item in periods:
        if item.attempt in rivals:
            periods.set_aside(item.period, TransientError("Another load of it has begun since."))
    periods.update(lambda item: replace(item, attempt=attempt, others_in_staging=staged))
    if not periods.items:
        return
    looks = (look_up_all(list(periods)), count_partitions(periods.first, name="Count what is staged"))
    states, partitions = yield from Gather(name="Look at what was being published", workflows=looks)
    current = dict(zip(periods.items, states, strict=True))
    periods.update(lambda item: _check_intended(item, nonce, current[item.period], staged_of(item, partitions)))
    yield from periods.run(lambda item: _check_objects(item, nonce))


def _check_intended(
    load: PeriodLoad, nonce: str, current: Mapping[Node, PeriodOnNode], staged: Mapping[Node, Staged]
) -> PeriodLoad:
    if load.facts(current).intended != nonce:
        raise TransientError("It was changed meanwhile.")
    records = {node: period.record for node, period in current.items() if period.record}
    finished = replace(load, before=current, last_seen=current, staged=staged, intended=records)
    for node, members in finished.members.items():
        for member in members:
            record = None if member.is_kept else member.was.record
            wanted = intended_contents(record) if record else NOTHING_BESIDE
            if wanted.rows != member.staged.rows or not wanted.has_parts_of(member.staged):
                raise TransientError(f"Staging on {node} does not hold the parts that were to be published.")
    return finished


def _check_objects(load: PeriodLoad, nonce: str) -> Steps[None]:
    for node, record in load.intended.items():
        ask = recorded_objects(load.context, [(load.period, record.base)], on=[node], intended=nonce)
        (objects,) = yield from ask
        if objects.fingerprint != record.fingerprint:
            raise TransientError(f"On {node}, the record of the objects of {load.period} is not complete.")


def with_held_policies(load: PeriodLoad) -> PeriodLoad:
    """Return an approval with the relevant policies of the load that holds the period."""
    held = next(iter(held_by_node(load.before).values()), None)
    if held is None or not load.request.is_approval:
        return load
    return replace(load, policies=replace(load.policies, keep_versions=held.keep_versions))


def approve(periods: Periods) -> Steps[None]:
    """Prepare held periods for `finish`: link their rows to a new table, and record the intent.

    Replicas number claims by the creation of the staging table, so the held table is too old.
    """
    yield from periods.run(_prepare_approval)
    before = yield from periods.ask(look_up_all)
    periods.update(lambda item: replace(item, before=before[item.period]))


def check_approved(load: PeriodLoad) -> None:
    """Fail if the load is an approval, because its period could not be published."""
    if load.request.is_approval:
        raise TransientError(
            f"{load.context.target} {load.period} was approved, but could not be published: the log says why. "
            "Its rows are no longer held: load it again."
        )


def not_held_error(load: PeriodLoad, reason: str) -> TargetChangedError:
    """Return the error of an approval without a publishable version."""
    return TargetChangedError(
        f"{load.context.target} {load.period} cannot be approved: {reason}. The approval changed nothing. Load "
        "the period: what its policies hold is held again."
    )


def _prepare_approval(load: PeriodLoad) -> Steps[None]:
    held = held_by_node(load.before)
    nonce = next(iter(held.values())).record.attempt
    source = held_attempt(load, nonce)
    yield from Log(name=f"Publishing {load.period}, which was {load.reason.partition('. ')[0]}.")
    # `finish` renames it, without the last letter: that prefix ends all of its attempts.
    approval = Attempt(load.context.target, (load.period,), f"{nonce}{load.attempt.nonce}a", of=nonce)
    yield from end_earlier_attempts(load.context, approval)
    try:
        yield from create_staging(load.context, approval)
        yield from take_over(load.context, approval)
        wanted = {node: _staged(of_node) for node, of_node in held.items()}
        staged = yield from link_partitions(load, source.staging(load.context), approval, wanted)
        if not all(wanted[node].has_parts_of(of_node) for node, of_node in staged.items()):
            raise VerificationError(
                f"The held rows of {load.period} are not those that were checked: somebody wrote to their "
                "table. The period was not published. Discard it, and load it again."
            )
        # Versions must be kept here: a later process may find nodes already replaced.
        yield from keep_versions(periods_of(replace(load, last_seen=load.before, staged=staged)))
        yield from _record_intent(load, approval, held)
    except Exception as error:
        try:
            for attempt in (approval, source):
                yield from check_not_superseded(load.context, attempt, error)
        finally:
            yield from clean_up(replace(load, attempt=approval))
        raise


def _staged(held: Held) -> Staged:
    by_partition = {record.partition_id: evidence_of(record).beside for record in held.records}
    return Staged({key: contents for key, contents in by_partition.items() if contents.rows})


def _record_intent(load: PeriodLoad, approval: Attempt, held: Mapping[Node, Held]) -> Steps[None]:
    """Record the intent, unless another approval of the same version did."""
    current = yield from load.look_up()
    facts, nonce = load.facts(current), approval.of
    if facts.intended == nonce:
        return
    if facts.held is None or facts.held.record.attempt != nonce:
        raise TargetChangedError(
            f"{load.context.target} {load.period} was changed, or published, just as it was approved: "
            f"{facts.why_not_held or facts.comparison.reason}. It was not published. Look at it, and load it again if "
            "need be."
        )
    records = list[RecordOnNode]()
    for node, of_node in held.items():
        for record in of_node.records:
            state, beside = current[node].at(record.partition_id).state, evidence_of(record).beside
            values = values_of(load, rows=record.rows, state=state, beside=beside, structure=record.structure)
            records.append((node, load.key_on(node, record.partition_id), values | record.of_attempt))
    yield from add_records(
        load.context,
        "intent",
        records,
        name=f"Record the intent to publish {load.period}",
        staging=approval.staging(load.context),
        query_id=f"{approval.name}_intent",
    )
