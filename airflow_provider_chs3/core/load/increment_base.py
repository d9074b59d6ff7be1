"""Check whether a published period is exactly as recorded, so that new rows may be added to it.

A load that finds its period unchanged writes nothing, and the next whole load heals any oversight. An increment would
build on it forever, so this check is stricter than `core.ledger.comparison`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

from airflow_provider_chs3.core.ledger.comparison import evidence_of, is_changed
from airflow_provider_chs3.core.ledger.mutations import wait_for
from airflow_provider_chs3.core.ledger.parts import Evidence, Part
from airflow_provider_chs3.core.ledger.records import PeriodOnNode, Record
from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.core.target.table_facts import TableFacts


def why_no_base(periods: Mapping[Node, PeriodOnNode], table_facts: TableFacts) -> str:
    """Return why new rows cannot be added to the published period; empty if they can."""
    problems = (
        (node, _why_changed(partition, table_facts))
        for node, period in periods.items()
        for partition in period.recorded
    )
    problem = next(((node, reason) for node, reason in problems if reason), None)
    if problem:
        return f"{problem[1]} (on {problem[0]})"
    if len({_identity(period.record) for period in periods.values() if period.record}) > 1:
        return "nodes have records of different loads"
    if table_facts.is_replicated and table_facts.keeps_every_row and _replicas_differ(periods):
        return "replicas have different rows of it"
    return ""


def _identity(record: Record) -> tuple[str, str, int, str]:
    return (record.attempt, record.base, record.increments, record.fingerprint)


def _why_changed(period: PeriodOnNode, table_facts: TableFacts) -> str:
    record, state = period.record, period.state
    if record is None or record.event != "published" or not record.base:
        return "it was not published by a load that recorded its objects"
    evidence = evidence_of(record)
    if evidence.parts is None or state.each_part is None:
        return "it has too many parts to compare one by one"
    if is_changed(period, table_facts=table_facts):
        return "it was changed since it was published"
    if wait_for(state.mutations, state.partition_id):
        return "a mutation of it is unfinished"
    if any(part.patches for part in state.each_part):
        return "lightweight updates of it are not yet merged into its parts"
    if any(part.hides_rows for part in state.each_part):
        return "rows of it are deleted, but no merge has removed them yet"
    if _misses_parts(evidence, state.each_part):
        return "parts of it are missing"
    return ""


def _misses_parts(evidence: Evidence, parts: Iterable[Part]) -> bool:
    """Check whether a recorded part is missing, and no part covers its blocks.

    If merges may remove all rows of a part, the comparison with the ledger permits its absence.
    """
    spans = sorted((part.min_block, part.max_block) for part in parts)
    overlaps = any(first[1] >= second[0] for first, second in pairwise(spans))
    return overlaps or not all(
        any(first <= part.min_block and part.max_block <= last for first, last in spans)
        for part in evidence.parts or ()
    )


def _replicas_differ(periods: Mapping[Node, PeriodOnNode]) -> bool:
    shards = {node.shard_num for node in periods}
    return len({(node.shard_num, period.state.rows) for node, period in periods.items()}) > len(shards)
