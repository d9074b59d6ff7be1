"""Plan an insert of periods: objects, columns and settings, by what earlier loads of the table recorded."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_provider_chs3.core.files.describe_files import shape_of
from airflow_provider_chs3.core.files.file_schema import read_columns
from airflow_provider_chs3.core.files.file_set import Files, Reading
from airflow_provider_chs3.core.files.guessed_columns import columns_of
from airflow_provider_chs3.core.files.sample import read_sample
from airflow_provider_chs3.core.files.table_suggestion import new_column
from airflow_provider_chs3.core.load.discovery import needed_by, warn_of_risks
from airflow_provider_chs3.core.load.new_objects import why_not_alone
from airflow_provider_chs3.core.load.outcome import NOT_ALIKE
from airflow_provider_chs3.core.load.period_check import check_whole
from airflow_provider_chs3.core.load.period_load import GroupOfFiles, InsertPlan, PeriodLoad, Periods, periods_of
from airflow_provider_chs3.core.load.retry_policy import RetryState, lower_settings
from airflow_provider_chs3.core.load.row_counts import prove_whole
from airflow_provider_chs3.core.load.staging_tables import Attempt
from airflow_provider_chs3.core.model.models import Manifest, Node, Setting
from airflow_provider_chs3.core.model.quantities import quantity, size_text
from airflow_provider_chs3.core.sql.complete_answers import WITHOUT_ABSENT
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, is_table, literal, table
from airflow_provider_chs3.core.steps.operations import Gather, Log, QueryNodes, Row, Steps
from airflow_provider_chs3.core.target.node_capacity import NodeNow, SizedNode, ask_nodes_now, size_nodes
from airflow_provider_chs3.core.target.partition_key import is_of_period, parts_of_key, time_of_key
from airflow_provider_chs3.core.target.privileges import privilege_of_filling, why_not_granted
from airflow_provider_chs3.core.target.profile_constraints import check_passed_on, check_taken
from airflow_provider_chs3.core.tuning.insert_settings import load_settings, settings_table, without_exact
from airflow_provider_chs3.core.tuning.resource_share import ResourceShare, resource_share_of, smallest
from airflow_provider_chs3.exceptions import ColumnsAddedError, SourceError

#: With more bytes, inspecting the files is a small part of the load, and provides row counts for its progress.
_MOST_BYTES = 1024**3


def plan_periods(periods: Periods) -> Steps[tuple[PeriodLoad, Periods] | None]:
    """Plan the insert: only new objects of a period if possible, else all.

    Returns the load of all objects, and the periods, with their plans, without those that turn out to need a whole
    load; None if several cannot be loaded together.
    """
    if len(periods.items) > 1:
        return (yield from _plan_several(periods))
    load = yield from plan_objects(periods.first)
    if load.increment and (reason := why_not_alone(load, load.planned.reading)):
        check_whole(load, load.facts(load.before), reason)
        yield from Log(name=f"Loading all objects: {reason}.")
        load = yield from plan_objects(load.with_objects(load.manifest))
    load = yield from load.end_step("plan")
    return load, periods_of(load)


def _plan_several(periods: Periods) -> Steps[tuple[PeriodLoad, Periods] | None]:
    context = periods.first.context
    if reason := (yield from why_not_granted(tuple(context.nodes), [privilege_of_filling(context.ledger)])):
        yield from Log(name=f"Loading {len(periods.items)} periods one by one: {reason}.")
        return None
    several = list(periods)
    load = yield from plan_objects(_merge_loads(several))
    same = [item for item in several if not (item.increment and why_not_alone(item, load.planned.reading))]
    if len(same) < len(several):
        if len(same) < 2:
            return None
        several = same
        load = yield from plan_objects(_merge_loads(several))
    planned = yield from plan_together(several, load.planned)
    if planned is None:
        return None
    load = yield from planned[0].end_step("plan")
    yield from Log(
        name=f"Loading {load.periods} together: {load.files.manifest.sizes}, {quantity(len(context.nodes), 'node')}."
    )
    return load, planned[1]


def plan_together(several: Sequence[PeriodLoad], plan: InsertPlan) -> Steps[tuple[PeriodLoad, Periods] | None]:
    """Plan periods as a single insert, and return its load; None if no column shows the period of a row."""
    first, context = several[0], several[0].context
    of_time = time_of_key(context)
    if of_time is None:
        return None
    column = next((loaded for loaded in plan.reading.loaded if loaded.column.name == of_time.column.name), None)
    if column is None:
        return None
    key = yield from parts_of_key(context, of_time)
    written = column.cast.value
    values = {unit.path: item.period_partitions.value for item in several for unit in item.files.manifest.objects}
    condition = is_of_period(of_time.column, key, written, values, first.request.source.kind.path)
    load = _merge_loads(several, plan, is_of_period=condition)
    return load, periods_of(*(replace(item, plan=plan_of(load, item)) for item in several))


def _merge_loads(
    periods: Sequence[PeriodLoad], plan: InsertPlan | None = None, *, is_of_period: str = "1"
) -> PeriodLoad:
    first = periods[0]
    manifests = [period.files.manifest for period in periods]
    return replace(
        first.with_objects(Manifest.of(unit for manifest in manifests for unit in manifest.objects)),
        attempt=Attempt(first.context.target, tuple(period.period for period in periods), first.attempt.nonce),
        changes=None,
        plan=plan,
        group=GroupOfFiles(is_of_period, largest_bytes=max(manifest.size_bytes for manifest in manifests)),
    )


def plan_of(of_all: PeriodLoad, load: PeriodLoad) -> InsertPlan:
    """Return the plan of an insert with the rows of a period's own files."""
    plan = of_all.planned
    if plan.reading.file_rows is None:
        return plan
    rows = {unit.path: count for unit, count in zip(of_all.files.manifest.objects, plan.reading.file_rows, strict=True)}
    file_rows = tuple(rows[unit.path] for unit in load.files.manifest.objects)
    share = sum(file_rows) / max(plan.reading.rows or 0, 1)
    size_bytes = round((plan.reading.uncompressed_bytes or 0) * share)
    return replace(
        plan, reading=replace(plan.reading, rows=sum(file_rows), uncompressed_bytes=size_bytes, file_rows=file_rows)
    )


