"""The partitions of a publication, and whether it replaces or keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from airflow_provider_chs3.core.ledger.comparison import evidence_of
from airflow_provider_chs3.core.ledger.parts import Contents
from airflow_provider_chs3.core.ledger.records import PeriodOnNode
from airflow_provider_chs3.core.load.publication import Publication, Staged
from airflow_provider_chs3.core.model.models import Node


class Member(NamedTuple):
    """A partition of a period on one node."""

    partition_id: str
    was: PeriodOnNode
    staged: Contents
    is_kept: bool
    lasts: bool = False

    @property
    def rows(self) -> int:
        """The rows after the publication."""
        return self.was.state.rows if self.is_kept else self.staged.rows


def members_on(item: Publication, was: PeriodOnNode, staged: Staged) -> list[Member]:
    """Return the partitions that a period has, had, or may have again after a crash, on a node."""
    if was.partitions is None:
        ids = [item.period_partitions.value]
    else:
        ids = sorted(
            {*staged.partitions, *(partition.partition_id for partition in was.partitions if _may_hold_rows(partition))}
        )
    return [_make_member(item, key, was.at(key), staged.at(key)) for key in ids or [""]]


def members_of(
    item: Publication, was: Mapping[Node, PeriodOnNode], staged: Mapping[Node, Staged]
) -> dict[Node, list[Member]]:
    """Return the partitions of a period on every node; see `members_on`."""
    return {node: members_on(item, was[node], staged[node]) for node in item.context.nodes}


def _may_hold_rows(partition: PeriodOnNode) -> bool:
    evidence = partition.record and evidence_of(partition.record)
    return bool(partition.state.rows or (evidence and (evidence.rows or evidence.beside.rows)))


def _make_member(load: Publication, partition_id: str, was: PeriodOnNode, staged: Contents) -> Member:
    return Member(partition_id, was, staged, is_kept=not staged.rows and _is_kept(load, partition_id, was))


def _is_kept(load: Publication, partition_id: str, was: PeriodOnNode) -> bool:
    """Check whether a partition without staged rows stays as it is, rather than lose its rows."""
    if not load.period_partitions.of_part:
        return False
    if not partition_id or (load.increment and not load.increment.attaches_first):
        return True
    record = was.record if load.intended else None
    if record is None or not record.rows:
        return False
    # It is already published, or the intent keeps it: it names the partition's rows, and no staged ones.
    return record.event == "published" or not evidence_of(record).beside.rows
