"""The context of a load: the request, and all facts gathered before anything is written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_provider_chs3.core.files.csv_dialect import reading_settings
from airflow_provider_chs3.core.files.file_set import LOOK_THREADS, Files
from airflow_provider_chs3.core.files.inner_keys import has_whole_objects
from airflow_provider_chs3.core.files.source import Source
from airflow_provider_chs3.core.files.text_fields import has_escaped_labels, lacks_elements_of_containers
from airflow_provider_chs3.core.ledger.comparison import (
    Comparison,
    ExpectedPeriod,
    compare,
    held_version,
    intended,
    spread,
    was_published,
)
from airflow_provider_chs3.core.ledger.partition_state import PartitionState
from airflow_provider_chs3.core.ledger.parts import NOTHING_BESIDE, Contents
from airflow_provider_chs3.core.ledger.queries import look_up_beside
from airflow_provider_chs3.core.ledger.recording import Value
from airflow_provider_chs3.core.ledger.records import PeriodOnNode
from airflow_provider_chs3.core.ledger.table import LedgerKey
from airflow_provider_chs3.core.load.decision import PeriodFacts
from airflow_provider_chs3.core.load.load_request import LoadRequest
from airflow_provider_chs3.core.load.retry_policy import RetryState
from airflow_provider_chs3.core.load.staging_tables import Attempt
from airflow_provider_chs3.core.model.models import Manifest, Node, ObjectChanges, SettingValues, TableName
from airflow_provider_chs3.core.model.period import WHOLE_TABLE, Period, range_text
from airflow_provider_chs3.core.sql.column_types import ColumnType
from airflow_provider_chs3.core.sql.complete_answers import WITHOUT_ABSENT
from airflow_provider_chs3.core.sql.server_defaults import neutral_settings
from airflow_provider_chs3.core.steps.batch import Batch
from airflow_provider_chs3.core.steps.operations import Log, Steps
from airflow_provider_chs3.core.steps.step_timer import NO_STEPS, StepTimer
from airflow_provider_chs3.core.target.node_facts import RecordTable, TargetContext
from airflow_provider_chs3.core.target.period_partitions import PeriodPartitions
from airflow_provider_chs3.core.target.replication import follow
from airflow_provider_chs3.exceptions import ReplicasBehindError

#: Types of GeoParquet.
_SHAPES = re.compile(r"\b(?:Point|Ring|(?:Multi)?(?:LineString|Polygon)|Geometry)\b")

#: A replica that came back lacks parts of a few minutes at worst, and fetches them as they are.
_CATCH_UP_SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class Increment:
    """The part of a period that is new since it was published, loaded alone.

    Args:
        base: The attempt that loaded the whole period.
        number: The number of increments since then, including this one.
        attaches_first: Whether published rows are attached before the new ones are inserted, rather than after.
        removed: Paths of overwritten or deleted objects: their published rows are removed.
        period: All objects of the period, published and new.
        attached_rows: Published rows in staging by `node_key`, without removed ones; None before they are attached.
    """

    base: str
    number: int
    attaches_first: bool
    period: Manifest
    removed: tuple[str, ...] = ()
    attached_rows: Mapping[str, int] | None = None

    def attached_on(self, node: Node) -> int:
        """Return the number of published rows in staging on a node."""
        return (self.attached_rows or {}).get(node_key(node), 0)


@dataclass(frozen=True, slots=True)
class GroupOfFiles:
    """The files of periods that one insert reads together."""

    periods: tuple[Period, ...]
    is_of_period: str
    largest_bytes: int


@dataclass(frozen=True, slots=True)
class SharedStaging:
    """A staging table that several periods are published from.

    Args:
        attempt: Names the table and its statements.
        period_values: The `PeriodPartitions.value` of its periods.
        is_finished: Whether a dead attempt filled it, and its publication is completed. False by default.
    """

    attempt: Attempt
    period_values: frozenset[str]
    is_finished: bool = False


def node_key(node: Node) -> str:
    """Return the name of a node in records: its shard and replica."""
    return f"{node.shard_num}_{node.replica_num}"


@dataclass(frozen=True, kw_only=True)
class LoadContext:
    """A load in progress."""

    request: LoadRequest
    context: TargetContext
    files: Files
    period_partitions: PeriodPartitions
    retry_state: RetryState
    timer: StepTimer = NO_STEPS
    increment: Increment | None = None
    changes: ObjectChanges | None = None
    group: GroupOfFiles | None = None
    shared: SharedStaging | None = None

    @classmethod
    def of(
        cls,
        request: LoadRequest,
        context: TargetContext,
        retry_state: RetryState,
        *,
        source: Source,
        manifest: Manifest,
        period_partitions: PeriodPartitions,
        timer: StepTimer = NO_STEPS,
    ) -> LoadContext:
        """Create the load of the listed objects into the inspected target."""
        files = Files(
            source=source,
            manifest=manifest,
            format=request.format_of(manifest),
            compression=request.compression,
            cluster=context.cluster,
            look_threads=_look_threads(request, context),
            settings=_reading_settings(request, context),
            neutral={
                # Expressions may see types that only files have, such as Arrow's dictionaries of numbers.
                **context.permissions,
                **neutral_settings(context.reading_defaults, request.settings),
                "session_timezone": context.zone_of(request.settings),
            },
            waiting=WITHOUT_ABSENT if context.absent else {},
            has_older_readers=context.has_older_readers,
        )
        return cls(
            request=request,
            context=context,
            files=files,
            period_partitions=period_partitions,
            retry_state=retry_state,
            timer=timer,
        )

    @property
    def attempt(self) -> Attempt:
        """The attempt, which names staging and statements."""
        if self.shared:
            return self.shared.attempt
        periods = self.group.periods if self.group else (self.request.period,)
        return Attempt(self.context.target, periods, self.request.nonce)

    @property
    def periods(self) -> str:
        """The period, or the periods loaded together, as text."""
        return range_text(self.group.periods) if self.group else str(self.request.period)

    @property
    def staging(self) -> TableName:
        """The staging table of the attempt."""
        return self.attempt.staging(self.context)

    @property
    def manifest(self) -> Manifest:
        """All objects of the period, although an increment reads only the new ones."""
        return self.increment.period if self.increment else self.files.manifest

    @property
    def read_sizes(self) -> dict[str, int]:
        """Number and bytes of the objects to read, for records."""
        read = self.files.manifest
        return {"loaded_objects": self.object_count(read), "loaded_bytes": read.size_bytes}

    def object_count(self, manifest: Manifest) -> int:
        """Return the number of objects for results and records; 0 for rows of a database."""
        return self.request.source.kind.contents.count(manifest)

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
        """The attempt that begins the record of the period's objects: this one, unless rows are only added."""
        increment = self.increment
        return increment.base if increment and not increment.removed else self.request.nonce

    def with_increment(self, increment: Increment, new: Manifest) -> LoadContext:
        """Return the load of only the new objects."""
        return replace(self.with_objects(new), increment=increment)

    def with_all_objects(self) -> LoadContext:
        """Return the load of all objects of the period."""
        return replace(self.with_objects(self.manifest), increment=None)

    def end_step(self, name: str, *, at_least_seconds: float = 0.0) -> Steps[LoadContext]:
        """Return the load with the time since the last step counted for this step."""
        timer = yield from self.timer.end(name, at_least_seconds=at_least_seconds)
        return replace(self, timer=timer)

    def with_objects(self, manifest: Manifest) -> LoadContext:
        """Return the load of these objects."""
        return replace(self, files=replace(self.files, manifest=manifest))

    def with_ledger(self, *, with_loads: bool = False) -> LoadContext:
        """Return the load after the ledger was created on every node."""
        nodes = {node: replace(facts, ledger=RecordTable()) for node, facts in self.context.nodes.items()}
        if with_loads:
            nodes[self.context.coordinator] = replace(nodes[self.context.coordinator], loads=RecordTable())
        return replace(self, context=replace(self.context, nodes=nodes))

    def key_on(self, node: Node, partition_id: str | None = None) -> LedgerKey:
        """Return the key of records on a node."""
        value = self.period_partitions.value if partition_id is None else partition_id
        return LedgerKey.on(self.context, node, self.request.period, value)

    @property
    def wanted(self) -> ExpectedPeriod:
        """The expected state of the period, for comparison."""
        return ExpectedPeriod(
            fingerprint=self.manifest.fingerprint,
            definition=self.request.definition or None,
            structure=self.request.structure(self.context),
            contents=self.request.source.kind.contents.name,
        )

    def facts(self, before: Mapping[Node, PeriodOnNode]) -> PeriodFacts:
        """Return the facts about the period."""
        comparison, manifest = compare(before, self.wanted, self.context.table_facts), self.manifest
        held, why_not_held = held_version(before, self.wanted, self.context.table_facts)
        of_dead = intended(before, self.wanted, self.context.table_facts)
        claims = {period.held.record.attempt for period in before.values() if period.held}
        if of_dead and self.request.is_approval and of_dead not in claims:
            # An approval publishes nothing but the approved version: it leaves other publications to their loads.
            of_dead, why_not_held = "", "a load of other rows is publishing it, or died doing so; let it end if it runs"
        published = (period.record.source_bytes for period in before.values() if period.record)
        return PeriodFacts(
            comparison=comparison,
            objects=len(manifest.objects),
            contents=self.wanted.contents,
            size_bytes=manifest.size_bytes,
            published_bytes=max(published, default=0),
            lacks_replica=bool(self.absent_of(comparison)),
            intended=of_dead,
            held=held,
            why_not_held=why_not_held,
            is_approval=self.request.is_approval,
            is_published_table=self.request.period == WHOLE_TABLE and was_published(before),
        )

    def absent_of(self, comparison: Comparison) -> list[Node]:
        """Return the replicas that are down in the shards of the compared nodes."""
        shards = {node.shard_num for node in comparison.nodes}
        return [node for node in self.context.absent if node.shard_num in shards]

    def look_up(self, *, with_records: bool = True) -> Steps[dict[Node, PeriodOnNode]]:
        """Look up the period's parts on every node, and its newest record unless that is known."""
        (by_node,) = yield from look_up_all([self], with_records=with_records)
        return by_node