def plan_objects(load: PeriodLoad) -> Steps[PeriodLoad]:
    """Return the load with the plan of its insert; files expected to be as before are inspected during the insert."""
    settings = {name: value for name, value in load.request.settings.items() if name in load.context.known_settings}
    looks = (
        check_taken(settings),
        check_passed_on(load.context, {**load.files.neutral, **needed_by(load.request), **load.files.settings}),
        ask_nodes_now(load.context, load.period_partitions.parts),
        # Truncated objects may lack columns: the first error counts.
        prove_whole(load),
        _read_files_or_history(load),
    )
    _, _, capacities, _, (history, reading) = yield from Gather(name="Look at nodes and files", workflows=looks)
    is_expected = reading is history.expected
    if not is_expected:
        yield from settle_new_columns(load, reading)
    yield from warn_of_risks(load, capacities)
    plan = yield from plan_insert(load, capacities, reading, history)
    if is_expected:
        # The estimate of its rows proves nothing.
        plan = replace(plan, reading=reading.of_others or reading, is_expected=True)
    return replace(load, plan=plan)


def _read_files_or_history(load: PeriodLoad) -> Steps[tuple[TableHistory, Reading]]:
    history = yield from read_history(load)
    if history.expected and _may_begin(load):
        return history, history.expected
    return history, (yield from read_files(load))


def _may_begin(load: PeriodLoad) -> bool:
    """Check whether an insert may begin before its files are inspected."""
    return (
        not load.request.is_durable
        and load.retry_state == RetryState()
        and load.files.format.name == "Parquet"
        and load.files.source.has_files
        and 0 < load.files.manifest.size_bytes <= _MOST_BYTES
    )


def read_files(load: PeriodLoad) -> Steps[Reading]:
    """Find the columns and types of the files, and the columns to load."""
    if not load.files.manifest.objects:
        return Reading((), rows=0)
    reading = yield from read_columns(load.files, load.request.selection, load.context.table_facts.columns)
    used = {loaded_column.column.name for loaded_column in reading.loaded}
    unused = [name for name in reading.names or () if name not in used]
    if unused and not load.request.selection.select:
        yield from Log(name=f"Columns in the files that are not loaded: {', '.join(unused)}.")
    if len(reading.groups) > 1:
        yield from Log(name=f"Column types differ between files, so they are inserted in {len(reading.groups)} groups.")
    return reading


