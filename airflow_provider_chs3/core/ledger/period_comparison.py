"""Compare a period's records and partition with what is expected."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from airflow_provider_chs3.core.ledger.partition_changes import (
    fit_rows,
    is_explained,
    is_left_by_crash,
    keeps_recorded_parts,
    may_have_lost,
    missing_parts,
    spare_gone_columns,
    undone_mutation,
)
from airflow_provider_chs3.core.ledger.partition_state import Contents, Evidence, PartitionState
from airflow_provider_chs3.core.ledger.recording import Structure, difference
from airflow_provider_chs3.core.ledger.records import Held, PeriodOnNode, Record, restored_of
from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.core.target.table_facts import TableFacts


class ComparisonStatus(Enum):
    """The result of comparing a period."""

    UNCHANGED = "as published"
    NEW = "never loaded"
    OBJECTS_CHANGED = "its objects changed since it was published"
    DEFINITION_CHANGED = "its definition changed since it was published"
    UNFINISHED = "an earlier load did not finish, or a node does not have it"
    FEWER_NODES = "an earlier load wrote it to more nodes than this one"
    MORE_NODES = "it was published on fewer nodes than the cluster has now"
    LEDGER_LOST = "a node has lost its records of it"
    ROWS_UNKNOWN = "the partition holds rows that no load wrote"
    TARGET_CHANGED = "the partition was changed since it was published"
    RESTORED = "an earlier version of it was restored"
    PINNED = "pinned since a version of it was restored"


class Comparison(NamedTuple):
    """The result of comparing a period, with its nodes."""

    status: ComparisonStatus
    nodes: tuple[Node, ...]
    reason: str


_BROKEN = "parts of it were broken when a server started, as after a power cut"
#: Mutations that a text names.
_MOST_SHOWN = 3
AS_RESTORED = (ComparisonStatus.UNCHANGED, ComparisonStatus.RESTORED)
_AS_PUBLISHED = Comparison(ComparisonStatus.UNCHANGED, (), ComparisonStatus.UNCHANGED.value)


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpectedPeriod:
    """The values that a period is compared with."""

    #: Fingerprint of the current objects; None does not compare them.
    fingerprint: str | None = None
    #: Digest of the load's definition; None compares neither it nor the structure.
    definition: str | None = None
    #: The structure of `core.ledger.recording.structure_of`; None if not known.
    structure: Structure | None = None
    contents: str = "objects"


def compare(periods: Mapping[Node, PeriodOnNode], wanted: ExpectedPeriod, table_facts: TableFacts) -> Comparison:
    """Compare a period with what is expected, unless it is pinned: then loads leave it, whatever is expected."""
    comparison, restored = compare_unpinned(periods, wanted, table_facts), restored_of(periods)
    if not (restored and restored.is_pinned):
        return comparison
    changed = f", but {comparison.reason}" if comparison.status not in AS_RESTORED else ""
    return Comparison(ComparisonStatus.PINNED, comparison.nodes, f"{restored}{changed}")


def compare_unpinned(
    periods: Mapping[Node, PeriodOnNode], wanted: ExpectedPeriod, table_facts: TableFacts
) -> Comparison:
    """Compare a period with what is expected.

    A period counts as published only if the newest record of every node says so, of one attempt, if all nodes that it
    was spread over are there, and if its partition is unchanged since.
    """
    here, lost = count_shards(periods, table_facts), _nodes_without_history(periods, table_facts)
    unknown = tuple(node for node, period in periods.items() if node not in lost and _unknown(period))
    if unknown:
        return _found(ComparisonStatus.ROWS_UNKNOWN, unknown, _unknown_partitions(periods[unknown[0]]))
    if changed := tuple(node for node, period in periods.items() if is_changed(period, table_facts=table_facts)):
        return _changed({node: periods[node] for node in changed}, table_facts)
    if bereft := tuple(node for node in lost if _has_other_rows(node, periods, table_facts)):
        return _found(ComparisonStatus.TARGET_CHANGED, bereft, "its records are lost there, and so are rows of it")
    if lost := tuple(node for node in lost if periods[node].state.rows):
        return _found(ComparisonStatus.LEDGER_LOST, lost)
    if all(period.record is None for period in periods.values()):
        return _found(ComparisonStatus.NEW, tuple(periods))
    if away := tuple(node for node, period in periods.items() if period.record and period.record.nodes > here):
        return _found(ComparisonStatus.FEWER_NODES, away)
    published = {
        node: period.record for node, period in periods.items() if period.record and period.record.event == "published"
    }
    if len(published) < len(periods) or len({record.attempt for record in published.values()}) > 1:
        return _found(ComparisonStatus.UNFINISHED, tuple(node for node in periods if node not in published))
    return _compared(published, here, wanted)


def intended(periods: Mapping[Node, PeriodOnNode], wanted: ExpectedPeriod, table_facts: TableFacts) -> str:
    """Return the attempt that was publishing what is expected when it died; empty if there is none.

    Each node must have its intent or its publication, and its partition must be as before, as after, or what a crash
    leaves of both.
    """
    records = {node: period.record for node, period in periods.items() if period.record}
    attempts = {record.attempt for record in records.values()}
    is_over = all(record.event == "published" for record in records.values())
    if is_over or len(records) < len(periods) or len(attempts) != 1:
        return ""
    if any(_unknown(period) or is_changed(period, table_facts=table_facts) for period in periods.values()):
        return ""
    return attempts.pop() if _compared(records, count_shards(periods, table_facts), wanted) is _AS_PUBLISHED else ""


def held_version(
    periods: Mapping[Node, PeriodOnNode], wanted: ExpectedPeriod, table_facts: TableFacts
) -> tuple[Held | None, str]:
    """Return the version that is held of what is expected, or why there is none that may be published.

    It may be published only over what it was checked with: on each node, the partitions are as they were then.
    """
    held = held_on(periods)
    if held and (lacking := [str(node) for node in periods if node not in held]):
        return None, f"its held rows are not on {', '.join(lacking)}, which may have been down when they were held"
    if not held or len({version.record.attempt for version in held.values()}) != 1:
        return None, "it has no held rows"
    records = {node: version.record for node, version in held.items()}
    comparison = _compared(records, count_shards(periods, table_facts), wanted)
    if comparison is not _AS_PUBLISHED:
        return None, comparison.reason.replace("it was published", "it was held")
    if changed := _difference(records, wanted.structure):
        return None, f"the table changed since it was held: {changed}"
    if any(version.is_of(periods[node].record) for node, version in held.items()):
        # A reload left it: nobody decides about a period that is as published.
        current = compare_unpinned(periods, wanted, table_facts)
        if current.status is ComparisonStatus.UNCHANGED:
            return None, current.reason
    for node, version in held.items():
        # An arrival is loaded again, beside what others brought since.
        if not (version.arrival or _is_base(version, periods[node], table_facts)):
            return None, f"the table's rows of it on {node} were changed since it was held"
    return next(iter(held.values())), ""


def held_by_node(periods: Mapping[Node, PeriodOnNode]) -> dict[Node, Held]:
    """Return the version that is held on each node that has one."""
    return {node: period.held for node, period in periods.items() if period.held}


def held_on(periods: Mapping[Node, PeriodOnNode]) -> dict[Node, Held]:
    """Return the version that is held on each node; none once all have the intent to publish it."""
    held = held_by_node(periods)
    attempts = {node: version.record.attempt for node, version in held.items()}
    is_approved = all(period.record and period.record.attempt == attempts.get(node) for node, period in periods.items())
    return {} if is_approved else held


def _is_base(held: Held, period: PeriodOnNode, table_facts: TableFacts) -> bool:
    claims = {record.partition_id: record for record in held.records}
    if any(partition.state.rows and partition.partition_id not in claims for partition in period.each):
        return False
    states = {key: spare_gone_columns(period.at(key).state, table_facts) for key in claims}
    return all(_is_as_recorded(claim, evidence_of(claim), states[key], table_facts) for key, claim in claims.items())


def was_published(periods: Mapping[Node, PeriodOnNode]) -> bool:
    """Check whether a load published the period, whatever happened to it since; not if it died at the first."""
    records = [period.record for period in periods.values() if period.record]
    intents = [record for record in records if record.event == "intent"]
    # An intent records the rows before it; and an increment adds to published rows.
    return any(intent.increments or evidence_of(intent).rows for intent in intents) if intents else bool(records)


def _unknown(period: PeriodOnNode) -> list[PeriodOnNode]:
    """Return the partitions with rows that no load wrote."""
    return [partition for partition in period.each if partition.record is None and partition.state.rows]


def _unknown_partitions(period: PeriodOnNode) -> str:
    """Return which of several partitions hold rows that no load wrote, as a text; empty if these are all."""
    unknown = sorted(partition.state.shown for partition in _unknown(period))
    return "" if period.record is None else ", ".join(unknown[:_MOST_SHOWN])


def intended_contents(record: Record) -> Contents:
    """Return what an attempt had staged of a partition on a node, by its intent or its publication."""
    evidence = evidence_of(record)
    if record.event == "intent":
        return evidence.beside
    parts = evidence.parts
    return Contents(evidence.rows, None if parts is None else tuple(part.content for part in parts))


def count_shards(nodes: Iterable[Node], table_facts: TableFacts) -> int:
    """Return the number of nodes that a period is spread over; replicas of a shard count as one."""
    return len({node.shard_num for node in nodes} if table_facts.is_replicated else list(nodes))


def _compared(published: Mapping[Node, Record], here: int, wanted: ExpectedPeriod) -> Comparison:
    nodes = tuple(published)
    if any(record.nodes != here for record in published.values()):
        return _found(ComparisonStatus.MORE_NODES, nodes)
    if wanted.fingerprint is not None and any(record.restored for record in published.values()):
        return _found(ComparisonStatus.RESTORED, nodes)
    if wanted.definition is not None:
        if any(record.definition != wanted.definition for record in published.values()):
            return _found(ComparisonStatus.DEFINITION_CHANGED, nodes)
        if what := _difference(published, wanted.structure):
            return _found(ComparisonStatus.DEFINITION_CHANGED, nodes, what)
    if wanted.fingerprint is not None and {record.fingerprint for record in published.values()} - {wanted.fingerprint}:
        changed = ComparisonStatus.OBJECTS_CHANGED
        return Comparison(changed, nodes, changed.value.replace("objects", wanted.contents))
    return _AS_PUBLISHED


def _difference(published: Mapping[Node, Record], structure: Structure | None) -> str:
    if structure is None:
        return ""
    texts = {(record.structure, node.shard_num) for node, record in published.items() if record.structure}
    differences = (difference(json.loads(text), structure, shard_num=shard_num) for text, shard_num in sorted(texts))
    return next(filter(None, differences), "")


def _found(status: ComparisonStatus, nodes: tuple[Node, ...], what: str = "") -> Comparison:
    return Comparison(status, nodes, f"{status.value}: {what}" if what else status.value)


def _nodes_without_history(periods: Mapping[Node, PeriodOnNode], table_facts: TableFacts) -> tuple[Node, ...]:
    """Return the nodes that lost their records, if all others say that a load put the period on every node.

    A node without any row of the table, of any period, is a new one and has lost nothing.
    """
    lost = [node for node, period in periods.items() if period.record is None and not period.has_history]
    tell = [
        period.record is not None
        and period.record.event == "published"
        and period.record.nodes == count_shards(periods, table_facts)
        for node, period in periods.items()
        if node not in lost
    ]
    holding = (node for node in lost if periods[node].has_rows or periods[node].state.rows)
    return tuple(holding) if tell and all(tell) else ()


def _has_other_rows(node: Node, periods: Mapping[Node, PeriodOnNode], table_facts: TableFacts) -> bool:
    """Check whether a node without records has other rows than the other nodes' records have for its shard."""
    told = {period.record.attempt: evidence_of(period.record) for period in periods.values() if period.record}
    evidence = next(iter(told.values())) if len(told) == 1 else None
    if evidence is None or node.shard_num not in evidence.rows_of_shards:
        return False
    rows, published = periods[node].state.rows, evidence.rows_of_shards[node.shard_num]
    if table_facts.keeps_every_row:
        return rows != published
    return rows > published or (published > 0 and not rows and not table_facts.may_lose_all)


