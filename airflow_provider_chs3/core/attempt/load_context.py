"""The context of one load: the request, and all that was found before anything is written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from airflow_provider_chs3.core.attempt.months_together import GroupOfFiles, SharedStaging
from airflow_provider_chs3.core.attempt.retry_policy import RetryState
from airflow_provider_chs3.core.cluster.node_facts import RecordTable, TargetContext
from airflow_provider_chs3.core.conversion.column_types import ColumnType
from airflow_provider_chs3.core.files.text_fields import has_escaped_labels, lacks_elements_of_containers
from airflow_provider_chs3.core.ledger.comparison import ExpectedMonth, spread
from airflow_provider_chs3.core.ledger.partition_state import PartitionState
from airflow_provider_chs3.core.ledger.parts import NOTHING_BESIDE, Contents
from airflow_provider_chs3.core.ledger.queries import look_up_each
from airflow_provider_chs3.core.ledger.records import MonthOnNode, look_up, month_on_node
from airflow_provider_chs3.core.ledger.replicas import with_records_of_replicas
from airflow_provider_chs3.core.ledger.table import LedgerKey
from airflow_provider_chs3.core.request.load_request import LoadRequest
from airflow_provider_chs3.core.source.csv_dialect import reading_settings
from airflow_provider_chs3.core.source.file_set import LOOK_THREADS, Files
from airflow_provider_chs3.core.source.source import Source
from airflow_provider_chs3.core.sql.complete_answers import WITHOUT_ABSENT
from airflow_provider_chs3.core.sql.quoting import Sql
from airflow_provider_chs3.core.sql.server_defaults import neutral_settings
from airflow_provider_chs3.core.staging.tables import Attempt
from airflow_provider_chs3.core.values.models import Manifest, Month, Node, ObjectChanges, SettingValues, TableName
from airflow_provider_chs3.core.values.month_group import MonthGroup
from airflow_provider_chs3.core.workflow.operations import QueryOneOfSeveral, Steps
from airflow_provider_chs3.core.workflow.rendered import Rendered
from airflow_provider_chs3.core.workflow.step_timer import NO_STEPS, StepTimer

#: Types of what GeoParquet holds.
_SHAPES = re.compile(r"\b(?:Point|Ring|(?:Multi)?(?:LineString|Polygon)|Geometry)\b")


@dataclass(frozen=True, kw_only=True)
class Increment:
    """The part of a month that is new since it was published, loaded alone.

    Args:
        base: The attempt that loaded the whole month.
        number: How many increments there are since then, this one included.
        attaches_first: Whether published rows come into staging before the new ones, rather than after.
        removed: Paths of objects whose published rows are removed, as they were overwritten or deleted since.
        month: All objects of the month, those that are published and the new ones.
        attached_rows: Published rows in staging on each node, by `node_key`, without the removed; None until then.
    """

    base: str
    number: int
    attaches_first: bool
    month: Manifest
    removed: tuple[str, ...] = ()
    attached_rows: Mapping[str, int] | None = None

    def attached_on(self, node: Node) -> int:
        """Return how many published rows are in staging on a node."""
        return (self.attached_rows or {}).get(node_key(node), 0)


def node_key(node: Node) -> str:
    """Return what names a node in records: its shard and its replica."""
    return f"{node.shard_num}_{node.replica_num}"


@dataclass(frozen=True, kw_only=True)
class LoadContext:
    """A load in progress.

    Args:
        request: The request.
        context: The target and its nodes.
        files: The files that it reads.
        key: The key of the month's records in the ledger.
        retry_state: The problems of earlier tries of this load.
        timer: The time spent so far.
        increment: What is added to the published rows, and `files` are the new ones; None if the month is loaded whole.
        changes: How the objects changed since the month was published; None if not known.
        group: The months that are loaded together, of which the request names the first; None of one month.
        shared: The staging table that this month has in common with others; None if it has one of its own.
    """

    request: LoadRequest
    context: TargetContext
    files: Files
    key: LedgerKey
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
        partition_id: str = "",
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
                **neutral_settings(context.reading_defaults, request.settings),
                "session_timezone": context.zone_of(request.settings),
            },
            waiting=WITHOUT_ABSENT if context.absent else {},
        )
        key = LedgerKey(context.target, context.table_facts.uuid, request.month, partition_id)
        return cls(request=request, context=context, files=files, key=key, retry_state=retry_state, timer=timer)

    @property
    def attempt(self) -> Attempt:
        """This attempt, which names its staging and its statements."""
        return self.shared.attempt if self.shared else Attempt(self.context.target, self.months, self.request.nonce)

    @property
    def months(self) -> Month | MonthGroup:
        """The month, or the months that are loaded together."""
        return self.group.months if self.group else self.request.month

    @property
    def staging(self) -> TableName:
        """This attempt's staging table."""
        return self.attempt.staging(self.context)

    @property
    def manifest(self) -> Manifest:
        """All objects of the month; an increment reads only the new ones."""
        return self.increment.month if self.increment else self.files.manifest

    @property
    def read_sizes(self) -> dict[str, int]:
        """The number of the objects that it reads, and their bytes, as its records have them."""
        read = self.files.manifest
        return {"loaded_objects": self.object_count(read), "loaded_bytes": read.size_bytes}

    def object_count(self, manifest: Manifest) -> int:
        """Return the number of objects for results and records: 0 for rows of a database, one to the manifest."""
        return self.request.source.kind.contents.count(manifest)

    @property
    def base(self) -> str:
        """The attempt with which the record of the month's objects begins: a new one where some are removed."""
        increment = self.increment
        return increment.base if increment and not increment.removed else self.request.nonce

    def of_increment(self, increment: Increment, new: Manifest) -> LoadContext:
        """Return the same load of the new objects alone."""
        return replace(self.of_objects(new), increment=increment)

    def whole(self) -> LoadContext:
        """Return the same load of all objects of the month."""
        return replace(self.of_objects(self.manifest), increment=None)

    def end_step(self, name: str, *, at_least_seconds: float = 0.0) -> Steps[LoadContext]:
        """Return the same load, with the time since the last step counted for this one."""
        timer = yield from self.timer.end(name, at_least_seconds=at_least_seconds)
        return replace(self, timer=timer)

    def of_objects(self, manifest: Manifest) -> LoadContext:
        """Return the same load of these objects."""
        return replace(self, files=replace(self.files, manifest=manifest))

    def with_ledger(self) -> LoadContext:
        """Return the same load, once the ledger exists on every node."""
        nodes = {node: replace(facts, ledger=RecordTable()) for node, facts in self.context.nodes.items()}
        return replace(self, context=replace(self.context, nodes=nodes))

    def key_on(self, node: Node) -> LedgerKey:
        """Return the key of the month's records on a node: its own table may have been created again only there."""
        target = self.context.nodes[node].target
        return replace(self.key, target_uuid=target.uuid) if target else self.key

    @property
    def wanted(self) -> ExpectedMonth:
        """What the month is compared with."""
        return ExpectedMonth(
            fingerprint=self.manifest.fingerprint,
            definition=self.request.definition,
            structure=self.request.structure(self.context),
            contents=self.request.source.kind.contents.name,
        )

    def look_up(self, *, with_records: bool = True) -> Steps[dict[Node, MonthOnNode]]:
        """Ask every node for the month's parts, and for its newest record unless that is known."""
        ledger, nodes = self.context.ledger, self.context.nodes

        def of_node(node: Node) -> Sql:
            return look_up(ledger, self.key_on(node), with_records=with_records and nodes[node].has_ledger)

        step = QueryOneOfSeveral(
            name=f"Look up {self.request.month}" + (" in the ledger" if with_records else ""),
            sql=Rendered(nodes, of_node),
            subject=self,
            of_several=partial(_look_up_several, with_records=with_records),
        )
        answers = yield from step
        return with_records_of_replicas(self.context, {node: month_on_node(rows[0]) for node, rows in answers.items()})