def plan_insert(
    load: PeriodLoad, capacities: Mapping[Node, NodeNow], reading: Reading, history: TableHistory
) -> Steps[InsertPlan]:
    """Compute the settings, and log the nodes' specs and the settings with their reasons."""
    request, context = load.request, load.context
    nodes = size_nodes(context, capacities, argument=request.node_specs, connection=request.connection_node_specs)
    is_remote = any(capacity.is_on_remote_disk for capacity in capacities.values())
    largest_bytes = load.group.largest_bytes if load.group else None
    data = shape_of(
        load.files, reading, nodes=len(nodes), is_on_remote_disk=is_remote, largest_period_bytes=largest_bytes
    )
    spec = smallest(node.spec for node in nodes.values())
    share = resource_share_of(spec, request.share, data, capacities.values())
    computed = load_settings(
        share=share,
        data=data,
        known=context.known_settings,
        user_settings=request.settings,
        null_as_default=request.selection.null_as_default,
        by_sharding_key=request.policies.distribution == "sharding_key",
        store=request.source.kind,
        periods=None if load.period_partitions.of_part or load.spread else len(load.attempt.periods),
    )
    retry_state = yield from _remember_memory(load, history, share.memory_bytes)
    without_absent = (
        Setting(name, value, "no waiting for replicas that are down")
        for name, value in WITHOUT_ABSENT.items()
        if context.absent and name in context.known_settings and name not in request.settings
    )
    settings = (*lower_settings(computed, retry_state), *without_absent)
    yield from _log_plan(nodes, share, without_exact(settings, request.source.kind))
    memory_steps = retry_state.memory_steps
    return InsertPlan(reading=reading, settings=settings, memory_bytes=share.memory_bytes, memory_steps=memory_steps)


def _remember_memory(load: PeriodLoad, history: TableHistory, memory_bytes: int) -> Steps[RetryState]:
    """Start with the memory settings that the table's newest load ended with, so as not to run out of memory again.

    A step halves the blocks, so that load is ignored only if twice its memory is available: measurements of a node
    always differ.
    """
    steps = 0 if memory_bytes > 2 * history.memory_bytes else history.memory_steps
    if steps:
        yield from Log(name=f"The last load of {load.context.target} ran out of memory, so this one starts with less.")
    return load.retry_state.add(memory_steps=steps)


def _log_plan(nodes: Mapping[Node, SizedNode], share: ResourceShare, settings: Sequence[Setting]) -> Steps[None]:
    lines = "\n".join(f"  {node}: {sized}" for node, sized in nodes.items())
    yield from Log(name=f"Nodes:\n{lines}")
    memory = size_text(share.memory_bytes) if share.memory_bytes else "an unknown part"
    of_node = f"{share.cores} of {share.node_cores} cores and {memory} of memory on each node"
    yield from Log(name=f"This load may use {'; '.join((of_node, *share.notes))}.")
    yield from Log(name=f"Settings, apart from those that make every load exact:\n{settings_table(settings)}")


#: Loads that must have read their files alike: if types change now and then, loads would often start over.
_LOADS_ALIKE = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class TableHistory:
    """The history of a table, with the expected reading of files if its newest loads read theirs alike."""

    memory_steps: int = 0
    memory_bytes: int = 0
    expected: Reading | None = None


