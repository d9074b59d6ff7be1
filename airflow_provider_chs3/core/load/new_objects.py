"""Decide whether to load a whole period or only its new objects."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise

from airflow_provider_chs3.core.files.file_set import Reading
from airflow_provider_chs3.core.files.source import Source
from airflow_provider_chs3.core.ledger.object_records import objects_table, recorded_objects
from airflow_provider_chs3.core.ledger.partition_state import Evidence, Part, wait_for
from airflow_provider_chs3.core.ledger.period_comparison import evidence_of, is_changed
from airflow_provider_chs3.core.ledger.recording import loaded_as_recorded
from airflow_provider_chs3.core.ledger.records import PeriodOnNode, Record, record_of
from airflow_provider_chs3.core.ledger.table import LedgerKey
from airflow_provider_chs3.core.load.load_request import Policies
from airflow_provider_chs3.core.load.period_load import PeriodLoad, Periods
from airflow_provider_chs3.core.load.publication import Increment
from airflow_provider_chs3.core.model.models import Manifest, Node, ObjectChanges
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.model.quantities import quantity, size_text
from airflow_provider_chs3.core.sql.quoting import Sql, in_table, one_of
from airflow_provider_chs3.core.steps.operations import Gather, QueryNodes, Steps
from airflow_provider_chs3.core.target.node_facts import Target
from airflow_provider_chs3.core.target.privileges import privileges_of_attaching, why_not_granted
from airflow_provider_chs3.core.target.replication import catch_up
from airflow_provider_chs3.core.target.table_facts import TableFacts

#: Engines for which an increment gives the rows of a whole load.
_ENGINES = frozenset(f"{kind}MergeTree" for kind in ("", "Replacing", "Summing", "Aggregating", "Coalescing"))
#: Defaults that depend on other tables: old and new rows would show different states of those.
_LOOKUPS = re.compile(r"\b(dict[A-Z]\w*|joinGet\w*)\s*\(|\(\s*SELECT\b", re.IGNORECASE)
_GROUP_BY_TTL = re.compile(r"\bTTL\b.*\bGROUP BY\b", re.DOTALL)


def find_increments(periods: Periods) -> Steps[dict[Period, str]]:
    """Let periods load only new objects if nothing else changed; return why each is loaded whole, if it is."""
    reasons = periods.apply(_why_whole)
    adding = periods.select(lambda item: not reasons[item.period])
    yield from adding.run_together(_find_increments(adding, reasons))
    periods.merge(adding)
    return reasons


def _find_increments(periods: Periods, reasons: dict[Period, str]) -> Steps[None]:
    context = periods.first.context
    bases = [(item.period, record_of(item.before).base) for item in periods]
    yield from catch_up(context, objects_table(context.ledger))
    looks = (_why_not_attached(periods), recorded_objects(context, bases))
    obstacles, recorded = yield from Gather(name="Look whether published rows can be added to", workflows=looks)
    reasons |= obstacles
    for item, published in zip(periods, recorded, strict=True):
        if not reasons[item.period]:
            load, reasons[item.period] = _plan_increment(item, published)
            periods.items[item.period] = load


def _plan_increment(load: PeriodLoad, published: Manifest) -> tuple[PeriodLoad, str]:
    """Return the load of only the new objects; or the whole load, and the reason."""
    record = record_of(load.before)
    changes, reason = _compare_objects(published, load.manifest, record, load.policies)
    if changes is None:
        return load, reason
    load = replace(load, changes=changes)
    if reason:
        return load, reason
    removed = (*changes.overwritten, *changes.deleted) if load.spread else changes.removed(load.manifest)
    if removed and (reason := _why_not_removed(load, published, changes)):
        return load, f"since the period was published, {changes}, and {reason}"
    new = changes.to_read(load.manifest, removed)
    increment = Increment(
        base=record.base,
        number=record.increments + 1,
        # Rows to remove are found by their object, which its new rows share. Engines that merge rows may keep the
        # newest by block number: attached later, old rows would win. Else published rows come last, which leaves
        # little time for changes by others, and keeps merges that end meanwhile.
        attaches_first=bool(removed) or not load.context.table_facts.is_plain,
        period=load.manifest,
        removed=removed,
    )
    return load.with_objects(new, increment), ""


def _compare_objects(
    published: Manifest, listed: Manifest, record: Record, policies: Policies
) -> tuple[ObjectChanges | None, str]:
    """Return the changes of objects, if known, and why a whole load is needed; empty if it is not."""
    if published.fingerprint != record.fingerprint:
        return None, "the record of the objects loaded before does not match the period's"
    changes = ObjectChanges.between(published, listed)
    is_whole = (changes.overwritten or changes.deleted) and not policies.object_column
    return changes, f"since the period was published, {changes}" if is_whole else ""


def why_table_is_read(
    source: Source, policies: Policies, context: Target, key: LedgerKey, before: Mapping[Node, PeriodOnNode]
) -> Steps[str | None]:
    """Return why a load of a changed table would read all its objects; None if it would not, as far as is known."""
    if reason := _why_not_added(policies, context, before):
        return reason
    _, listed = yield from source.list_periods([key.period])
    record = record_of(before)
    (published,) = yield from recorded_objects(context, [(key.period, record.base)])
    return _compare_objects(published, listed[key.period], record, policies)[1] or None


def find_changes(
    source: Source, context: Target, periods: Mapping[Period, Mapping[Node, PeriodOnNode]]
) -> Steps[dict[Period, str]]:
    """Return the changes of the objects of periods as text, for those with a matching record of objects."""
    records = {period: record_of(before) for period, before in periods.items()}
    bases = [(period, record.base) for period, record in records.items()]
    _, listed = yield from source.list_periods([*records])
    recorded = yield from recorded_objects(context, bases)
    changes = {}
    for (period, record), published in zip(records.items(), recorded, strict=True):
        if published.fingerprint == record.fingerprint:
            changes[period] = _describe_changes(ObjectChanges.between(published, listed[period]), listed[period])
    return changes


def _describe_changes(changes: ObjectChanges, listed: Manifest) -> str:
    overwritten = [unit for unit in listed.objects if unit.path in set(changes.overwritten)]
    told = [quantity(len(changes.new), "new object")] if changes.new else []
    if overwritten:
        last = max(overwritten, key=lambda unit: unit.last_modified)
        when = f"{'' if len(overwritten) == 1 else ', the last one'} at {last.last_modified:%Y-%m-%d %H:%M} UTC"
        told.append(f"{quantity(len(overwritten), 'object')} overwritten{when} ({last.path})")
    if changes.deleted:
        example = f"{changes.deleted[0]}{', …' if len(changes.deleted) > 1 else ''}"
        told.append(f"{quantity(len(changes.deleted), 'object')} deleted ({example})")
    return ", ".join(told)


def describe_objects(load: PeriodLoad, why_whole: str) -> str:
    """Describe the objects that a load reads, for the log; empty if only a whole load is possible."""
    increment, new = load.increment, load.files.manifest
    if increment is None:
        return f"Loading all objects: {why_whole}." if why_whole else ""
    if increment.removed:
        return (
            f"Loading only {quantity(len(new.objects), 'object')} of {size_text(new.size_bytes)}, and removing the "
            f"rows of {quantity(len(increment.removed), 'object')}: since the period was published, {load.changes}."
        )
    what = "new object" if len(new.objects) == 1 else f"{len(new.objects)} new objects"
    return f"Loading only the {what}, {size_text(new.size_bytes)}: the others are published."


def why_not_alone(load: PeriodLoad, reading: Reading) -> str:
    """Return why the new objects cannot be loaded alone, by their columns; empty if they can."""
    if reading.depends_on:
        return f"select calls {reading.depends_on}, whose value may have changed since"
    loaded = (loaded_column.column.name for loaded_column in reading.loaded)
    if not loaded_as_recorded(record_of(load.before).structure, loaded, reading.names):
        return "the new objects have other columns than the earlier ones"
    return ""


def _why_whole(load: PeriodLoad) -> str:
    if load.retry_state.whole and load.policies.incremental:
        return load.retry_state.whole.rstrip(".")
    if load.request.reload and load.policies.incremental:
        return "this run requests a reload"
    return _why_not_added(load.policies, load.context, load.before)


def _why_not_added(policies: Policies, context: Target, before: Mapping[Node, PeriodOnNode]) -> str:
    table_facts = context.table_facts
    if not policies.incremental:
        return "increments={'incremental': False}"
    if context.absent:
        return f"{', '.join(map(str, context.absent))} is down"
    if not all(facts.objects for facts in context.nodes.values()):
        return "a node has no record of the objects that were loaded before"
    if reason := why_whole(table_facts):
        return reason
    if reason := why_no_base(before, table_facts):
        return reason
    if json.loads(record_of(before).structure).get("engine") != table_facts.definition:
        return "engine, keys or TTL of the table changed since it was published"
    increments = record_of(before).increments
    if not table_facts.keeps_every_row and increments >= policies.max_increments:
        return f"{increments} loads have added to it (increments['max_increments']={policies.max_increments})"
    return ""


def _why_not_attached(periods: Periods) -> Steps[dict[Period, str]]:
    """Find why published rows cannot be attached to staging: missing privileges, or detached parts."""
    context, target = periods.first.context, periods.first.context.target
    reason = yield from why_not_granted(tuple(context.nodes), privileges_of_attaching(target, context.ledger))
    if reason or context.table_facts.keeps_every_row:
        return dict.fromkeys(periods.items, reason)
    ids = {
        item.period: {partition.partition_id for on_node in item.before.values() for partition in on_node.each}
        for item in periods
    }
    detached = Sql(
        f"SELECT DISTINCT partition_id FROM system.detached_parts WHERE {in_table(target)} "
        f"AND {one_of('partition_id', sorted(set().union(*ids.values())))}"
    )
    answers = yield from QueryNodes(name="Look for detached parts", sql=dict.fromkeys(context.nodes, detached))
    nodes = {partition_id: node for node, rows in answers.items() for (partition_id,) in rows}
    detached_on = {
        period: next((nodes[key] for key in partition_ids if key in nodes), None)
        for period, partition_ids in ids.items()
    }
    return {period: f"parts of it are detached on {node}" if node else "" for period, node in detached_on.items()}


def why_whole(table_facts: TableFacts) -> str:
    """Return why a table's periods are always loaded whole; empty if increments give the same rows."""
    engine = table_facts.engine.removeprefix("Replicated").removeprefix("Shared")
    if engine not in _ENGINES:
        return f"{table_facts.engine} merges rows, and merged rows do not combine with new ones as all rows would"
    if "replacing_merge_with_cleanup" in table_facts.engine_full:
        return "the table's merges may remove deleted rows (CLEANUP), and a late older version of one would come back"
    if _GROUP_BY_TTL.search(table_facts.engine_full):
        return "the table's TTL aggregates rows"
    if table_facts.may_be_patched:
        return "the table takes lightweight updates, which may apply to other rows once parts are attached"
    defaults = (column.default_expression for column in table_facts.columns)
    if lookup := next(filter(None, map(_LOOKUPS.search, defaults)), None):
        what = f"calls {lookup[1]}" if lookup[1] else "holds a sub-query"
        return f"the default of a column {what}, whose value may have changed since"
    return ""


