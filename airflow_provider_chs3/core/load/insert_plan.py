"""Plan the insert of a load: its columns and settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from airflow_provider_chs3.core.files.data_volume import shape_of
from airflow_provider_chs3.core.files.file_groups import Reading
from airflow_provider_chs3.core.files.file_schema import read_columns
from airflow_provider_chs3.core.load.history import TableHistory
from airflow_provider_chs3.core.load.period_load import InsertPlan, PeriodLoad
from airflow_provider_chs3.core.load.retry_policy import RetryState, lower_settings
from airflow_provider_chs3.core.model.models import Node, Setting
from airflow_provider_chs3.core.model.quantities import size_text
from airflow_provider_chs3.core.sql.complete_answers import WITHOUT_ABSENT
from airflow_provider_chs3.core.steps.operations import Log, Steps
from airflow_provider_chs3.core.target.node_capacity import NodeNow, SizedNode, size_nodes
from airflow_provider_chs3.core.tuning.insert_settings import load_settings, settings_table, without_exact
from airflow_provider_chs3.core.tuning.resource_share import ResourceShare, resource_share_of, smallest


def read_files(load: PeriodLoad) -> Steps[Reading]:
    """Find the columns and types of the files, and the columns to load.

    Raises:
        SourceError: If files lack a column or contradict each other.
        ConfigurationError: If columns or expressions do not fit.
    """
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
    """Compute the settings, and log the nodes' specs and the settings with their reasons.

    Raises:
        TransientError: If even the lowest memory settings did not suffice.
        ConfigurationError: If settings or node specs do not fit.
    """
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
        periods=None if load.period_partitions.of_part else len(load.attempt.periods),
    )
    retry_state = yield from _remember_memory(load, history, share.memory_bytes)
    settings = (*lower_settings(computed, retry_state), *_settings_without_absent(load))
    yield from _log_plan(nodes, share, without_exact(settings, request.source.kind))
    return InsertPlan(
        reading=reading,
        settings=settings,
        memory_bytes=share.memory_bytes,
        memory_steps=retry_state.memory_steps,
    )


def _settings_without_absent(load: PeriodLoad) -> tuple[Setting, ...]:
    known, given = load.context.known_settings, load.request.settings
    names = [name for name in WITHOUT_ABSENT if load.context.absent and name in known and name not in given]
    return tuple(Setting(name, WITHOUT_ABSENT[name], "no waiting for replicas that are down") for name in names)


def _remember_memory(load: PeriodLoad, history: TableHistory, memory_bytes: int) -> Steps[RetryState]:
    """Start with the memory settings that the table's newest load ended with, so as not to run out of memory again.

    A step halves the blocks, so that load is ignored only if twice its memory is available: measurements of a node
    always differ.
    """
    steps = 0 if memory_bytes > 2 * history.memory_bytes else history.memory_steps
    if steps:
        yield from Log(name=f"The last load of {load.context.target} ran out of memory, so this one starts with less.")
    return replace(load.retry_state, memory_steps=load.retry_state.memory_steps + steps)


def _log_plan(nodes: Mapping[Node, SizedNode], share: ResourceShare, settings: Sequence[Setting]) -> Steps[None]:
    lines = "\n".join(f"  {node}: {sized}" for node, sized in nodes.items())
    yield from Log(name=f"Nodes:\n{lines}")
    memory = size_text(share.memory_bytes) if share.memory_bytes else "an unknown part"
    yield from Log(
        name=f"This load may use {share.cores} of {share.node_cores} cores and {memory} of memory on each "
        f"node{share.remarks}."
    )
    yield from Log(name=f"Settings, apart from those that make every load exact:\n{settings_table(settings)}")
