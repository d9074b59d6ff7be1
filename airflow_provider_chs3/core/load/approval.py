"""Publish what is held of a period: link it to a new table, state the intent, and complete that as of a dead attempt.

Replicas number claims by the creation of the table that is published from, so the one that is held is too old.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from airflow_provider_chs3.core.attempt.load_context import LoadContext, look_up_all, values_of
from airflow_provider_chs3.core.attempt.period_load import PeriodLoad, Periods, Staged, periods_of
from airflow_provider_chs3.core.ledger.comparison import evidence_of
from airflow_provider_chs3.core.ledger.parts import Contents
from airflow_provider_chs3.core.ledger.recording import OnNodes, add_records
from airflow_provider_chs3.core.ledger.records import Held, PeriodOnNode
from airflow_provider_chs3.core.load.cleaning import clean_up
from airflow_provider_chs3.core.publication.held import held_attempt, link, of_attempt
from airflow_provider_chs3.core.publication.members import members_of
from airflow_provider_chs3.core.publication.versions import keep_versions
from airflow_provider_chs3.core.staging.ending import end_earlier_attempts, is_staging_there
from airflow_provider_chs3.core.staging.rivals import take_over
from airflow_provider_chs3.core.staging.tables import Attempt, create_staging
from airflow_provider_chs3.core.values.models import Node
from airflow_provider_chs3.core.workflow.operations import Log, QueryNodes, Steps
from airflow_provider_chs3.exceptions import TargetChangedError, TransientError, VerificationError


def approve(periods: Periods) -> Steps[None]:
    """Prepare the publication of what is held of periods, for `core.load.finish`.

    Args:
        periods: The periods. They get what is known about them once the intent is recorded; those leave that somebody
            else loads or changes meanwhile.
    """
    yield from periods.run(_intend)
    loads = [each.load for each in periods]
    if loads:
        found = yield from look_up_all(loads)
        before = dict(zip(periods.items, found, strict=True))
        periods.update(lambda each: replace(each, before=before[each.period]))


def check_approved(load: LoadContext) -> None:
    """Check that no period was to be approved that could not be published.

    Args:
        load: The load of a period to load.

    Raises:
        TransientError: If it was.
    """
    if load.request.is_approval:
        raise TransientError(
            f"{load.context.target} {load.request.period} was approved, but could not be published: the log says why. "
            "Nothing is held of it any more: load it again."
        )


def not_held(load: LoadContext, why: str) -> TargetChangedError:
    """Return the error of a period to approve, if nothing that may be published is held of it.

    Args:
        load: The load of the period.
        why: Why that is so.
    """
    return TargetChangedError(
        f"{load.context.target} {load.request.period} cannot be approved: {why}. The table is unchanged. Load the "
        "period: what fails its checks then is held again."
    )


def _intend(each: PeriodLoad) -> Steps[None]:
    load, held = each.load, _on_nodes(each.before)
    nonce = next(iter(held.values())).record.attempt
    source = held_attempt(load, nonce)
    if not (yield from is_staging_there(load.context, source.name)):
        raise not_held(load, f"table {source.name}, which held it, is gone. Discard it, so that it is loaded again")
    yield from Log(name=f"Publishing {load.request.period}, which was {each.reason.partition('. ')[0]}.")
    # `core.load.finish` renames it to that name without the last letter, by which all of its attempts are ended.
    own = Attempt(load.context.target, (load.request.period,), f"{nonce}{load.request.nonce}a", of=nonce)
    yield from end_earlier_attempts(load.context, own)
    try:
        yield from create_staging(load.context, own, without_merges=True)
        yield from take_over(load.context, own)
        wanted = {node: _staged(of_node) for node, of_node in held.items()}
        staged = yield from link(load, source.staging(load.context), own, wanted)
        if not all(wanted[node].has_parts_of(of_node) for node, of_node in staged.items()):
            raise VerificationError(
                f"What is held of {load.request.period} is not what was checked: somebody wrote to its table. The "
                "period was not published. Discard it, and load it again."
            )
        # Who completes the publication cannot: it may find some nodes replaced.
        yield from keep_versions(periods_of(each), {each.period: members_of(each, each.before, staged)})
        yield from _record_intent(load, own, held)
    except Exception:
        yield from clean_up(replace(load, request=replace(load.request, nonce=own.nonce)))
        raise


def _on_nodes(periods: Mapping[Node, PeriodOnNode]) -> dict[Node, Held]:
    return {node: period.held for node, period in periods.items() if period.held}


def _staged(held: Held) -> Staged:
    contents = {each.partition_id: evidence_of(each).beside for each in held.records}
    return Staged({key: each for key, each in contents.items() if each.rows})


def _record_intent(load: LoadContext, own: Attempt, held: Mapping[Node, Held]) -> Steps[None]:
    """Record the intent, unless another approval of the same version has done so."""
    now = yield from load.look_up()
    facts, nonce = load.facts(now), own.of
    if facts.intended == nonce:
        return
    if facts.held is None or facts.held.record.attempt != nonce:
        raise TargetChangedError(
            f"{load.context.target} {load.request.period} was changed, or published, just as it was approved: "
            f"{facts.why_not_held or facts.found.why}. It was not published. Look at it, and load it again if need be."
        )
    staging = of_attempt(load, own).staging
    records = list[OnNodes]()
    for node, of_node in held.items():
        for each in of_node.records:
            state, beside = now[node].at(each.partition_id).state, evidence_of(each).beside
            values = values_of(load, rows=each.rows, state=state, beside=beside or Contents(), structure=each.structure)
            of_held = {name: getattr(each, name) for name in ("attempt", "base", "increments")}
            records.append({node: (load.key_on(node, each.partition_id), values | of_held)})
    is_replicated = load.context.table_facts.is_replicated
    yield from QueryNodes(
        name=f"Record the intent to publish {load.request.period}",
        sql=add_records(load.context, "intent", records, staging=staging, is_replicated=is_replicated),
        query_id=f"{own.name}_intent",
    )
