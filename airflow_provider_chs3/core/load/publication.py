"""A period that an attempt publishes: its partitions, what is staged of them, and the values of its records."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TypeAlias, TypeVar

from airflow_provider_chs3.core.arguments.check_arguments import Check, CheckResult
from airflow_provider_chs3.core.ledger.partition_state import (
    CONTENT,
    MOST_PARTS,
    NOTHING_BESIDE,
    Contents,
    PartitionState,
)
from airflow_provider_chs3.core.ledger.period_comparison import count_shards, evidence_of
from airflow_provider_chs3.core.ledger.queries import look_up_beside
from airflow_provider_chs3.core.ledger.recording import Value, as_text, loaded_of, structure_of
from airflow_provider_chs3.core.ledger.records import PeriodOnNode, Record
from airflow_provider_chs3.core.ledger.table import LedgerKey
from airflow_provider_chs3.core.load.load_request import Policies
from airflow_provider_chs3.core.load.staging_tables import Attempt
from airflow_provider_chs3.core.model.models import Manifest, Node, TableName, Unit
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.sql.quoting import Sql, in_table
from airflow_provider_chs3.core.steps.driving import Batch
from airflow_provider_chs3.core.steps.operations import Log, Steps
from airflow_provider_chs3.core.target.node_facts import Target
from airflow_provider_chs3.core.target.period_partitions import PeriodPartitions
from airflow_provider_chs3.core.target.replication import follow
from airflow_provider_chs3.exceptions import ObjectsChangedError, ReplicasBehindError

#: A replica that came back lacks parts of a few minutes at worst, and fetches them as they are.
CATCH_UP_SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class Increment:
    """The part of a period that is new since it was published, loaded alone."""

    #: The attempt that loaded the whole period.
    base: str
    number: int
    #: Whether published rows are attached before the new ones are inserted, rather than after.
    attaches_first: bool
    #: All objects of the period, published and new.
    period: Manifest
    removed: tuple[str, ...] = ()
    #: Published rows in staging by `node_key`, without removed ones; None before they are attached.
    attached_rows: Mapping[str, int] | None = None

    def attached_on(self, node: Node) -> int:
        """Return the number of published rows in staging on a node."""
        return (self.attached_rows or {}).get(node_key(node), 0)


def node_key(node: Node) -> str:
    """Return the name of a node in records: its shard and replica."""
    return f"{node.shard_num}_{node.replica_num}"


@dataclass(frozen=True, slots=True)
class Staged:
    """The staged rows of a node: the period's, by id of the partition, and those of others, by its name."""

    partitions: Mapping[str, Contents]
    other_rows: Mapping[str, int] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Rows of the period."""
        return sum(partition.rows for partition in self.partitions.values())

    @property
    def rows_by_partition(self) -> dict[str, int]:
        """Rows of the period, by the id of the partition."""
        return {key: contents.rows for key, contents in self.partitions.items()}

    def has_parts_of(self, other: Staged) -> bool:
        """Check whether both are known to have the same parts."""
        return all(contents.has_parts_of(other.at(key)) for key, contents in self.partitions.items())

    def at(self, partition_id: str) -> Contents:
        """Return the contents of a partition."""
        return self.partitions.get(partition_id, NOTHING_BESIDE)


@dataclass(frozen=True, kw_only=True)
class Publication:
    """A period that an attempt publishes: its staged partitions, with their proof."""

    context: Target
    period: Period
    period_partitions: PeriodPartitions
    attempt: Attempt
    policies: Policies
    #: The period by node at the time of the decision.
    before: Mapping[Node, PeriodOnNode] = field(default_factory=dict)
    #: The period by node right before the publication; empty until then.
    last_seen: Mapping[Node, PeriodOnNode] = field(default_factory=dict)
    staged: Mapping[Node, Staged] = field(default_factory=dict)
    #: The partitions by node that keep rows in any merge; empty until the publication has replaced them.
    lasting: Mapping[Node, frozenset[str]] = field(default_factory=dict)
    #: The `PeriodPartitions.value` of further periods in its staging; none by default.
    others_in_staging: frozenset[str] = frozenset()
    increment: Increment | None = None
    #: The records of a dead attempt that is being completed; none by default.
    intended: Mapping[Node, Record] = field(default_factory=dict)
    claims: Mapping[str, Value] = field(default_factory=dict)
    held_because: str = ""
    requested_checks: Sequence[Check] = ()
    checks: tuple[CheckResult, ...] = ()
    checked_rows: int = 0

    @property
    def staging(self) -> TableName:
        """The staging table of the attempt."""
        return self.attempt.staging(self.context)

    @property
    def periods(self) -> str:
        """The period, or the periods loaded together, as text."""
        return str(self.period)

    @property
    def objects(self) -> Sequence[Unit]:
        """The objects that its rows were read from."""
        return ()

    @property
    def file_rows(self) -> Sequence[int] | None:
        """The rows of these objects, if known."""
        return None

    @property
    def arrival(self) -> str:
        """The arrival that it is loaded with; empty if it is loaded by itself."""
        return ""

    @property
    def adds(self) -> bool:
        """Return whether published rows have yet to be attached to staging."""
        return self.increment is not None and self.increment.attached_rows is None

    @property
    def attaches_first(self) -> bool:
        """Return whether published rows are attached before the new ones are inserted."""
        return self.increment is not None and self.increment.attaches_first

    @property
    def base(self) -> str:
        """The attempt that begins the record of the period's objects; empty if no increment may build on it."""
        return ""

    @property
    def values(self) -> dict[str, Value]:
        """The values that all its records have. Its objects equal no others, so a load replaces it if it may."""
        return {"attempt": self.attempt.nonce, "fingerprint": "", "definition": "", "objects": 0, "source_bytes": 0}

    def arrivals_of(self, objects: Sequence[Unit]) -> list[str] | None:
        """Return the arrival of each object; None if objects have rows of their period alone."""
        return None

    def structure_on(self, node: Node) -> str:
        """Return the structure for a node's record: the table and the loaded data."""
        return as_text(
            structure_of(self.context, distribution=self.policies.distribution, settings={}, shard_num=node.shard_num),
            loaded_of((), None, every_column=True),
            {"engine": self.context.table_facts.definition, "definition": {}},
        )

    def key_on(self, node: Node, partition_id: str | None = None) -> LedgerKey:
        """Return the key of records on a node."""
        value = self.period_partitions.value if partition_id is None else partition_id
        return LedgerKey.on(self.context, node, self.period, value)

    @cached_property
    def members(self) -> dict[Node, list[Member]]:
        """The partitions by node that it has, had, or may have again after a crash, with what replaces them."""
        return {node: self._members_on(node) for node in self.context.nodes}

    def _members_on(self, node: Node) -> list[Member]:
        was, staged, lasting = self.last_seen[node], self.staged[node], self.lasting.get(node, ())
        ids = [self.period_partitions.value]
        if was.partitions is not None:
            filled = (partition.partition_id for partition in was.partitions if _may_hold_rows(partition))
            ids = sorted({*staged.partitions, *filled})
        return [
            Member(
                key,
                was.at(key),
                staged.at(key),
                is_kept=not staged.at(key).rows and self._is_kept(key, was.at(key).record),
                lasts=key in lasting,
            )
            for key in ids or [""]
        ]

    def _is_kept(self, partition_id: str, was: Record | None) -> bool:
        """Check whether a partition without staged rows stays as it is, rather than lose its rows."""
        if not self.period_partitions.of_part:
            return False
        if not partition_id or (self.increment and not self.increment.attaches_first):
            return True
        if not (self.intended and was and was.rows):
            return False
        # It is already published, or the intent keeps it: it names the partition's rows, and no staged ones.
        return was.event == "published" or not evidence_of(was).beside.rows

    def look_up(self, *, with_records: bool = True) -> Steps[dict[Node, PeriodOnNode]]:
        """Look up the period's parts on every node, and its newest record unless that is known."""
        (by_node,) = yield from look_up_all([self], with_records=with_records)
        return by_node


