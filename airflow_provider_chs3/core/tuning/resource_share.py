"""How much of each node one load may use."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from airflow_provider_chs3.core.cluster.node_capacity import NodeNow
from airflow_provider_chs3.core.files.data_volume import DataVolume
from airflow_provider_chs3.core.values.arguments import SHARED
from airflow_provider_chs3.core.values.models import NodeSpec
from airflow_provider_chs3.exceptions import ConfigurationError

#: What a load takes that is.
ISOLATED = 1.0

#: A thread has at least so many blocks: with one, the last is sorted and written while the other cores wait, which was
#: measured to take 1.25 times as long as with the server's defaults; with two it takes the same.
BLOCKS_OF_A_THREAD = 2

#: Below this hardly a load comes to its end, however small its blocks: such a share is only aimed at.
_LEAST_LIMIT_BYTES = 256 * 1024**2

#: What an insert takes with the smallest blocks, measured: docs/benchmarks.md, "Memory". Of little data it takes three
#: times that: blocks are there up to three times, as in the rule for their size.
_SMALLEST_BLOCKS_BYTES = 165 * 10**6

#: A load goes on while a cluster is full: what runs at its start may soon be over.
_LEAST_FRACTION = 0.25


@dataclass(frozen=True, kw_only=True)
class ShareOptions:
    """What a user lets loads have.

    Args:
        memory_share: The part of each node's memory for loads, all of them together; 1 where nothing else runs there.
        parallel_months: How many months load at the same time; None goes by the nodes and the data.

    Raises:
        ConfigurationError: If one of them is out of its range.
    """

    memory_share: float = SHARED
    parallel_months: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.memory_share <= ISOLATED:
            raise ConfigurationError(f"memory_share={self.memory_share!r} must be above 0 and at most 1.")
        if self.parallel_months is not None and self.parallel_months < 1:
            raise ConfigurationError(f"parallel_months={self.parallel_months!r} must be at least 1.")


@dataclass(frozen=True, kw_only=True)
class ResourceShare:
    """What one load may use on every node.

    Args:
        node_cores: Cores of the smallest node.
        memory_bytes: Memory for this load; 0 is not known.
        parallel_months: How many loads share the node.
        is_isolated: Whether loads have all memory.
        notes: How it came about, in words.
        limit_bytes: What its insert must not exceed on a node; 0 sets no limit.
    """

    node_cores: int
    memory_bytes: int
    parallel_months: int = 1
    is_isolated: bool = False
    notes: tuple[str, ...] = ()
    limit_bytes: int = 0

    @property
    def cores(self) -> int:
        """This load's cores, at least one."""
        return max(1, self.node_cores // self.parallel_months)

    @property
    def remarks(self) -> str:
        """The notes, as they go on after a line about the slice."""
        return "".join(f"; {note}" for note in self.notes)

    @property
    def rule_threads(self) -> int:
        """Insert threads by the guide's rule: half of the cores, as the other half merges.

        Months side by side may together use all: where one merges, another inserts.
        """
        return max(1, self.node_cores // max(2, self.parallel_months))


def smallest(specs: Iterable[NodeSpec]) -> NodeSpec:
    """The fewest cores and the least memory of all nodes: settings are the same on every node."""
    every = list(specs)
    return NodeSpec(min(spec.cores for spec in every), min(spec.memory_bytes for spec in every))


def resource_share_of(
    spec: NodeSpec,
    share: ShareOptions,
    data: DataVolume,
    now: Collection[NodeNow] = (),
    *,
    calibrated_months: int | None = None,
) -> ResourceShare:
    """One load's slice of the smallest node.

    Args:
        spec: The smallest node.
        share: What the user lets loads have.
        data: The month's data.
        now: What runs on the nodes at the start; it makes the slice smaller, never larger.
        calibrated_months: How many months side by side a calibration found to be the fastest: for large months, where
            the user gives no number. None goes by the nodes and the data.
    """
    notes = []
    months = share.parallel_months
    if months is None:
        months = by_rule = _default_months(spec, share, data)
        # A small month is alone by default, and takes all cores: nobody said that others load beside it.
        if calibrated_months and by_rule > 1:
            months = calibrated_months
        why = "by the nodes and the data" if months == by_rule else "as calibrated"
        notes.append(f"parallel_months={months} {why}")
    running = max((each.inserts for each in now), default=0)
    if running + 1 > months:
        months = running + 1
        notes.append(f"beside other inserts ({running}) this one takes 1/{months}")
    share_bytes = int(spec.memory_bytes * share.memory_share)
    memory_bytes = share_bytes // months
    notes += _too_small(share_bytes, months, data)
    busy = max((each.memory_in_use_bytes for each in now), default=0)
    free = max(spec.memory_bytes - busy, int(memory_bytes * _LEAST_FRACTION))
    if free < memory_bytes:
        memory_bytes = free
        notes.append(f"other queries hold {busy} bytes, so that {free} are left")
    return ResourceShare(
        node_cores=max(1, spec.cores),
        memory_bytes=memory_bytes,
        parallel_months=months,
        is_isolated=share.memory_share == ISOLATED,
        notes=tuple(notes),
        limit_bytes=_limit(share_bytes, now),
    )


def _too_small(share_bytes: int, months: int, data: DataVolume) -> Iterator[str]:
    """Smaller blocks help no more: so many months would together take more than the share."""
    needed = _SMALLEST_BLOCKS_BYTES
    if data.share_bytes is not None:
        needed = min(needed, 3 * data.share_bytes)
    if 0 < share_bytes < months * needed:
        fitting = share_bytes // needed
        fewer = f"load {fitting} at a time (parallel_months), or " if fitting else ""
        yield (
            f"such a load takes about {needed} bytes however small its blocks are, {months} at a time more than the "
            f"{share_bytes} that loads may have: {fewer}give them more memory (memory_share, node_specs)"
        )


def _limit(share_bytes: int, now: Collection[NodeNow]) -> int:
    """All loads' share: a load that needs more than its slice may have it, but no load more than all of them.

    A lower limit of the user's profile stays; a higher one may be refused.
    """
    profiles = [each.query_memory_bytes for each in now if each.query_memory_bytes]
    return min([max(share_bytes, _LEAST_LIMIT_BYTES), *profiles]) if share_bytes else 0


def _default_months(spec: NodeSpec, share: ShareOptions, data: DataVolume) -> int:
    """Enough months to keep all cores busy: one, where a month is so small that all cores share it."""
    alone = ResourceShare(node_cores=max(1, spec.cores), memory_bytes=int(spec.memory_bytes * share.memory_share))
    return 1 if is_small(alone, data) else alone.node_cores // alone.rule_threads


def is_small(one: ResourceShare, data: DataVolume) -> bool:
    """Whether a node's share of the data is less than two of the guide's blocks for each thread.

    Three such blocks of each thread fill the memory.
    """
    return data.share_bytes is not None and data.share_bytes < BLOCKS_OF_A_THREAD * one.memory_bytes // 3