def evidence_of(record: Record) -> Evidence:
    """Return the recorded evidence of the partition."""
    return Evidence.of_text(record.evidence)


def as_recorded(period: PeriodOnNode) -> PartitionState:
    """Return a partition that is as recorded but for merges: if rows of it lasted then, they do now."""
    return replace(period.state, lasts=period.record is not None and evidence_of(period.record).lasts)


def is_changed(period: PeriodOnNode, *, table_facts: TableFacts) -> bool:
    """Check whether somebody else changed partitions of a period since their newest records.

    After an intent, the partition is either unchanged, or what the dead attempt put there.
    """
    return any(_is_changed(partition, table_facts) for partition in period.each)


def _is_changed(period: PeriodOnNode, table_facts: TableFacts) -> bool:
    record, state = period.record, period.state
    if record is None:
        return False
    if _undone(period):
        return True
    evidence = evidence_of(record)
    if _is_as_recorded(record, evidence, state, table_facts):
        return False
    return record.event == "published" or not is_left_by_crash(evidence, state, table_facts=table_facts)


def holds_recorded(period: PeriodOnNode, table_facts: TableFacts) -> bool:
    """Check whether changed partitions still hold parts of their newest records: no load has replaced them since."""
    return all(
        partition.record
        and (
            not _is_changed(partition, table_facts)
            or keeps_recorded_parts(evidence_of(partition.record), partition.state, table_facts=table_facts)
        )
        for partition in period.recorded
    )


