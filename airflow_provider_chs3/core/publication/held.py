"""Keep what is staged of a period instead of publishing it, until a person decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from airflow_provider_chs3.core.attempt.decision import PeriodFacts
from airflow_provider_chs3.core.attempt.load_context import LoadContext, SharedStaging
from airflow_provider_chs3.core.attempt.period_load import PeriodLoad, Staged
from airflow_provider_chs3.core.cluster.node_facts import TargetContext
from airflow_provider_chs3.core.insertion.staged_rows import count_staged
from airflow_provider_chs3.core.staging.ending import drop_held, end_named, is_staging_there
from airflow_provider_chs3.core.staging.partitions import attach_partitions
from airflow_provider_chs3.core.staging.tables import Attempt, create_staging
from airflow_provider_chs3.core.values.models import Node, TableName
from airflow_provider_chs3.core.values.period import Period
from airflow_provider_chs3.core.workflow.operations import Log, Steps
from airflow_provider_chs3.exceptions import Chs3Error, VerificationError


def keep_held(each: PeriodLoad) -> Steps[dict[Node, Staged]]:
    """Link what is staged of a period to a table that later loads leave alone, and return what that holds.

    Args:
        each: The period.

    Raises:
        VerificationError: If it does not hold what was staged.
    """
    load = each.load
    own = held_attempt(load, load.request.nonce)
    # An earlier process of the same attempt may have died here.
    yield from end_named(load.context, [own.name])
    yield from create_staging(load.context, own, without_merges=True)
    return (yield from link(each.load, load.staging, own, each.staged))


def link(load: LoadContext, source: TableName, to: Attempt, wanted: Mapping[Node, Staged]) -> Steps[dict[Node, Staged]]:
    """Attach partitions of one table to another, which is hard links, and return what that holds then.

    Args:
        load: The load of the period.
        source: The table.
        to: The attempt that names the other one, which is new: a repeated ATTACH would double rows.
        wanted: What must be there afterwards, on one replica of each shard or on all.

    Raises:
        VerificationError: If it does not hold that.
    """
    target, of_shards = to.staging(load.context), {node.shard_num: node for node in sorted(wanted, reverse=True)}
    yield from attach_partitions(
        load.context,
        source,
        target,
        ((node, key) for node in of_shards.values() for key in wanted[node].partitions),
        name=f"Take the rows of {load.request.period} out of {source}",
        # It begins as those of the load's attempt do: who ends it ends these statements.
        query_id=f"{load.attempt.name if to.hold_limit_days else to.name}_link",
    )
    now = yield from count_staged(of_attempt(load, to), name=f"Count what {target} holds")
    for node, each in wanted.items():
        if now[node].counts != (each.counts[0], {}):
            raise VerificationError(
                f"{target} on {node} got {now[node].rows} of the {each.rows} rows of {load.request.period} that "
                f"{source} held: somebody drops parts of these tables. The period was not published."
            )
    return now


def of_attempt(load: LoadContext, attempt: Attempt) -> LoadContext:
    """Return a load of one period with the staging of an attempt."""
    return replace(load, shared=SharedStaging(attempt, frozenset([load.own.value])))


def held_attempt(load: LoadContext, nonce: str) -> Attempt:
    """Return the attempt that names the table with what an attempt has left to a person's decision.

    Args:
        load: The load of the period.
        nonce: That attempt.
    """
    days = load.request.policies.hold_limit_days
    return Attempt(load.context.target, (load.request.period,), nonce, hold_limit_days=days)


def without_lost(context: TargetContext, period: Period, facts: PeriodFacts) -> Steps[PeriodFacts]:
    """Return what is known about a period: nothing is held of it if the table that held it is gone from a node.

    Args:
        context: The nodes.
        period: The period.
        facts: What is known by its records. Servers are asked only if these name a version that is held.
    """
    if facts.held is None:
        return facts
    name = Attempt(context.target, (period,), facts.held.record.attempt, hold_limit_days=1).name
    if (yield from is_staging_there(context, name)):
        return facts
    return replace(facts, held=None, why_not_held=f"table {name}, which held it, is gone")


def drop_held_of(load: LoadContext, *, but: str = "") -> Steps[None]:
    """Drop what is held of a period, as it was replaced; if that fails, cleaning does it.

    Args:
        load: The load of the period.
        but: The attempt whose version stays. Empty, the default, for none.
    """
    try:
        yield from drop_held(load.context, held_attempt(load, but))
    except Chs3Error as error:
        yield from Log(name=f"What was held of {load.request.period} could not be dropped; cleaning does it. ({error})")