def read_history(load: PeriodLoad) -> Steps[TableHistory]:
    """Read the table's history from the first node's ledger."""
    context = load.context
    if not context.nodes[context.coordinator].has_loads:
        return TableHistory()
    of_table = load.key_on(context.coordinator).table_condition
    of_loads = f"FROM {table(context.loads)} WHERE {of_table} AND event = 'load'"
    of_same = f"{of_loads} AND definition = {literal(load.request.definition)} AND reading != ''"
    columns = "reading, loaded_rows, loaded_bytes, uncompressed_bytes"
    selects = (
        f"SELECT (memory_steps, memory_bytes) AS found {of_loads} ORDER BY recorded_at DESC LIMIT 1",
        f"SELECT ({columns}) AS found {of_same} ORDER BY recorded_at DESC LIMIT {_LOADS_ALIKE}",
    )
    # clickhouse-driver cannot read a tuple from a sub-query, which is a Nullable(Tuple(…)).
    arrays = (f"(SELECT groupArray(found) FROM ({select}))" for select in selects)
    sql = Sql(f"SELECT {', '.join(arrays)}")
    ((loads, readings),) = yield from context.on_coordinator(name="Look up earlier loads of the table", sql=sql)
    memory_steps, memory_bytes = loads[0] if loads else (0, 0)
    return TableHistory(memory_steps=memory_steps, memory_bytes=memory_bytes, expected=_expected(load, readings))


def _expected(load: PeriodLoad, rows: Sequence[Row]) -> Reading | None:
    if len({text for text, *_ in rows}) != 1 or rows[0][0] == NOT_ALIKE:
        return None
    text, row_count, size_bytes, uncompressed_bytes = rows[0]
    reading, times = Reading.of_json(json.loads(text)), load.files.manifest.size_bytes / max(size_bytes, 1)
    if not {loaded_column.column for loaded_column in reading.loaded} <= {*load.context.table_facts.columns}:
        return None
    return replace(reading, rows=round(row_count * times), uncompressed_bytes=round(uncompressed_bytes * times))


def settle_new_columns(load: PeriodLoad, reading: Reading) -> Steps[None]:
    """Add missing columns to the target, and inspect it again; or refuse them, as the policy demands."""
    policy, names = load.policies.on_new_columns, reading.names
    if policy == "warn" or not load.files.manifest.objects:
        return
    # With the server's type inference: a load reads all fields as text.
    files = replace(load.files, settings=load.request.selection.csv.settings)
    if names is None and files.format.names_columns:
        names = tuple(column.name for column in (yield from columns_of(files)))
    known = {column.name for column in load.context.table_facts.columns}
    lacking = [name for name in names or () if name not in known]
    if not lacking:
        return
    shown = ", ".join(map(repr, lacking))
    if policy == "fail":
        raise SourceError(
            f"The files of {load.periods} have columns that {load.context.target} lacks: {shown}. Add them to the "
            "table, or load without them with policies={'on_new_columns': 'warn'}."
        )
    yield from _add_columns(load, files, lacking)
    raise ColumnsAddedError(f"The columns {shown} of the files of {load.periods} were added to {load.context.target}.")


def _add_columns(load: PeriodLoad, files: Files, names: Sequence[str]) -> Steps[None]:
    columns = [column for column in (yield from columns_of(files)) if column.name in names]
    sample = yield from read_sample(files, columns, load.period)
    # Existing rows have no value.
    new = [new_column(replace(column, lacking_files=len(files.manifest.objects)), sample) for column in columns]
    shown = "\n".join(f"  {column.name} {column.type}" for column in new)
    yield from Log(name=f"The files of {load.periods} have new columns. Adding them to {load.context.target}:\n{shown}")
    clauses = ", ".join(f"ADD COLUMN IF NOT EXISTS {identifier(column.name)} {column.type}" for column in new)
    context, named = load.context, load.request.target
    sql = Sql(f"ALTER TABLE {table(context.target)} {clauses}")
    # A single replica per shard waits for the others. An ALTER evaluates the table's keys under its session's
    # settings, and REPLACE PARTITION then expects parts of that type.
    of_shards = dict.fromkeys(context.publishers, sql)
    settings = {**context.evaluating, **context.ddl_settings_of(context.target.database), "alter_sync": 2}
    yield from QueryNodes(name=f"Add columns to {context.target}", sql=of_shards, settings=settings)
    if named != context.target:
        has_it = Sql(f"SELECT count() FROM system.tables WHERE {is_table(named)}")
        counts = yield from QueryNodes(name=f"Look for {named}", sql=dict.fromkeys(context.nodes, has_it))
        over = Sql(f"ALTER TABLE {table(named)} {clauses}")
        nodes = [node for node, ((count,),) in counts.items() if count]
        yield from QueryNodes(name=f"Add columns to {named}", sql=dict.fromkeys(nodes, over))
