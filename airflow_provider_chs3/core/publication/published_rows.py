"""Check that published partitions hold what was staged, and that publishing them has undone nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_provider_chs3.core.attempt.load_context import LoadContext
from airflow_provider_chs3.core.attempt.period_load import PeriodLoad
from airflow_provider_chs3.core.ledger.partition_changes import (
    is_explained,
    is_made_of_staged,
    undone_mutation,
    without_old_patches,
)
from airflow_provider_chs3.core.ledger.partition_state import PartitionState
from airflow_provider_chs3.core.ledger.parts import NOTHING_BESIDE
from airflow_provider_chs3.core.ledger.records import PeriodOnNode
from airflow_provider_chs3.core.publication.members import Member
from airflow_provider_chs3.core.values.models import Node
from airflow_provider_chs3.exceptions import TargetChangedError, VerificationError


def check_published(
    each: PeriodLoad, members: Mapping[Node, Sequence[Member]], now: Mapping[Node, PeriodOnNode]
) -> None:
    """Check that the partitions of a period hold what was staged, and that publishing it has undone nothing.

    Args:
        each: The period.
        members: Its partitions before.
        now: The period right after.

    Raises:
        TargetChangedError: If somebody changed it at that moment.
        VerificationError: If it holds other rows.
    """
    load = each.load
    _check_same_table(load, now, members)
    for node, period in now.items():
        known = {one.partition_id for one in members[node]}
        others = (one.partition_id for one in period.partitions or () if one.partition_id not in known)
        nothing = PeriodOnNode(None, PartitionState())
        for one in (*members[node], *(Member(key, nothing, NOTHING_BESIDE, is_kept=False) for key in others)):
            is_now = period.at(one.partition_id)
            if one.is_kept:
                _check_kept(load, node, one, is_now)
            else:
                _check_rows(load, node, one, is_now)
                _check_none_undone(load, node, one, is_now)


def _check_same_table(
    load: LoadContext, periods: Mapping[Node, PeriodOnNode], members: Mapping[Node, Sequence[Member]]
) -> None:
    """Check that the target's name still means the table that was looked at: no ALTER takes the UUID of a table."""
    for node, period in periods.items():
        was = load.key_on(node).target_uuid
        if period.table_uuid == was:
            continue
        states = [(one, period.at(one.partition_id).state) for one in members[node]]
        is_hit = all(state.rows == one.rows and is_made_of_staged(one.staged, state) for one, state in states)
        raise TargetChangedError(
            f"{load.context.target} on {node} was replaced by another table (EXCHANGE, RENAME or DROP) just as "
            f"{load.request.period} was published: its UUID was {was}, and is {period.table_uuid or 'gone'}. "
            + (
                f"All rows that the new table had in {load.own} were replaced by the objects' "
                "rows: restore them if they are not of these objects."
                if is_hit
                else "The objects' rows went to the old table."
            )
            + " The period is not recorded as published. Swap tables only while no load runs."
        )


def _check_kept(load: LoadContext, node: Node, one: Member, now: PeriodOnNode) -> None:
    """Check that nobody changed a partition that stays as it was: it is recorded again, with its rows of now."""
    if not is_explained(one.was.state.evidence(), now.state, table_facts=load.context.table_facts):
        raise _changed(load, node, now)


def _changed(load: LoadContext, node: Node, now: PeriodOnNode) -> TargetChangedError:
    return TargetChangedError(
        f"{load.context.target} on {node}: somebody changed partition {now.shown} right after "
        f"{load.request.period} was published. It is not recorded as published. Find out who does; "
        "policies={'on_target_changed': 'reload'} loads it again."
    )


def _check_none_undone(load: LoadContext, node: Node, one: Member, now: PeriodOnNode) -> None:
    """Check that no DELETE or UPDATE came between the last look at a partition and its publication, which undid it."""
    if load.increment is None and load.request.policies.on_target_changed == "reload":
        return
    was = one.was.state
    if command := undone_mutation(now.state, after=was.last_mutation) if was.rows else "":
        raise TargetChangedError(
            f"{load.context.target} on {node}: somebody changed {load.request.period} just as it was "
            f"published, and that change was undone: {command}. It is not recorded as published. Load the period "
            "with policies={'on_target_changed': 'reload'}, and run that statement again afterwards."
        )


def _check_rows(load: LoadContext, node: Node, one: Member, now: PeriodOnNode) -> None:
    state, wanted = without_old_patches(now.state, one.was.state), one.staged.rows
    # Other engines merge rows away, and TTL drops them, at any moment: there, only more rows than staged are wrong.
    wrong = state.rows != wanted if load.context.table_facts.keeps_every_row else state.rows > wanted
    if wrong:
        of = f" in partition {now.shown}" if load.own.of_part else ""
        raise VerificationError(
            f"{load.context.target} on {node} holds {state.rows} rows of {load.request.period}{of} right after "
            f"publishing, but {wanted} were staged: somebody else writes to it. It is not recorded as published. Find "
            "out who does; policies={'on_target_changed': 'reload'} loads it again."
        )
    if not is_made_of_staged(one.staged, state):
        raise _changed(load, node, now)