#: Loads of periods of one table.
Loads = Batch[Period, LoadContext]


def look_up_all(loads: Sequence[LoadContext], *, with_records: bool = True) -> Steps[list[dict[Node, PeriodOnNode]]]:
    """Look up the parts and newest records of periods on every node, with a single statement.

    Returns:
        Every period by node, in the order of the loads.
    """
    name = f"Look up {periods_text(loads)}" + (" in the ledger" if with_records else "")
    partitions = {load.request.period: load.period_partitions for load in loads}
    periods, _ = yield from look_up_beside(loads[0].context, partitions, name=name, with_records=with_records)
    return [periods[load.request.period] for load in loads]


def look_up_caught_up(loads: Sequence[LoadContext]) -> Steps[list[dict[Node, PeriodOnNode]]]:
    """Look periods up; if replicas differ, do so again after they have caught up.

    A replica that has just come back has outdated periods.
    """
    context = loads[0].context
    states = yield from look_up_all(loads)
    if not context.table_facts.is_replicated or all(_are_alike(periods, context) for periods in states):
        return states
    try:
        yield from follow(context, context.target, wait_seconds=_CATCH_UP_SECONDS)
    except ReplicasBehindError:
        yield from Log(
            name=f"Replicas of {context.target} have not caught up with each other in {_CATCH_UP_SECONDS} s."
        )
    return (yield from look_up_all(loads))