#: Servers keep the text of a mutation, replicas in Keeper: its nodes hold a megabyte at most.
_MOST_BYTES_OF_PATHS = 250_000
#: Rewriting the rows of the other objects costs up to two fifths of loading them again (measured).
_LARGEST_SHARE = 0.25


def _why_not_removed(load: PeriodLoad, published: Manifest, changes: ObjectChanges) -> str:
    if not load.context.table_facts.keeps_every_row:
        return "merges of this table remove rows, so the rows of other objects may depend on those removed"
    if not load.manifest.objects:
        return "no objects are left"
    gone = {*changes.overwritten, *changes.deleted}
    gone_bytes = sum(unit.size_bytes for unit in published.objects if unit.path in gone)
    if gone_bytes > _LARGEST_SHARE * published.size_bytes:
        return "they held more than a quarter of its bytes"
    return "their paths are too long to remove only their rows" if sum(map(len, gone)) > _MOST_BYTES_OF_PATHS else ""


def why_no_base(periods: Mapping[Node, PeriodOnNode], table_facts: TableFacts) -> str:
    """Return why new rows cannot be added to the published period; empty if they can.

    A load that finds its period unchanged writes nothing, and the next whole load heals any oversight. An increment
    would build on it forever, so this check is stricter than `core.ledger.period_comparison`.
    """
    for node, period in periods.items():
        for partition in period.recorded:
            if reason := _why_changed(partition, table_facts):
                return f"{reason} (on {node})"
    records = (period.record for period in periods.values() if period.record)
    if len({(record.attempt, record.base, record.increments, record.fingerprint) for record in records}) > 1:
        return "nodes have records of different loads"
    rows_of_replicas = {(node.shard_num, period.state.rows) for node, period in periods.items()}
    shards = {node.shard_num for node in periods}
    if table_facts.is_replicated and table_facts.keeps_every_row and len(rows_of_replicas) > len(shards):
        return "replicas have different rows of it"
    return ""