def _changed(periods: Mapping[Node, PeriodOnNode], table_facts: TableFacts) -> Comparison:
    nodes = tuple(periods)
    if all(_is_broken(period, table_facts) for period in periods.values()):
        return Comparison(ComparisonStatus.UNFINISHED, nodes, _BROKEN)
    return _found(ComparisonStatus.TARGET_CHANGED, nodes, _describe_change(periods[nodes[0]], table_facts))


def _is_broken(period: PeriodOnNode, table_facts: TableFacts) -> bool:
    """Check by their block numbers whether a changed period lacks only parts that its server put aside as broken."""
    changed = [(partition.record, partition.state) for partition in period.each if _is_changed(partition, table_facts)]
    missing = [
        (state, missing_parts(evidence_of(record), state))
        for record, state in changed
        if record and record.event == "published"
    ]
    return len(missing) == len(changed) and all(parts and all(map(state.has_broken, parts)) for state, parts in missing)


def _undone(period: PeriodOnNode) -> str:
    """Return which mutation the load of an intent has undone, as a text; empty if none."""
    record = period.record
    if record is None or record.event != "intent" or not (evidence := evidence_of(record)).rows:
        return ""
    command = undone_mutation(period.state, after=evidence.last_mutation)
    return f"{command} ran just as a load replaced it, and was undone" if command else ""