P = TypeVar("P", bound=Publication)

Publications = Batch[Period, P]


def look_up_all(periods: Sequence[Publication], *, with_records: bool = True) -> Steps[list[dict[Node, PeriodOnNode]]]:
    """Look up periods on every node, in the given order: their parts and newest records, with a single statement."""
    name = f"Look up {periods_text(periods)}" + (" in the ledger" if with_records else "")
    partitions = {item.period: item.period_partitions for item in periods}
    states, _ = yield from look_up_beside(periods[0].context, partitions, name=name, with_records=with_records)
    return [states[item.period] for item in periods]


def look_up_caught_up(periods: Sequence[Publication]) -> Steps[list[dict[Node, PeriodOnNode]]]:
    """Look periods up; if replicas differ, as when one has just come back, do so again once they have caught up."""
    context = periods[0].context
    states = yield from look_up_all(periods)
    if not context.table_facts.is_replicated or all(_are_alike(by_node, context) for by_node in states):
        return states
    try:
        yield from follow(context, context.target, wait_seconds=CATCH_UP_SECONDS)
    except ReplicasBehindError:
        yield from Log(name=f"Replicas of {context.target} have not caught up with each other in {CATCH_UP_SECONDS} s.")
    return (yield from look_up_all(periods))


def _are_alike(periods: Mapping[Node, PeriodOnNode], context: Target) -> bool:
    states = {(node.shard_num, period.state.rows, period.state.max_block) for node, period in periods.items()}
    return len(states) == len(context.publishers)


