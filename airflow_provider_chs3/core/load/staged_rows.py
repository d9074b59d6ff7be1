"""Count staged rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from airflow_provider_chs3.core.ledger.parts import CONTENT, MOST_PARTS, Contents
from airflow_provider_chs3.core.load.publication import Publication, Staged
from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.core.sql.quoting import Sql, in_table
from airflow_provider_chs3.core.steps.operations import Steps
from airflow_provider_chs3.core.target.replication import follow

#: How `system.parts` writes NULL.
_NULL = "ᴺᵁᴸᴸ"


def count_staged(item: Publication, *, name: str) -> Steps[dict[Node, Staged]]:
    """Count the rows of each node's staging."""
    return staged_of(item, (yield from count_partitions(item, name=name)))


def staged_of(
    item: Publication,
    partitions: Mapping[Node, Mapping[str, StagedPartition]],
    *,
    known: Collection[str] | None = None,
) -> dict[Node, Staged]:
    """Return the period's part of each node's staging."""
    if known is None:
        known = item.others_in_staging | {item.period_partitions.value}
    return {node: _staged_of(item.period_partitions.value, known, on_node) for node, on_node in partitions.items()}


def _staged_of(period_value: str, known: Collection[str], partitions: Mapping[str, StagedPartition]) -> Staged:
    contents = {
        key: partition.contents
        for key, partition in partitions.items()
        if partition.period_value == period_value and partition.contents.rows
    }
    others = {
        partition.name: partition.contents.rows
        for partition in partitions.values()
        if partition.period_value not in known
    }
    return Staged(contents, others)


class StagedPartition(NamedTuple):
    """A partition of staging."""

    name: str
    period_value: str
    contents: Contents


def count_partitions(item: Publication, *, name: str) -> Steps[dict[Node, dict[str, StagedPartition]]]:
    """Count the rows of staging by node and partition id."""
    yield from follow(item.context, item.staging)
    answers = yield from item.context.on_each(name=name, sql=Sql(f"SELECT {partitions_query(item)}"))
    return {node: partitions_of(rows[0][0]) for node, rows in answers.items()}


def partitions_query(item: Publication) -> str:
    """Return a scalar subquery for the partitions of staging; `partitions_of` parses the answer."""
    staging, expression = item.staging, item.period_partitions.of_part or "partition_id"
    return (
        "(SELECT groupArray((partition_id, shown, own, total, contents)) FROM (SELECT partition_id, "
        f"any(partition) AS shown, any({expression}) AS own, sum(rows) AS total, "
        f"groupArrayIf({MOST_PARTS + 1})({CONTENT}, rows > 0) AS contents FROM system.parts WHERE active "
        f"AND {in_table(staging)} GROUP BY partition_id))"
    )


def partitions_of(answer: Iterable[tuple[str, str, str, int, Sequence[str]]]) -> dict[str, StagedPartition]:
    """Parse a node's answer to `partitions_query`."""
    return {
        partition_id: _partition_of(name, period_value, rows, parts)
        for partition_id, name, period_value, rows, parts in answer
    }


def _partition_of(name: str, period_value: str, rows: int, parts: Sequence[str]) -> StagedPartition:
    contents = Contents(rows, tuple(sorted(parts)) if len(parts) <= MOST_PARTS else None)
    return StagedPartition(name.replace(_NULL, "NULL"), period_value, contents)
