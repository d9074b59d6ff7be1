"""A period in an attempt that loads it: the request, and all facts gathered before anything is written."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from airflow_provider_chs3.core.files.file_set import LOOK_THREADS, Files, Reading
from airflow_provider_chs3.core.files.loaded_columns import FileGroup, has_whole_objects
from airflow_provider_chs3.core.files.source import Source
from airflow_provider_chs3.core.files.text_fields import (
    has_escaped_labels,
    lacks_elements_of_containers,
    reading_settings,
)
from airflow_provider_chs3.core.ledger.period_comparison import (
    Comparison,
    ExpectedPeriod,
    compare,
    held_version,
    holds_recorded,
    intended,
    was_published,
)
from airflow_provider_chs3.core.ledger.recording import Value, as_text, loaded_of
from airflow_provider_chs3.core.ledger.records import PeriodOnNode
from airflow_provider_chs3.core.load.decision import PeriodFacts
from airflow_provider_chs3.core.load.load_request import LoadRequest
from airflow_provider_chs3.core.load.publication import Increment, Publication
from airflow_provider_chs3.core.load.retry_policy import RetryState
from airflow_provider_chs3.core.load.staging_tables import Attempt
from airflow_provider_chs3.core.model.models import Manifest, Node, ObjectChanges, Setting, SettingValues, Unit
from airflow_provider_chs3.core.model.period import WHOLE_TABLE, Period, range_text
from airflow_provider_chs3.core.sql.column_types import ColumnType
from airflow_provider_chs3.core.sql.complete_answers import WITHOUT_ABSENT, neutral_settings
from airflow_provider_chs3.core.steps.driving import NO_STEPS, Batch, StepTimer
from airflow_provider_chs3.core.steps.operations import Steps
from airflow_provider_chs3.core.target.node_facts import Target
from airflow_provider_chs3.core.target.partition_key import PartsOfKey, period_value
from airflow_provider_chs3.core.target.period_partitions import PeriodPartitions
from airflow_provider_chs3.core.target.table_facts import Column
from airflow_provider_chs3.exceptions import PreflightError

#: Types of GeoParquet.
_SHAPES = re.compile(r"\b(?:Point|Ring|(?:Multi)?(?:LineString|Polygon)|Geometry)\b")


@dataclass(frozen=True, kw_only=True)
class InsertPlan:
    """The plan of an insert."""

    reading: Reading
    settings: tuple[Setting, ...]
    memory_bytes: int
    memory_steps: int
    is_expected: bool = False

    @property
    def setting_values(self) -> SettingValues:
        """The settings: name → value."""
        return {setting.name: setting.value for setting in self.settings}

    @property
    def settings_as_json(self) -> str:
        """The settings as JSON, as records have them: values are of any type."""
        return json.dumps([asdict(setting) for setting in self.settings], ensure_ascii=False)

    @classmethod
    def of_record(
        cls, reading: Mapping[str, Any], settings: str, *, memory_bytes: int, memory_steps: int
    ) -> InsertPlan:
        """Create the plan from its record."""
        return cls(
            reading=Reading.of_json(reading),
            settings=tuple(Setting(**values) for values in json.loads(settings)),
            memory_bytes=memory_bytes,
            memory_steps=memory_steps,
        )


_FIRST_TRY = RetryState()


@dataclass(frozen=True, slots=True)
class GroupOfFiles:
    """The files of periods that one insert reads together."""

    is_of_period: str
    largest_bytes: int


@dataclass(frozen=True, slots=True)
class RowsOfPeriods:
    """The rows of some periods, by the column of the partition key that is of time."""

    column: Column
    key: PartsOfKey
    values: tuple[str, ...] = ()

    def value_in(self, group: FileGroup) -> str:
        """Return the expression for `PeriodPartitions.value` of a row."""
        name = self.column.name
        written = [loaded_column for loaded_column in group.loaded if loaded_column.column.name == name]
        if not written:
            raise PreflightError(
                f"Column {name!r} is not loaded, so nobody can say which objects the rows of a period are from: load "
                "it, or set increments={'object_column': …}."
            )
        return period_value(self.column, self.key, written[0].cast.value)


@dataclass(frozen=True, slots=True)
class Spread:
    """The objects of an arrival, whose rows are staged whole."""

    #: Path of each overwritten or deleted object → the periods that hold rows of it.
    periods: Mapping[str, frozenset[Period]] = field(default_factory=dict)
    #: Whether this is the load of the arrival, rather than of a period that its rows are of.
    is_arrival: bool = False
    #: The arrival and the fingerprint of its objects, for records.
    listed: tuple[str, ...] = ()
    #: How many objects of the arrival the table holds rows of.
    recorded: int = 0
    #: Periods with rows of the arrival that are not as published.
    changed: frozenset[Period] = frozenset()
    #: Path of each kept object of the period → its arrival, as it is recorded.
    arrivals: Mapping[str, str] = field(default_factory=dict)
    #: Whether the period is to be recorded again, although its rows are those of its objects.
    again: bool = False
    #: Periods that a dead attempt was publishing, and that must be loaded whole, with their objects.
    unfinished: Mapping[Period, Manifest] = field(default_factory=dict)
    only: RowsOfPeriods | None = None


@dataclass(frozen=True, kw_only=True)
class PeriodLoad(Publication):
    """A period to load, or several loaded together as a group; with `spread`, the rows of an arrival are staged."""

    request: LoadRequest
    files: Files
    retry_state: RetryState
    timer: StepTimer = NO_STEPS
    changes: ObjectChanges | None = None
    group: GroupOfFiles | None = None
    spread: Spread | None = None
    reason: str = ""
    plan: InsertPlan | None = None

    @classmethod
    def of(
        cls,
        request: LoadRequest,
        context: Target,
        *,
        period: Period | None = None,
        nonce: str = "",
        retry_state: RetryState = _FIRST_TRY,
        source: Source,
        manifest: Manifest,
        period_partitions: PeriodPartitions,
        timer: StepTimer = NO_STEPS,
    ) -> PeriodLoad:
        """Create the load of the listed objects into the inspected target: by default, of the request's period."""
        period = period or request.period
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
            period=period,
            attempt=Attempt(context.target, (period,), nonce or request.nonce),
            policies=request.policies,
            requested_checks=request.checks.requested,
            files=files,
            period_partitions=period_partitions,
            retry_state=retry_state,
            timer=timer,
        )

    @property
    def periods(self) -> str:
        """The period, or the periods loaded together, as text."""
        return range_text(self.attempt.periods) if self.group else str(self.period)

    @property
    def planned(self) -> InsertPlan:
        """The plan of its insert, once there is one."""
        assert self.plan
        return self.plan

    @property
    def objects(self) -> Sequence[Unit]:
        """The objects that its rows were read from."""
        return self.files.manifest.objects

    @property
    def file_rows(self) -> Sequence[int] | None:
        """The rows of these objects, if known."""
        return self.plan.reading.file_rows if self.plan else None

    @property
    def arrival(self) -> str:
        """The arrival that it is loaded with; empty if it is loaded by itself."""
        return self.spread.listed[0] if self.spread and self.spread.listed else ""

    def arrivals_of(self, objects: Sequence[Unit]) -> list[str] | None:
        """Return the arrival of each object; None if objects have rows of their period alone."""
        if self.spread is None:
            return None
        known, source = self.spread.arrivals, self.files.source
        return [known[unit.path] if unit.path in known else source.arrival_of(unit) for unit in objects]

    @property
    def manifest(self) -> Manifest:
        """All objects of the period, although an increment reads only the new ones."""
        return self.increment.period if self.increment else self.files.manifest

    def object_count(self, manifest: Manifest) -> int:
        """Return the number of objects for results and records; 0 for rows of a database."""
        return self.request.source.kind.contents.count(manifest)

    @property
    def base(self) -> str:
        """The attempt that begins the record of the period's objects: this one, unless others are added to it.

        A replica that lacks the record so far gets it whole.
        """
        if self.increment is None or self.increment.removed or self.has_lacking_replica:
            return self.attempt.nonce
        return self.increment.base

    @property
    def has_lacking_replica(self) -> bool:
        """Return whether a replica was down, or set up again, since the period was published."""
        return any(period.is_of_replica for period in self.before.values())

    def end_step(self, name: str, *, at_least_seconds: float = 0.0) -> Steps[PeriodLoad]:
        """Return the load with the time since the last step counted for this step."""
        timer = yield from self.timer.end(name, at_least_seconds=at_least_seconds)
        return replace(self, timer=timer)

    def with_objects(self, manifest: Manifest, increment: Increment | None = None) -> PeriodLoad:
        """Return the load of these objects: of all of the period, unless they are an increment's."""
        return replace(self, files=replace(self.files, manifest=manifest), increment=increment)

    @property
    def values(self) -> dict[str, Value]:
        """The values that all its records have."""
        return {
            "attempt": self.attempt.nonce,
            "fingerprint": self.manifest.fingerprint,
            "definition": self.request.definition,
            "objects": self.object_count(self.manifest),
            "source_bytes": self.manifest.size_bytes,
        }

    def structure_on(self, node: Node) -> str:
        """Return the structure for a node's record: the table and the loaded data."""
        return self.structure_with(self.planned.reading, node)

    def structure_with(self, reading: Reading, node: Node) -> str:
        """Return the structure for a node's record, by this reading of the files."""
        selection = self.request.selection
        every_column = not selection.columns and not selection.select
        loaded = (loaded_column.column.name for loaded_column in reading.loaded)
        return as_text(
            self.request.structure(self.context, shard_num=node.shard_num),
            loaded_of(loaded, reading.names, every_column=every_column),
            # This part is not renewed, because a changed TTL may already have removed rows.
            {
                "engine": self.context.table_facts.definition,
                "definition": self.request.recorded_definition,
                **({"arrival": self.spread.listed} if self.spread else {}),
            },
        )

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
        # Arrivals are held as a whole: a load of one is held again, or publishes.
        held, why_not_held = (None, "") if self.spread else held_version(before, self.wanted, self.context.table_facts)
        of_dead = intended(before, self.wanted, self.context.table_facts)
        claims = {period.held.record.attempt for period in before.values() if period.held}
        if of_dead and self.request.is_approval and of_dead not in claims:
            # An approval publishes nothing but the approved version: it leaves other publications to their loads.
            of_dead, why_not_held = "", "a load of other rows is publishing it, or died doing so; let it end if it runs"
        published = (period.record.source_bytes for period in before.values() if period.record)
        absent, table_facts = self.absent_of(comparison), self.context.table_facts
        # A load by arrival has waited until its replicas follow.
        if absent and self.spread and all(holds_recorded(before[node], table_facts) for node in comparison.nodes):
            absent = []
        return PeriodFacts(
            comparison=comparison,
            objects=len(manifest.objects),
            contents=self.wanted.contents,
            size_bytes=manifest.size_bytes,
            published_bytes=max(published, default=0),
            lacks_replica=bool(absent),
            intended=of_dead,
            held=held,
            why_not_held=why_not_held,
            is_approval=self.request.is_approval,
            is_published_table=self.period == WHOLE_TABLE and was_published(before),
        )

    def absent_of(self, comparison: Comparison) -> list[Node]:
        """Return the replicas that are down in the shards of the compared nodes, if each has records of its own."""
        shards = {node.shard_num for node in comparison.nodes} if not self.context.shared else ()
        return [node for node in self.context.absent if node.shard_num in shards]


Periods = Batch[Period, PeriodLoad]


def periods_of(*loads: PeriodLoad) -> Periods:
    """Return loads of periods of a table as a batch."""
    return Batch({load.period: load for load in loads})


def _reading_settings(request: LoadRequest, context: Target) -> SettingValues:
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


def _look_threads(request: LoadRequest, context: Target) -> int:
    given, highest = str(request.settings.get("max_threads", "")), context.known_settings.get("max_threads")
    # The insert refuses anything but a number: an error here would look like an error of a file.
    return int(given) if given.isdecimal() else min(LOOK_THREADS, highest or LOOK_THREADS)
