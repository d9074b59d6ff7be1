"""Verify published partitions, and remove replaced parts from the disks.

Replaced parts may reappear if a server dies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_provider_chs3.core.ledger.partition_changes import (
    is_explained,
    is_made_of_staged,
    undone_mutation,
    without_old_patches,
)
from airflow_provider_chs3.core.ledger.partition_state import NOTHING_BESIDE, Contents, PartitionState
from airflow_provider_chs3.core.ledger.period_comparison import as_recorded
from airflow_provider_chs3.core.ledger.queries import (
    Sources,
    look_up_beside,
    look_up_sources,
    query_sources,
    with_sources,
)
from airflow_provider_chs3.core.ledger.records import PeriodOnNode
from airflow_provider_chs3.core.load.publication import Member, P, Publication, Publications, periods_text
from airflow_provider_chs3.core.load.staging_tables import ddl_settings
from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.core.sql.quoting import Sql, arguments_of, identifier, in_table, literal, literals, table
from airflow_provider_chs3.core.steps.operations import Log, QueryNodes, Steps, TryQueryNodes
from airflow_provider_chs3.core.target.node_facts import Target
from airflow_provider_chs3.core.target.replication import follow
from airflow_provider_chs3.exceptions import TargetChangedError, VerificationError

#: No partition has this id: ids are decimal or hexadecimal numbers.
_NO_PARTITION = "chs3-none"
#: Above all block numbers.
_AFTER_ALL_BLOCKS = 2**63 - 1


def check_published(load: Publication, current: Mapping[Node, PeriodOnNode]) -> None:
    """Check that the partitions of a period hold the staged rows, and that publishing undid no changes."""
    _check_same_table(load, current)
    facts = load.context.table_facts
    for node, period in current.items():
        members = load.members[node]
        known = {member.partition_id for member in members}
        others = (
            partition.partition_id for partition in period.partitions or () if partition.partition_id not in known
        )
        nothing = PeriodOnNode(None, PartitionState())
        for member in (*members, *(Member(key, nothing, NOTHING_BESIDE, is_kept=False) for key in others)):
            is_now = period.at(member.partition_id)
            if not member.is_kept:
                _check_rows(load, node, member, is_now)
                _check_none_undone(load, node, member, is_now)
            # Its current rows are recorded.
            elif not is_explained(as_recorded(member.was).evidence(), is_now.state, table_facts=facts):
                raise _changed_error(load, node, is_now)


def _check_same_table(load: Publication, periods: Mapping[Node, PeriodOnNode]) -> None:
    """Check that the target is still the inspected table, by its UUID."""
    for node, period in periods.items():
        was = load.key_on(node).target_uuid
        if period.table_uuid == was:
            continue
        states = [(member, period.at(member.partition_id).state) for member in load.members[node]]
        is_hit = all(
            state.rows == member.rows and is_made_of_staged(member.staged, state, table_facts=load.context.table_facts)
            for member, state in states
        )
        raise TargetChangedError(
            f"{load.context.target} on {node} was replaced by another table (EXCHANGE, RENAME or DROP) just as "
            f"{load.period} was published: its UUID was {was}, and is {period.table_uuid or 'gone'}. "
            + (
                f"All rows that the new table had in {load.period_partitions} were replaced by the objects' "
                "rows: restore them if they are not of these objects."
                if is_hit
                else "The objects' rows went to the old table."
            )
            + " The period is not recorded as published. Swap tables only while no load runs."
        )


def _changed_error(load: Publication, node: Node, current: PeriodOnNode) -> TargetChangedError:
    return TargetChangedError(
        f"{load.context.target} on {node}: somebody changed partition {current.shown} right after "
        f"{load.period} was published. It is not recorded as published. Find out who does; "
        "policies={'on_target_changed': 'reload'} loads it again."
    )


def _check_none_undone(load: Publication, node: Node, member: Member, current: PeriodOnNode) -> None:
    """Check that publishing undid no DELETE or UPDATE since the last look."""
    if load.increment is None and load.policies.on_target_changed == "reload":
        return
    was = member.was.state
    if command := undone_mutation(current.state, after=was.last_mutation) if was.rows else "":
        raise TargetChangedError(
            f"{load.context.target} on {node}: somebody changed {load.period} just as it was "
            f"published, and that change was undone: {command}. It is not recorded as published. Load the period "
            "with policies={'on_target_changed': 'reload'}, and run that statement again afterwards."
        )


def _check_rows(load: Publication, node: Node, member: Member, current: PeriodOnNode) -> None:
    state, wanted = without_old_patches(current.state, member.was.state), member.staged.rows
    facts = load.context.table_facts
    # Other engines merge rows away, and TTL drops them, at any moment: then only more rows than staged are wrong, or
    # none if some must last.
    is_gone = not state.rows and (member.lasts or not facts.may_lose_all)
    wrong = state.rows != wanted and (facts.keeps_every_row or is_gone or state.rows > wanted)
    if wrong:
        of = f" in partition {current.shown}" if load.period_partitions.of_part else ""
        raise VerificationError(
            f"{load.context.target} on {node} holds {state.rows} rows of {load.period}{of} right after "
            f"publishing, but {wanted} were staged: somebody else writes to it. It is not recorded as published. Find "
            "out who does; policies={'on_target_changed': 'reload'} loads it again."
        )
    if not is_made_of_staged(member.staged, state, table_facts=facts):
        raise _changed_error(load, node, current)


def held_nodes(periods: Publications[P]) -> set[Node]:
    """Return the nodes that may have replaced parts on their disks; replicas know replaced parts from Keeper."""
    return {
        node
        for item in periods
        if not item.context.table_facts.is_replicated
        for node, members in item.members.items()
        for member in members
        # After an intent, parts may already have been replaced by nothing.
        if member.was.state.parts or (member.was.record and member.was.record.event == "intent")
    }


def remove_replaced(periods: Publications[P], held: set[Node]) -> Steps[Sources]:
    """Remove replaced parts from the disks, or wait for replicas; return the new parts.

    DETACH PARTITION removes them at once, even if merges are stopped (seen on 25.8 and 26.9), and with them the new
    parts that merges have joined already: nothing else shows that a merge is of these.
    """
    load = periods.first
    target = load.context.target
    yield from follow(load.context, target)
    if not held:
        return {}
    nodes = [node for node in load.context.nodes if node in held]
    conditions = {node: _new_parts(periods, node) for node in nodes}
    new_parts = yield from query_sources(
        {node: f"{in_table(target)} AND {newer}" for node, newer in conditions.items() if newer},
        name="Look at the new parts",
    )
    sql = Sql(f"ALTER TABLE {table(target)} DETACH PARTITION ID {literal(_NO_PARTITION)}")
    yield from QueryNodes(
        name="Remove the replaced parts",
        sql=dict.fromkeys(nodes, sql),
        settings=ddl_settings(load.context),
        query_id=f"{load.attempt.name}_remove",
    )
    return new_parts


def _new_parts(periods: Publications[P], node: Node) -> str:
    """Return the condition for parts that are newer than those that were replaced; empty if none was."""
    replaced = [member for item in periods for member in item.members[node] if not member.is_kept]
    keys = literals(member.partition_id for member in replaced)
    # Replicas number blocks from 0.
    last_blocks = ", ".join(str(member.was.state.max_block if member.was.state.parts else -1) for member in replaced)
    newer = f"transform(partition_id, [{keys}], CAST([{last_blocks}], 'Array(Int64)'), toInt64({_AFTER_ALL_BLOCKS}))"
    return f"min_block_number > {newer}" if replaced else ""


def look_at_published(
    period_loads: Sequence[P], *, held: set[Node], new_parts: Sources
) -> Steps[list[tuple[dict[Node, PeriodOnNode], set[str]]]]:
    """Look up replaced periods, with the partitions of the table that still have replaced parts on a disk."""
    load = period_loads[0]
    replaced = (
        f"(SELECT groupUniqArray(partition_id) FROM system.parts WHERE {in_table(load.context.target)} AND rows > 0 "
        "AND _state IN ('Outdated', 'Deleting'))"
    )
    states, beside = yield from look_up_beside(
        load.context,
        {item.period: item.period_partitions for item in period_loads},
        replaced if held else "",
        name=f"Look for replaced parts of {periods_text(period_loads)}",
        with_records=False,
    )
    left = {partition_id for node in held for partition_id in beside[node][0]}
    loads = {item.period: item for item in period_loads}
    states = yield from look_up_sources(
        load.context,
        with_sources(states, new_parts),
        lambda period, partition, node: _known_contents(loads[period], partition, node),
    )
    return [(states[item.period], left) for item in period_loads]


def _known_contents(period_load: Publication, partition: PeriodOnNode, node: Node) -> Contents:
    staged = period_load.staged[node].at(partition.partition_id)
    before = period_load.before[node].at(partition.partition_id).state.contents
    new = (part.content for part in partition.state.sources)
    return Contents(of_parts=(*(staged.of_parts or ()), *(before.of_parts or ()), *new))


#: Most partitions of a statement: more would slow down the server's analysis.
_MOST_TOGETHER = 60
#: Most partitions show a row at once. A partition that loses all rows is read whole, if time allows.
_LIMITS = "max_threads = 1, max_block_size = 1024, max_execution_time = 10, optimize_aggregation_in_order = 1"


def find_lasting(context: Target, partitions: Mapping[Node, Sequence[str]]) -> Steps[dict[Node, frozenset[str]]]:
    """Return the partitions of every node that certainly keep a row in merges.

    Nothing is certain if rows expire, or if a server does not answer: it lacks memory, time or the SELECT privilege.
    Then a missing partition counts as merged away.
    """
    lasting = dict[int, set[str]]()
    facts = context.table_facts
    if facts.may_lose_all and not facts.rows_expire:
        of_shards = {node: partitions[node] for node in context.publishers}
        for first in range(0, max(map(len, of_shards.values())), _MOST_TOGETHER):
            chunk = {node: several[first : first + _MOST_TOGETHER] for node, several in of_shards.items()}
            selects = {node: [_render_select(context, key) for key in keys] for node, keys in chunk.items() if keys}
            sql = {
                node: Sql(f"SELECT id, nothing FROM ({' UNION ALL '.join(of_node)}) SETTINGS {_LIMITS}")
                for node, of_node in selects.items()
            }
            answers = yield from TryQueryNodes(name="Look for what merges leave", sql=sql)
            for node, rows in answers.items():
                if isinstance(rows, list):
                    lasting.setdefault(node.shard_num, set()).update(key for key, _ in rows)
                else:
                    reason = f"the server did not say what merges leave of it: {rows}"
                    yield from Log(name=f"{context.target} on {node}: an emptied partition goes unnoticed, as {reason}")
    # Replicas of a shard have the same parts.
    return {node: frozenset(lasting.get(node.shard_num, ())) for node in context.nodes}


def _render_select(context: Target, partition_id: str) -> str:
    facts, of = context.table_facts, f"WHERE _partition_id = {literal(partition_id)}"
    if facts.engine.endswith("CollapsingMergeTree"):
        # The result for a key depends on the order of merges, unless all its rows have the same sign.
        sign = arguments_of(facts.engine_full)[-1]
        return (
            f"SELECT {literal(partition_id)} AS id, 0 AS nothing FROM {table(context.target)} {of} "
            f"GROUP BY {facts.sorting_key} HAVING min({sign}) = max({sign}) LIMIT 1"
        )
    # Sums must be read to show that they are zero.
    columns = ", ".join(identifier(column.name) for column in facts.stored)
    return (
        f"SELECT {literal(partition_id)} AS id, ignore({columns}) AS nothing "
        f"FROM {table(context.target)} FINAL {of} LIMIT 1"
    )
