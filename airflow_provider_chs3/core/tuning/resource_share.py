"""Compute the resource share of one load on each node."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from airflow_provider_chs3.core.arguments.declaration import field_of
from airflow_provider_chs3.core.arguments.load_arguments import PARALLEL_LOADS, MemoryShare
from airflow_provider_chs3.core.files.describe_files import DataVolume
from airflow_provider_chs3.core.model.models import NodeSpec
from airflow_provider_chs3.core.model.quantities import size_text
from airflow_provider_chs3.core.target.node_capacity import NodeNow

#: The `memory_share` with which loads have all memory of a node.
ISOLATED = 1.0

#: Minimum number of blocks per thread. With one, the other cores wait while the last block is sorted and written: that
#: took 1.25 times as long as the server's defaults; with two it takes the same time.
BLOCKS_OF_A_THREAD = 2

#: Lowest memory limit. Hardly any load fits into less, even with the smallest blocks: a lower share is only a target.
_LEAST_LIMIT_BYTES = 256 * 1024**2

#: Memory of an insert with the smallest blocks, measured: docs/benchmarks.md, "Memory". An insert of less data takes
#: three times the data: up to three copies of each block are in memory, as in the rule for the block size.
_SMALLEST_BLOCKS_BYTES = 165 * 10**6

#: Least fraction of its share that a load takes on a busy cluster: the queries that run at its start may end soon.
_LEAST_FRACTION = 0.25


@dataclass(frozen=True, kw_only=True)
class ShareOptions(MemoryShare):
    """The user's options for the resource share."""

    group = ""

    parallel_loads: int | None = field_of(PARALLEL_LOADS)


@dataclass(frozen=True, kw_only=True)
class ResourceShare:
    """The resources that one load is planned for on every node."""

    node_cores: int
    memory_bytes: int
    parallel_loads: int = 1
    is_isolated: bool = False
    notes: tuple[str, ...] = ()
    limit_bytes: int = 0

    @property
    def cores(self) -> int:
        """The load's cores, at least one."""
        return max(1, self.node_cores // self.parallel_loads)

    @property
    def rule_threads(self) -> int:
        """Insert threads by the guide's rule: half of the cores merge; together, parallel periods may use them all."""
        return max(1, self.node_cores // max(2, self.parallel_loads))


def smallest(specs: Iterable[NodeSpec]) -> NodeSpec:
    """Return the fewest cores and the least memory of all nodes, as settings are the same on every node."""
    every = list(specs)
    return NodeSpec(min(spec.cores for spec in every), min(spec.memory_bytes for spec in every))


def resource_share_of(
    spec: NodeSpec,
    share: ShareOptions,
    data: DataVolume,
    states: Collection[NodeNow] = (),
) -> ResourceShare:
    """Compute one load's resource share, for the smallest node."""
    notes = []
    periods = share.parallel_loads
    if periods is None:
        # By default a small period takes all cores, as if no other period loads at the same time.
        periods = _default_periods(spec, share, data)
        notes.append(f"parallel_loads={periods} (computed from the nodes and the data)")
    running = max((state.inserts for state in states), default=0)
    if running + 1 > periods:
        periods = running + 1
        notes.append(f"this load takes 1/{periods}, as other inserts are running ({running})")
    share_bytes = int(spec.memory_bytes * share.memory_share)
    memory_bytes = share_bytes // periods
    notes += _too_small(share_bytes, periods, data)
    busy = max((state.memory_in_use_bytes for state in states), default=0)
    free = max(spec.memory_bytes - busy, int(memory_bytes * _LEAST_FRACTION))
    if free < memory_bytes:
        memory_bytes = free
        notes.append(f"other queries use {size_text(busy)}, which leaves {size_text(free)}")
    return ResourceShare(
        node_cores=max(1, spec.cores),
        memory_bytes=memory_bytes,
        parallel_loads=periods,
        is_isolated=share.memory_share == ISOLATED,
        notes=tuple(notes),
        limit_bytes=_limit(share_bytes, states),
    )


def _too_small(share_bytes: int, periods: int, data: DataVolume) -> Iterator[str]:
    """Warn if so many periods would together exceed the share even with the smallest blocks."""
    needed = _SMALLEST_BLOCKS_BYTES
    if data.share_bytes is not None:
        needed = min(needed, 3 * data.share_bytes)
    if 0 < share_bytes < periods * needed:
        fitting = share_bytes // needed
        fewer = f"load {fitting} at a time (parallel_loads), or " if fitting else ""
        yield (
            f"such a load needs about {needed} bytes even with the smallest blocks, and {periods} at a time need more "
            f"than the {share_bytes} that loads may use: {fewer}allow loads more memory (memory_share, node_specs)"
        )


def _limit(share_bytes: int, states: Collection[NodeNow]) -> int:
    """Return the memory limit: the share of all loads together, unless the user's profile has a lower one."""
    profiles = [state.query_memory_bytes for state in states if state.query_memory_bytes]
    return min([max(share_bytes, _LEAST_LIMIT_BYTES), *profiles]) if share_bytes else 0


def _default_periods(spec: NodeSpec, share: ShareOptions, data: DataVolume) -> int:
    """Return how many periods keep all cores busy: one if a period is so small that all cores share it."""
    alone = ResourceShare(node_cores=max(1, spec.cores), memory_bytes=int(spec.memory_bytes * share.memory_share))
    return 1 if is_small(alone, data) else alone.node_cores // alone.rule_threads


def is_small(share: ResourceShare, data: DataVolume) -> bool:
    """Check whether a node's data are less than two of the guide's blocks for each thread: three fill the memory."""
    return data.share_bytes is not None and data.share_bytes < BLOCKS_OF_A_THREAD * share.memory_bytes // 3