def _are_alike(periods: Mapping[Node, PeriodOnNode], context: TargetContext) -> bool:
    states = {(node.shard_num, period.state.rows, period.state.max_block) for node, period in periods.items()}
    return len(states) == len(context.publishers)


def periods_text(loads: Sequence[LoadContext]) -> str:
    """Return the periods of loads for the name of a step: the first one and the number of others."""
    first = str(loads[0].request.period)
    return first if len(loads) == 1 else f"{first} and {len(loads) - 1} more"


def values_of(
    load: LoadContext,
    *,
    rows: int,
    state: PartitionState,
    rows_of_shards: Mapping[int, int] | None = None,
    beside: Contents = NOTHING_BESIDE,
    structure: str = "",
) -> dict[str, Value]:
    """Return the values of a node's record of a partition."""
    return {
        **values_of_load(load),
        "nodes": spread(load.context.nodes, load.context.table_facts),
        "rows": rows,
        **evidence_of_state(state, rows_of_shards, beside=beside),
        "structure": structure,
        "base": load.base,
        "increments": load.increment.number if load.increment else 0,
        "cluster": load.context.cluster or "",
    }


def values_of_load(load: LoadContext) -> dict[str, Value]:
    """Return the values that all records of a load have."""
    return {
        "attempt": load.request.nonce,
        "fingerprint": load.manifest.fingerprint,
        "definition": load.request.definition,
        "objects": load.object_count(load.manifest),
        "source_bytes": load.manifest.size_bytes,
    }


def _reading_settings(request: LoadRequest, context: TargetContext) -> SettingValues:
    selection, types = request.selection, [ColumnType(column.type) for column in context.table_facts.columns]
    settings = reading_settings(
        selection.csv,
        has_whole_objects=bool(selection.select)
        or has_whole_objects([column.name for column in selection.wanted(context.table_facts.columns)]),
        has_nested_containers=any(map(lacks_elements_of_containers, types)),
        has_escaped_labels=any(map(has_escaped_labels, types)),
        has_shapes=any(_SHAPES.search(column_type.text) for column_type in types),
    )
    known, given = context.known_settings, request.settings
    return {name: value for name, value in settings.items() if name in known and name not in given}


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


def _look_threads(request: LoadRequest, context: TargetContext) -> int:
    given, highest = str(request.settings.get("max_threads", "")), context.known_settings.get("max_threads")
    # The insert refuses anything but a number: an error here would look like an error of a file.
    return int(given) if given.isdecimal() else min(LOOK_THREADS, highest or LOOK_THREADS)