def _look_up_several(loads: Sequence[LoadContext], *, with_records: bool) -> dict[Node, Sql]:
    """Return the statements for the months of loads into one table."""
    ledger, nodes = loads[0].context.ledger, loads[0].context.nodes
    keys = {node: [load.key_on(node) for load in loads] for node in nodes}
    return {
        node: look_up_each(ledger, keys[node], with_records=with_records and facts.has_ledger)
        for node, facts in nodes.items()
    }


def values_of(
    load: LoadContext,
    *,
    rows: int,
    state: PartitionState,
    rows_of_shards: Mapping[int, int] | None = None,
    beside: Contents = NOTHING_BESIDE,
    structure: str = "",
    details: Mapping[str, object] | None = None,
) -> dict[str, str | int | Mapping[str, object]]:
    """Return the values of a node's record of a month.

    Args:
        load: The load.
        rows: Rows of the month on the node.
        state: The partition there.
        rows_of_shards: Rows of the month on each shard, once it is published; None before.
        beside: What a crash may show beside the partition.
        structure: The table, and what was loaded into it, once it is published (see `core.ledger.structure_record`).
        details: Further values, as JSON.
    """
    manifest, increment = load.manifest, load.increment
    return {
        "attempt": load.request.nonce,
        "fingerprint": manifest.fingerprint,
        "definition": load.request.definition,
        "objects": load.object_count(manifest),
        "source_bytes": manifest.size_bytes,
        "nodes": spread(load.context.nodes, load.context.table_facts),
        "rows": rows,
        **evidence_of_state(state, rows_of_shards, beside=beside),
        "structure": structure,
        "base": load.base,
        "increments": increment.number if increment else 0,
        # Whoever comes by this node alone learns where the rest of the month is.
        "details": {**({"cluster": load.context.cluster} if load.context.cluster else {}), **(details or {})},
    }


def _reading_settings(request: LoadRequest, context: TargetContext) -> SettingValues:
    types = [ColumnType(each.type) for each in context.table_facts.columns]
    settings = reading_settings(
        request.selection.csv,
        is_selected=bool(request.selection.select),
        has_nested_containers=any(map(lacks_elements_of_containers, types)),
        has_escaped_labels=any(map(has_escaped_labels, types)),
        has_shapes=any(_SHAPES.search(each.text) for each in types),
    )
    known, own = context.known_settings, request.settings
    return {name: value for name, value in settings.items() if name in known and name not in own}


def evidence_of_state(
    state: PartitionState, rows_of_shards: Mapping[int, int] | None = None, *, beside: Contents = NOTHING_BESIDE
) -> dict[str, str | int]:
    """Return the columns of a record by which the partition is recognized later.

    Args:
        state: The partition.
        rows_of_shards: Rows of the month on each shard; None if not known yet.
        beside: What a crash may show beside the partition.
    """
    return {
        "min_block": state.min_block,
        "max_block": state.max_block,
        "data_version": state.data_version,
        "evidence": state.evidence(rows_of_shards, beside=beside).as_text(),
    }


def _look_threads(request: LoadRequest, context: TargetContext) -> int:
    given, highest = str(request.settings.get("max_threads", "")), context.known_settings.get("max_threads")
    # Anything but a number is refused with the insert: here the error would be taken for one of a file.
    return int(given) if given.isdecimal() else min(LOOK_THREADS, highest or LOOK_THREADS)
