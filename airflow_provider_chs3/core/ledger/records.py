"""The records of periods: each node's ledger records what was published there."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from airflow_provider_chs3.core.ledger.partition_state import Part, PartitionState, total
from airflow_provider_chs3.core.ledger.table import LedgerKey
from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.core.sql.quoting import is_table

_DAY_SECONDS = 24 * 60 * 60


@dataclass(frozen=True, slots=True)
class Restored:
    """A version of a period that was restored; `version` is the attempt that had published it, or another name."""

    version: str
    by: str
    since: str
    is_pinned: bool = True

    @classmethod
    def of_text(cls, text: str) -> Self:
        """Parse the text of `as_text`."""
        return cls(**json.loads(text))

    def as_text(self) -> str:
        """Return JSON."""
        return json.dumps(asdict(self))

    def __str__(self) -> str:
        return f"pinned since {self.since} by {self.by}, who restored version {self.version}; chs3 unpin ends that"


@dataclass(frozen=True, slots=True)
class Record:
    """The newest record of a period on one node."""

    event: str
    attempt: str
    fingerprint: str
    definition: str
    source_bytes: int
    nodes: int
    rows: int
    min_block: int
    max_block: int
    data_version: int = 0
    evidence: str = ""
    sequence: int = 0
    base: str = ""
    increments: int = 0
    partition_id: str = ""
    restored: str = ""
    age_seconds: float = field(default=float("inf"), compare=False)
    structure: str = ""

    @property
    def of_attempt(self) -> dict[str, str | int]:
        """The values that all records of its attempt have in common, whoever writes them."""
        return {name: getattr(self, name) for name in ("attempt", "definition", "base", "increments")}

    def is_with(self, other: Record) -> bool:
        """Check whether another record was written with this one, about another partition or by another node."""
        return (self.attempt, self.event) == (other.attempt, other.event)


#: The reason to hold a period begins so if all periods of an arrival are held; and so do later records of it.
WITH_ARRIVAL = "with arrival "


@dataclass(frozen=True, slots=True)
class Held:
    """A version of a period on one node that was held rather than published."""

    records: tuple[Record, ...]
    why: str
    since: str
    limit_days: float
    keep_versions: int = 0

    @property
    def record(self) -> Record:
        """One of its claims, which have all but the partition in common."""
        return self.records[0]

    @property
    def arrival(self) -> str:
        """The arrival whose periods are all held; empty if it is held by itself."""
        return self.with_arrival.removeprefix(WITH_ARRIVAL)

    @property
    def with_arrival(self) -> str:
        """The text that all records of its arrival begin with; empty if it is held by itself."""
        return self.reason.partition(";")[0] if self.reason.startswith(WITH_ARRIVAL) else ""

    @property
    def reason(self) -> str:
        """The reason to hold it, on a line."""
        return self.why.partition("\n")[0]

    @property
    def rows(self) -> list[str]:
        """Rows that failed its checks, as JSON, below the name of each check."""
        return self.why.split("\n")[1:]

    @property
    def is_over(self) -> bool:
        """Return whether it was held for too long to be approved."""
        return self.record.age_seconds >= self.limit_days * _DAY_SECONDS

    @property
    def without_values(self) -> Held:
        """The same, without what the checks found, which may be values of rows."""
        return replace(self, why=self.reason.partition(":")[0])

    def is_of(self, published: Record | None) -> bool:
        """Check whether it is of what is published already."""
        if published is None or published.event != "published":
            return False
        return (self.record.fingerprint, self.record.definition) == (published.fingerprint, published.definition)

    def on_fewer(self, nodes: int) -> Held:
        """Return it as if it had been spread over fewer nodes."""
        return replace(self, records=tuple(replace(record, nodes=record.nodes - nodes) for record in self.records))


@dataclass(frozen=True, slots=True)
class PeriodOnNode:
    """One period on one node: its record, and its current partition."""

    record: Record | None
    state: PartitionState
    has_history: bool = False
    has_rows: bool = False
    is_of_replica: bool = False
    table_uuid: str = ""
    partitions: tuple[PeriodOnNode, ...] | None = None
    held: Held | None = None

    @classmethod
    def of_several(
        cls,
        records: Sequence[Record],
        states: Iterable[PartitionState],
        *,
        nothing: PartitionState,
        **others: Any,
    ) -> PeriodOnNode:
        """Return a period of several partitions."""
        by_id = {state.partition_id: state for state in states}
        recorded = {record.partition_id: record for record in records}
        ids = sorted({*(key for key, state in by_id.items() if state.rows), *recorded})
        partitions = tuple(cls(recorded.get(key), by_id.get(key, replace(nothing, partition_id=key))) for key in ids)
        record = replace(records[0], rows=sum(record.rows for record in records)) if records else None
        return cls(record, total(by_id.values(), nothing), partitions=partitions, **others)

    @property
    def each(self) -> tuple[PeriodOnNode, ...]:
        """Its partitions."""
        return (self,) if self.partitions is None else self.partitions

    @property
    def recorded(self) -> tuple[PeriodOnNode, ...]:
        """Its partitions as they are recorded: without any, one that is empty and has no id."""
        return self.each or (replace(self, partitions=None),)

    @property
    def partition_id(self) -> str:
        """The id of its partition, if it has one."""
        return self.state.partition_id

    @property
    def shown(self) -> str:
        """Its partition for people, if it has one."""
        return self.state.shown or self.state.partition_id

    def at(self, partition_id: str) -> PeriodOnNode:
        """Return one of its partitions, which may be empty."""
        if self.partitions is None:
            return self
        nothing = replace(self._nothing, partition_id=partition_id)
        return next(
            (partition for partition in self.partitions if partition.partition_id == partition_id),
            PeriodOnNode(None, nothing),
        )

    @property
    def _nothing(self) -> PartitionState:
        return PartitionState(mutations=self.state.mutations, broken=self.state.broken)

    def on_fewer(self, nodes: int) -> PeriodOnNode:
        """Return it as if it had been spread over fewer nodes."""
        record = self.record and replace(self.record, nodes=self.record.nodes - nodes)
        several = self.partitions and tuple(partition.on_fewer(nodes) for partition in self.partitions)
        held = self.held and self.held.on_fewer(nodes)
        return replace(self, record=record, partitions=several, held=held)

    def with_record_of(self, other: PeriodOnNode) -> PeriodOnNode:
        """Return it with the newer records of another replica."""
        records = [partition.record for partition in other.each if partition.record]
        period = self._replace_partitions(records, [partition.state for partition in self.each])
        return replace(period, record=other.record, is_of_replica=True)

    def with_sources(self, sources: Mapping[str, tuple[Part, ...]]) -> PeriodOnNode:
        """Return it with more of the parts that were joined to others."""
        several = self.partitions and tuple(partition.with_sources(sources) for partition in self.partitions)
        state = replace(self.state, sources=(*self.state.sources, *sources.get(self.partition_id, ())))
        return replace(self, state=state, partitions=several)

    def as_it_was(self, states: Sequence[PartitionState]) -> PeriodOnNode:
        """Return it with its current records, and with what was in its partitions."""
        return self._replace_partitions([partition.record for partition in self.each if partition.record], states)

    def _replace_partitions(self, records: Sequence[Record], states: Sequence[PartitionState]) -> PeriodOnNode:
        if self.partitions is None:
            return replace(self, state=next(iter(states), PartitionState()))
        period = PeriodOnNode.of_several(records, states, nothing=self._nothing)
        return replace(self, state=period.state, partitions=period.partitions)


def record_of(before: Mapping[Node, PeriodOnNode]) -> Record:
    """Return the record of a published period."""
    record = next(iter(before.values())).record
    assert record is not None  # Published periods have a record on every node.
    return record


def rows_of_shards(periods: Mapping[Node, PeriodOnNode]) -> dict[int, int]:
    """Return the rows of a period on each shard, by its number; a row counts once, however many replicas have it."""
    return {node.shard_num: period.state.rows for node, period in sorted(periods.items(), reverse=True)}


def restored_of(periods: Mapping[Node, PeriodOnNode]) -> Restored | None:
    """Return the version of a period that is published, if one was restored; pinned, if any node says so."""
    records = [period.record for period in periods.values() if period.record]
    if len({(record.attempt, record.event) for record in records}) != 1 or records[0].event != "published":
        return None
    several = [Restored.of_text(record.restored) for record in records if record.restored]
    return max(several, key=lambda restored: restored.is_pinned, default=None)


def records_of_replicas(periods: Mapping[Node, PeriodOnNode]) -> dict[Node, PeriodOnNode]:
    """Give each replica of a replicated table the newest record of the period that any replica of its shard has.

    Block numbers come from Keeper and are the same on all replicas. A replica that was set up again, or was down while
    others published, has their rows, but not their records.
    """
    newest = dict[int, PeriodOnNode]()
    for node, period in sorted(periods.items(), key=lambda item: -item[1].record.sequence if item[1].record else 1):
        newest.setdefault(node.shard_num, period)
    return {node: _take_newer(period, newest[node.shard_num]) for node, period in periods.items()}


def _take_newer(period: PeriodOnNode, newest: PeriodOnNode) -> PeriodOnNode:
    if newest.record is None or (period.record and period.record.is_with(newest.record)):
        return period
    return period.with_record_of(newest)


_EVENTS = "'intent', 'published', 'forgotten'"
#: Records that decide the state of a period on a node.
IS_STATE = f"event IN ({_EVENTS})"
#: By arrival, in the text that its records begin with: twice the number of its newest record, and 1 if that is held.
OF_ARRIVALS = (
    f"maxMapIf(map(splitByChar(';', why)[1], sequence * 2 + (event = 'held')), startsWith(why, '{WITH_ARRIVAL}'))"
)
#: When a period was forgotten, and with it all that is held of it.
LAST_FORGOTTEN = "maxIf(sequence, event = 'forgotten')"
_NEWEST_OF_ARRIVALS = (
    "arrayMax(arrayPushBack(arrayMap(number -> if(number % 2 = 1, intDiv(number, 2), 0), "
    f"mapValues({OF_ARRIVALS})), 0))"
)
#: The number of claims of the held version among the records of a period; 0 without one. It is held until anything
#: but the intent to publish it is claimed; of an arrival, until that arrival is published or discarded.
NUMBER_OF_HELD = (
    "greatest(if(argMaxIf(attempt, sequence, event = 'held') = argMaxIf(if(event IN ('held', 'intent'), attempt, ''), "
    "sequence, event IN ('held', 'discarded', 'intent', 'forgotten')), maxIf(sequence, event = 'held'), 0), "
    f"if({_NEWEST_OF_ARRIVALS} > {LAST_FORGOTTEN}, {_NEWEST_OF_ARRIVALS}, 0))"
)
#: Those that decide its state, and those of loads that ended well.
IS_CHECKED = f"event IN ({_EVENTS}, 'load', 'withheld', 'unchanged', 'arrived')"
#: With LIMIT 1, the newest record.
NEWEST_FIRST = "ORDER BY sequence DESC, recorded_at DESC"
_AGE_SECONDS = "dateDiff('millisecond', recorded_at, now64(3)) / 1000"


def newest(columns: str, *, condition: str = IS_STATE) -> str:
    """Return an aggregate that takes columns, as a tuple, from the newest of a group of records."""
    return f"argMaxIf(({columns}), (sequence, recorded_at), {condition})"


def record_columns(*, structure: str = "structure") -> str:
    """Return the columns of `Record` in its order."""
    computed = {"age_seconds": _AGE_SECONDS, "structure": structure}
    return ", ".join(computed.get(name, name) for name in Record.__dataclass_fields__)


def uuid_now(key: LedgerKey) -> str:
    """Return a scalar subquery for the UUID of the table that has the target's name now; empty if there is none."""
    return f"(SELECT any(toString(uuid)) FROM system.tables WHERE {is_table(key.target)})"
