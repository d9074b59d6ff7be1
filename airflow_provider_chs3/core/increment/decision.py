"""Decide whether a month is loaded whole, or its new objects alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from airflow_provider_chs3.core.attempt.load_context import Increment, LoadContext
from airflow_provider_chs3.core.attempt.resume import ResumableLoad
from airflow_provider_chs3.core.files.file_groups import Reading
from airflow_provider_chs3.core.increment.base import why_no_base
from airflow_provider_chs3.core.increment.eligibility import attaches_first, why_whole
from airflow_provider_chs3.core.increment.removal import why_not_removed
from airflow_provider_chs3.core.ledger.comparison import ComparisonStatus
from airflow_provider_chs3.core.ledger.records import MonthOnNode, Record
from airflow_provider_chs3.core.ledger.structure_record import loaded_as_recorded
from airflow_provider_chs3.core.object_history.records import recorded_objects
from airflow_provider_chs3.core.object_history.replaced import objects_to_read, removed_objects
from airflow_provider_chs3.core.preflight.privileges import privileges_of_attaching, why_not_granted
from airflow_provider_chs3.core.sql.quoting import Sql, literal
from airflow_provider_chs3.core.values.models import Manifest, Node, ObjectChanges
from airflow_provider_chs3.core.values.quantities import quantity, size_text
from airflow_provider_chs3.core.workflow.operations import QueryNodes, Steps


class Decision(NamedTuple):
    """How a month is loaded.

    Args:
        load: The load: of the new objects alone, or of all.
        text: What to log of it.
    """

    load: LoadContext
    text: str


def find_increment(load: LoadContext, before: Mapping[Node, MonthOnNode], found: ComparisonStatus) -> Steps[Decision]:
    """Load only the new objects if the month is as it was published, and objects were only added since.

    Args:
        load: The load of all objects.
        before: The month on each node.
        found: The comparison with the ledger.
    """
    if found is not ComparisonStatus.OBJECTS_CHANGED or not load.files.source.has_files:
        return Decision(load, "")
    why = yield from _why_whole(load, before)
    if why:
        return Decision(load, f"Loading all objects: {why}.")
    record = _record_of(before)
    node = load.context.coordinator
    published = yield from recorded_objects(load.context.ledger, node, load.key_on(node), base=record.base)
    if published.fingerprint != record.fingerprint:
        return Decision(load, "Loading all objects: the record of those loaded before does not match the month's.")
    changes = ObjectChanges.between(published, load.manifest)
    load = replace(load, changes=changes)
    removed = removed_objects(changes, load.manifest)
    if removed and not load.request.policies.object_column:
        return Decision(load, f"Loading all objects: since the month was published, {changes}.")
    if removed and (why := why_not_removed(load, published, removed)):
        return Decision(load, f"Loading all objects: since the month was published, {changes}, and {why}.")
    new = objects_to_read(changes, load.manifest, removed)
    increment = Increment(
        base=record.base,
        number=record.increments + 1,
        # The rows to remove are found by their object, which new ones of it share.
        attaches_first=bool(removed) or attaches_first(load.context.table_facts),
        month=load.manifest,
        removed=removed,
    )
    return Decision(load.of_increment(increment, new), _text(increment, new, changes))


def _text(increment: Increment, new: Manifest, changes: ObjectChanges) -> str:
    size = size_text(new.size_bytes)
    if increment.removed:
        return (
            f"Loading only {quantity(len(new.objects), 'object')} of {size}, and removing the rows of "
            f"{quantity(len(increment.removed), 'object')}: since the month was published, {changes}."
        )
    what = "new object" if len(new.objects) == 1 else f"{len(new.objects)} new objects"
    return f"Loading only the {what}, {size}: the others are published."


def why_not_alone(load: LoadContext, before: Mapping[Node, MonthOnNode], reading: Reading) -> str:
    """Return why the new objects cannot be loaded alone, judging by what is read from them; empty if they can.

    Args:
        load: The load of the new objects.
        before: The month on each node.
        reading: What is read from the new objects.
    """
    if reading.depends_on:
        return f"select calls {reading.depends_on}, whose value may have changed since"
    loaded = (each.column.name for each in reading.loaded)
    if not loaded_as_recorded(_record_of(before).structure, loaded, reading.names):
        return "the new objects have other columns than the earlier ones"
    return ""


def load_of_resumable(load: LoadContext, resumable: ResumableLoad, listed: Manifest) -> Steps[LoadContext]:
    """Give a load the objects that a resumable one reads.

    Args:
        load: The load.
        resumable: The record of the load that an earlier process began.
        listed: The month's objects now.

    Raises:
        ObjectsChangedError: If objects changed since.
    """
    month = resumable.manifest_in(listed)
    if resumable.increment is None:
        return load.of_objects(month)
    node = load.context.coordinator
    published = yield from recorded_objects(
        load.context.ledger, node, load.key_on(node), base=resumable.increment["base"]
    )
    return load.of_increment(*resumable.increment_of(month, published))


def _why_whole(load: LoadContext, before: Mapping[Node, MonthOnNode]) -> Steps[str]:
    request, context = load.request, load.context
    policies, table_facts = request.policies, context.table_facts
    if not policies.incremental:
        return "increments={'incremental': False}"
    if load.retry_state.whole:
        return load.retry_state.whole.rstrip(".")
    if request.reload:
        return "this run requests a reload"
    if context.absent:
        return f"{', '.join(map(str, context.absent))} is down"
    if not all(facts.objects for facts in context.nodes.values()):
        return "a node has no record of the objects that were loaded before"
    if why := why_whole(table_facts):
        return why
    if why := why_no_base(before, table_facts):
        return why
    if json.loads(_record_of(before).structure).get("engine") != table_facts.definition:
        return "engine, keys or TTL of the table changed since it was published"
    increments = _record_of(before).increments
    if not table_facts.keeps_every_row and increments >= policies.max_increments:
        return f"{increments} loads have added to it (increments['max_increments']={policies.max_increments})"
    return (yield from _why_not_attached(load))


def _why_not_attached(load: LoadContext) -> Steps[str]:
    """Return why published rows cannot be attached to staging: no privilege, or detached parts."""
    context, target = load.context, load.context.target
    if why := (yield from why_not_granted(tuple(context.nodes), privileges_of_attaching(target, context.ledger))):
        return why
    if context.table_facts.keeps_every_row:
        return ""
    detached = Sql(
        f"SELECT count() FROM system.detached_parts WHERE database = {literal(target.database)} "
        f"AND table = {literal(target.table)} AND partition_id = {literal(load.key.partition_id)}"
    )
    found = yield from QueryNodes(name="Look for detached parts", sql=dict.fromkeys(context.nodes, detached))
    if nodes := [node for node, rows in found.items() if rows[0][0]]:
        return f"parts of it are detached on {nodes[0]}"
    return ""


def _record_of(before: Mapping[Node, MonthOnNode]) -> Record:
    record = next(iter(before.values())).record
    assert record is not None  # a month that is published has one on every node
    return record
