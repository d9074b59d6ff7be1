"""The current partition of a period on one node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias

from airflow_provider_chs3.core.ledger.mutations import Mutation
from airflow_provider_chs3.core.ledger.parts import MOST_PARTS, NOTHING_BESIDE, Contents, Evidence, Part
from airflow_provider_chs3.core.model.models import Node

Broken: TypeAlias = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The active parts of one period on one node."""

    rows: int = 0
    parts: int = 0
    size_bytes: int = 0
    min_block: int = 0
    max_block: int = 0
    data_version: int = 0
    each_part: tuple[Part, ...] | None = ()
    mutations: tuple[Mutation, ...] = ()
    partition_id: str = ""
    shown: str = ""
    broken: Broken = ()
    lasts: bool = False
    sources: tuple[Part, ...] = ()

    @classmethod
    def of(
        cls,
        partition_id: str,
        fields: Sequence[Any],
        mutations: tuple[Mutation, ...] = (),
        *,
        shown: str = "",
        broken: Broken = (),
    ) -> Self:
        """Parse a node's answer."""
        rows, count, size_bytes, min_block, max_block, data_version, parts = fields
        each_part = tuple(sorted(Part(*part) for part in parts)) if len(parts) <= MOST_PARTS else None
        numbers = (rows, count, size_bytes, min_block, max_block, data_version)
        return cls(*numbers, each_part, mutations, partition_id, shown, broken)

    def has_broken(self, part: Part) -> bool:
        """Check whether the server put a part aside that has the rows of another one."""
        return any(
            of == self.partition_id and first <= part.min_block and part.max_block <= last
            for of, first, last in self.broken
        )

    @property
    def contents(self) -> Contents:
        """The contents of its parts."""
        parts = self.each_part
        return Contents(self.rows, None if parts is None else tuple(part.content for part in parts))

    @property
    def last_mutation(self) -> int:
        """The highest number of a mutation whose blocks this partition counts; 0 without one."""
        return max((mutation.number for mutation in self.mutations if mutation.counts_in(self.partition_id)), default=0)

    def evidence(
        self, rows_of_shards: Mapping[int, int] | None = None, *, beside: Contents = NOTHING_BESIDE
    ) -> Evidence:
        """Return the evidence to record."""
        return Evidence(
            rows=self.rows,
            parts=self.each_part,
            rows_of_shards=rows_of_shards or {},
            beside=beside,
            last_mutation=self.last_mutation if rows_of_shards is None else 0,
            lasts=self.lasts,
        )


def total(states: Iterable[PartitionState], nothing: PartitionState) -> PartitionState:
    """Return the sums of a period's partitions."""
    filled = [state for state in states if state.parts]
    parts = [state.each_part for state in filled]
    return replace(
        nothing,
        rows=sum(state.rows for state in filled),
        parts=sum(state.parts for state in filled),
        size_bytes=sum(state.size_bytes for state in filled),
        min_block=min((state.min_block for state in filled), default=0),
        max_block=max((state.max_block for state in filled), default=0),
        data_version=max((state.data_version for state in filled), default=0),
        each_part=None if None in parts else tuple(part for of_partition in parts for part in of_partition or ()),
    )


def rows_of_shards(states: Mapping[Node, PartitionState]) -> dict[int, int]:
    """Return the rows of a period on each shard, by its number; a row counts once, however many replicas have it."""
    return {node.shard_num: state.rows for node, state in sorted(states.items(), reverse=True)}
