"""Check a load without starting it: its table, its period, and the settings that it would send."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from airflow_provider_chs3.core.arguments.load_arguments import is_by_arrival
from airflow_provider_chs3.core.doctor.report import Check, describe_error, in_a_line
from airflow_provider_chs3.core.files.describe_files import DataVolume
from airflow_provider_chs3.core.files.source import Source
from airflow_provider_chs3.core.ledger.period_comparison import ComparisonStatus
from airflow_provider_chs3.core.load.arrivals import judge_arrival
from airflow_provider_chs3.core.load.decision import PeriodFacts, Skip
from airflow_provider_chs3.core.load.discovery import warn_of_risks
from airflow_provider_chs3.core.load.failed_insert import explain_sample
from airflow_provider_chs3.core.load.load_request import LoadRequest, parsed_definition
from airflow_provider_chs3.core.load.period_check import judge_period, look_at_period
from airflow_provider_chs3.core.load.period_load import InsertPlan, PeriodLoad
from airflow_provider_chs3.core.load.planning import plan_insert, read_files, read_history
from airflow_provider_chs3.core.load.recorded_load import as_recorded, is_known, knowing_settings_of, newest_structures
from airflow_provider_chs3.core.model.models import Manifest, Node, NodeSpec, Setting, SettingValues
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.model.quantities import quantity
from airflow_provider_chs3.core.model.store_kind import StoreKind
from airflow_provider_chs3.core.steps.fan_out import capturing_logs
from airflow_provider_chs3.core.steps.operations import Steps
from airflow_provider_chs3.core.target.node_capacity import NodeNow, ask_nodes_now
from airflow_provider_chs3.core.target.node_facts import Target
from airflow_provider_chs3.core.target.period_partitions import grain_of_key, part_of_time, partitions_of_one
from airflow_provider_chs3.core.target.replication import check_databases, check_shards
from airflow_provider_chs3.core.target.target_checks import check_target
from airflow_provider_chs3.core.target.topology import TableRequest
from airflow_provider_chs3.core.tuning.insert_settings import REQUIRED_SETTINGS, load_settings, without_exact
from airflow_provider_chs3.core.tuning.resource_share import ShareOptions, resource_share_of, smallest
from airflow_provider_chs3.exceptions import Chs3Error, ConfigurationError, PreflightError, SourceError

#: A look at the first values takes a moment; only a load reads all of them.
_SAMPLED_OBJECTS, _SAMPLED_ROWS = 5, 10_000
#: The doctor cannot know what a DAG gives a load that has not run yet.
_TO_TELL = "If its DAG sets any, such as select or csv, name the load with --dag or --loads."
#: Hours and days may come late.
_PERIODS_BACK = 3
_IS_DURABLE = re.compile(r"\bfsync_after_insert\s*=\s*1\b")


@dataclass(frozen=True, kw_only=True)
class DoctorRequest(TableRequest):
    """A request for a diagnosis, of a load that is not started if there is a source."""

    now: datetime
    store: StoreKind
    source: Source | None = None
    source_error: str = ""
    period: Period | None = None
    declared: Mapping[str, NodeSpec] = field(default_factory=dict)
    addresses: tuple[str, ...] = ()
    settings: SettingValues = field(default_factory=dict)
    definition: Mapping[str, Any] | None = None
    purposes: tuple[str, ...] = ("load",)
    creates_table: bool = False
    follows_views: bool = False

    @property
    def has_table(self) -> bool:
        """Return whether a table was named."""
        return bool(self.target.table)


def check_table(context: Target, nodes: Collection[Node], *, user_settings: SettingValues) -> Steps[Check]:
    """Check that the table on these nodes can be loaded period by period; not all of them may have answered."""
    try:
        check_target(context, required_settings=REQUIRED_SETTINGS, settings=user_settings)
        check_databases(replace(context, absent=tuple(node for node in nodes if node not in context.nodes)))
        yield from check_shards(context)
    except PreflightError as error:
        return Check(name="table", findings=tuple(map(in_a_line, error.findings)))
    except Chs3Error:
        # Other checks report a node that does not answer, and missing privileges.
        pass
    table_facts = context.table_facts
    summary = f"{context.target}: {table_facts.engine} PARTITION BY {table_facts.partition_key or 'tuple()'}"
    may_be_lost = (
        "a power cut of all replicas of a shard at once may lose periods that count as published; the next run "
        f"loads them again. fsync_after_insert = 1 on {context.target} prevents that"
    )
    is_durable = not table_facts.is_replicated or _IS_DURABLE.search(table_facts.settings)
    return Check(name="table", summary=summary, remarks=() if is_durable else (may_be_lost,))


def choose_period(request: DoctorRequest, context: Target) -> Steps[Period | None]:
    """Return the period to check: of the load's own length, as one command is about tables of several lengths.

    Returns:
        The newest that has objects, in the period that was named for a load, or of the last three; if there is none,
        the named one, or None.
    """
    source, named, definition = request.source, request.period, request.definition
    if source is None or not request.has_table or (named and definition is None):
        return named
    try:
        if not all(facts.target for facts in context.nodes.values()):
            return named
        by_arrival = is_by_arrival((definition or {}).get("policies"))
        grain = source.arrival_grain if by_arrival else (yield from grain_of_key(context))
        newest = Period.of(request.now.replace(tzinfo=None), grain)
        parts = named.parts(grain) if named else tuple(newest.shifted(-back) for back in range(_PERIODS_BACK))
        if named and parts:
            # Its own, unless a later one in it has objects.
            named = parts[0]
        for period in sorted((part for part in parts if named != part <= newest), reverse=True):
            listed = yield from source.summarize_periods((period,))
            if listed[period].count:
                return period
    except Chs3Error:
        # Other checks report what is wrong with the table, or with the storage.
        pass
    return named


def check_period(
    doctor: DoctorRequest, source: Source, period: Period, context: Target
) -> Steps[tuple[Check, list[Setting]]]:
    """Do everything that a load of the period does before it writes; return the settings that it would send, too."""
    warnings: list[str] = []
    try:
        request = LoadRequest(
            **parsed_definition(doctor.definition or {}),
            period=period,
            source=source,
            target=context.target,
            cluster=context.cluster,
            default_cluster=None,
            staging_database=context.staging_database,
            nonce="doctor",
            now=doctor.now,
            settings=doctor.settings,
            connection_node_specs=doctor.declared,
            follows_views=doctor.follows_views,
        )
        structures = [] if doctor.definition is not None else (yield from newest_structures(context))
        request = as_recorded(request, structures, context)
        context = yield from knowing_settings_of([request], context)
        is_told = doctor.definition is not None or is_known(structures)
        settings, summary = yield from _simulate_load(context, request, warnings, is_told=is_told)
    except PreflightError as error:
        return Check(name=f"period {period}", findings=tuple(map(in_a_line, error.findings))), []
    except Chs3Error as error:
        finding = f"a load of {period} would fail: {describe_error(error)}"
        return Check(name=f"period {period}", findings=(finding,)), []
    return Check(name=f"period {period}", summary=summary, remarks=tuple(map(in_a_line, warnings))), settings


def _simulate_load(
    context: Target, request: LoadRequest, warnings: list[str], *, is_told: bool
) -> Steps[tuple[list[Setting], str]]:
    period, by_arrival = request.period, request.policies.is_by_arrival
    partitions = (yield from part_of_time(context)) if by_arrival else (yield from partitions_of_one(context, period))
    source, manifest = yield from request.source.list_period(period)
    load = PeriodLoad.of(request, context, source=source, manifest=manifest, period_partitions=partitions)
    if by_arrival:
        facts, decision = PeriodFacts(), (yield from judge_arrival(load))
    else:
        facts = yield from look_at_period(replace(load, before=(yield from load.look_up())))
        decision = judge_period(load, facts)
    if isinstance(decision, Skip):
        return [], f"{decision.reason}: a load has nothing to do"
    changed = ComparisonStatus.DEFINITION_CHANGED
    if facts.comparison.status is changed and decision.reason == changed.value and not is_told:
        return [], f"as published by a load with arguments other than the defaults. {_TO_TELL}"
    states = yield from ask_nodes_now(context, partitions.parts)
    yield from capturing_logs(warn_of_risks(load, states), warnings)
    try:
        # The report has what these log in other places.
        reading = yield from capturing_logs(read_files(load), [])
        history = yield from read_history(load)
        plan = yield from capturing_logs(plan_insert(load, states, reading, history), [])
        warnings.append((yield from _look_at_values(load, plan)))
    except (SourceError, ConfigurationError) as error:
        raise error if is_told else SourceError(f"{error} This is for a load without arguments. {_TO_TELL}") from error
    counted = [] if reading.rows is None else [f"{reading.rows:,} rows"]
    sizes = (source.kind.contents.sizes(manifest), *counted)
    where = "the partitions that its rows belong to" if by_arrival else partitions
    summary = f"{', '.join(sizes)}, into {where}: {decision.reason}"
    return without_exact(plan.settings, source.kind), summary


def _look_at_values(load: PeriodLoad, plan: InsertPlan) -> Steps[str]:
    """Convert the values of a sample as the insert does, and return what was looked at."""
    source, objects = load.files.source, load.manifest.objects
    if not source.has_files:
        return "values were not checked: a load finds those that do not fit their columns"
    sample = objects[:: -(-len(objects) // _SAMPLED_OBJECTS) or 1]
    files = replace(
        load.files,
        manifest=Manifest(sample),
        settings={**load.files.settings, **plan.setting_values},
        source=source.read_by(()),
    )
    misfit = yield from explain_sample(files, plan.reading, rows=_SAMPLED_ROWS)
    if misfit:
        raise SourceError(f"{misfit} Found in a sample.")
    of = quantity(len(objects), "object")
    if len(sample) < len(objects):
        of = f"{len(sample)} of {of}"
    return f"the values in the first {_SAMPLED_ROWS:,} rows of {of} fit their columns; a load checks every value"


def check_settings(
    request: DoctorRequest,
    context: Target,
    states: Mapping[Node, NodeNow],
    specs: Mapping[Node, NodeSpec],
    settings: list[Setting],
) -> tuple[Check, list[Setting]]:
    """Report the settings that a load would send; those of any period where only the nodes are known."""
    name = "settings"
    if len(specs) < len(states):
        return Check(name=name, skipped="fix the node specs above first"), []
    if settings:
        return Check(name=name, summary=f"{len(settings)} for {request.period}, each with its reason below"), settings
    if not specs:
        return Check(name=name, skipped="no node reported its capacity"), []
    data = DataVolume(is_on_remote_disk=any(state.is_on_remote_disk for state in states.values()))
    try:
        every = load_settings(
            share=resource_share_of(smallest(specs.values()), ShareOptions(), data, states.values()),
            data=data,
            known=context.known_settings,
            user_settings=request.settings,
            null_as_default=False,
            store=request.store,
        )
    except Chs3Error as error:
        return Check(name=name, findings=(in_a_line(error),)), []
    settings = without_exact(every, request.store)
    summary = f"{len(settings)} for a period of any size: they change once its data is known"
    return Check(name=name, summary=summary), settings