def periods_text(periods: Iterable[Publication]) -> str:
    """Return periods for the name of a step: the first one and the number of others."""
    first, *others = periods
    return f"{first.period} and {len(others)} more" if others else str(first.period)


def values_of(
    item: Publication,
    *,
    rows: int,
    state: PartitionState,
    rows_of_shards: Mapping[int, int] | None = None,
    beside: Contents = NOTHING_BESIDE,
    structure: str = "",
) -> dict[str, Value]:
    """Return the values of a node's record of a partition."""
    return {
        **item.values,
        "nodes": count_shards(item.context.nodes, item.context.table_facts),
        "rows": rows,
        **evidence_of_state(state, rows_of_shards, beside=beside),
        "structure": structure,
        "base": item.base,
        "increments": item.increment.number if item.increment else 0,
        "cluster": item.context.cluster or "",
        **item.claims,
    }


def evidence_of_state(
    state: PartitionState, rows_of_shards: Mapping[int, int] | None = None, *, beside: Contents = NOTHING_BESIDE
) -> dict[str, str | int]:
    """Return the columns of a record that identify the contents of the partition later."""
    return {
        "min_block": state.min_block,
        "max_block": state.max_block,
        "data_version": state.data_version,
        "evidence": state.evidence(rows_of_shards, beside=beside).as_text(),
    }


#: The partition of each period, by node.
PartitionStates: TypeAlias = dict[Period, dict[Node, PartitionState]]


def held_attempt(load: Publication, nonce: str) -> Attempt:
    """Return the attempt that names the table with the held rows."""
    return Attempt(load.context.target, (load.period,), nonce, hold_limit_days=load.policies.hold_limit_days)


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


def _may_hold_rows(partition: PeriodOnNode) -> bool:
    evidence = partition.record and evidence_of(partition.record)
    return bool(partition.state.rows or (evidence and (evidence.rows or evidence.beside.rows)))


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
    value = item.period_partitions.value
    known = item.others_in_staging | {value} if known is None else known
    return {
        node: Staged(
            {key: of.contents for key, of in on_node.items() if of.period_value == value and of.contents.rows},
            {of.name: of.contents.rows for of in on_node.values() if of.period_value not in known},
        )
        for node, on_node in partitions.items()
    }


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
        partition_id: StagedPartition(
            name.replace(_NULL, "NULL"),
            period_value,
            Contents(rows, tuple(sorted(parts)) if len(parts) <= MOST_PARTS else None),
        )
        for partition_id, name, period_value, rows, parts in answer
    }


def records_of(periods: Mapping[Node, PeriodOnNode]) -> dict[str, str]:
    """Return the identity of the newest records of a period: `node_key` → attempt and event."""
    return {
        node_key(node): f"{period.record.attempt} {period.record.event}"
        for node, period in periods.items()
        if period.record
    }


def check_none_newer(
    period: Period, records: Mapping[str, str], current: Mapping[Node, PeriodOnNode], *, attempt: str = ""
) -> None:
    """Check that no other load, which may have listed objects later, has recorded the period since the comparison.

    An attempt with newer staging ends older ones. An attempt that published and dropped its staging before this one
    created its own escapes that; only its record shows it.
    """
    others = {node: period for node, period in current.items() if period.record and period.record.attempt != attempt}
    if any(records.get(node) != record for node, record in records_of(others).items()):
        raise published_meanwhile(period)


def published_meanwhile(period: Period) -> ObjectsChangedError:
    """Return the error of a load if another one published the period meanwhile."""
    return ObjectsChangedError(f"Another load published {period} meanwhile.")