def _why_changed(period: PeriodOnNode, table_facts: TableFacts) -> str:
    record, state = period.record, period.state
    if record is None or record.event != "published" or not record.base:
        return "it was not published by a load that recorded its objects"
    evidence = evidence_of(record)
    if evidence.parts is None or state.each_part is None:
        return "it has too many parts to compare one by one"
    if is_changed(period, table_facts=table_facts):
        return "it was changed since it was published"
    if wait_for(state.mutations, state.partition_id):
        return "a mutation of it is unfinished"
    if any(part.patches for part in state.each_part):
        return "lightweight updates of it are not yet merged into its parts"
    if any(part.hides_rows for part in state.each_part):
        return "rows of it are deleted, but no merge has removed them yet"
    if _misses_parts(evidence, state.each_part):
        return "parts of it are missing"
    return ""


def _misses_parts(evidence: Evidence, parts: Iterable[Part]) -> bool:
    """Check whether a recorded part is missing, which the comparison with the ledger may permit, and none covers it."""
    spans = sorted((part.min_block, part.max_block) for part in parts)
    overlaps = any(first[1] >= second[0] for first, second in pairwise(spans))
    return overlaps or not all(
        any(first <= part.min_block and part.max_block <= last for first, last in spans)
        for part in evidence.parts or ()
    )