def is_elsewhere(period: PeriodOnNode) -> bool:
    """Check whether a period of one partition was published as another than the table's key makes now."""
    was, is_now = period.record.partition_id if period.record else "", period.state.partition_id
    return bool(was and is_now) and was != is_now


def _describe_change(period: PeriodOnNode, table_facts: TableFacts) -> str:
    """Return what may have changed a period since it was published, as a text; empty if nothing is known."""
    if period.partitions:
        changed = next(partition for partition in period.partitions if _is_changed(partition, table_facts))
        return ": ".join(filter(None, (changed.state.shown, _describe_change(changed, table_facts))))
    record, state = period.record, spare_gone_columns(period.state, table_facts)
    if record is None or record.event != "published":
        return _undone(period)
    if is_elsewhere(period):
        return f"it was partition {record.partition_id}, and the table's key makes {state.partition_id} now"
    after = max(record.max_block, record.data_version)
    commands = [
        mutation.shown
        for mutation in state.mutations
        if mutation.number > after and mutation.concerns(state.partition_id)
    ]
    return f"ALTER TABLE … {', '.join(commands[:_MOST_SHOWN])}" if commands else ""


def _is_as_recorded(record: Record, evidence: Evidence, state: PartitionState, table_facts: TableFacts) -> bool:
    if evidence.parts is None or state.each_part is None:
        may_lose_all = may_have_lost(evidence, state, table_facts)
        return _has_blocks_of(record, state, may_lose_all=may_lose_all) and fit_rows(evidence, state, table_facts)
    return is_explained(evidence, spare_gone_columns(state, table_facts), table_facts=table_facts)


def _has_blocks_of(record: Record, state: PartitionState, *, may_lose_all: bool) -> bool:
    # Replicas number blocks from 0, which an adopted period may have.
    was_empty = not record.max_block and not (record.event == "published" and record.rows)
    if not state.parts or was_empty:
        return not state.parts and (may_lose_all or was_empty)
    if state.max_block > record.max_block or state.data_version > max(record.max_block, record.data_version):
        return False
    # New parts have higher numbers. Lower ones come from the covering part without rows, once it is merged.
    return may_lose_all or (state.min_block <= record.min_block and state.max_block == record.max_block)
