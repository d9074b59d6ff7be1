"""Plan an insert of periods: objects, columns and settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from airflow_provider_chs3.core.files.file_groups import Reading
from airflow_provider_chs3.core.load.discovery import needed_by
from airflow_provider_chs3.core.load.history import TableHistory, read_history
from airflow_provider_chs3.core.load.insert_plan import plan_insert, read_files
from airflow_provider_chs3.core.load.new_columns import settle_new_columns
from airflow_provider_chs3.core.load.new_objects import why_not_alone
from airflow_provider_chs3.core.load.period_check import check_whole
from airflow_provider_chs3.core.load.period_load import GroupOfFiles, InsertPlan, PeriodLoad, Periods, periods_of
from airflow_provider_chs3.core.load.retry_policy import RetryState
from airflow_provider_chs3.core.load.warnings import warn_of_risks
from airflow_provider_chs3.core.load.whole_objects import prove_whole
from airflow_provider_chs3.core.model.models import Manifest
from airflow_provider_chs3.core.model.quantities import quantity
from airflow_provider_chs3.core.steps.operations import Gather, Log, Steps
from airflow_provider_chs3.core.target.node_capacity import ask_nodes_now
from airflow_provider_chs3.core.target.partition_key import is_of_period, parts_of_key, time_of_key
from airflow_provider_chs3.core.target.privileges import privilege_of_filling, why_not_granted
from airflow_provider_chs3.core.target.profile_constraints import check_passed_on, check_taken

#: With more bytes, inspecting the files is a small part of the load, and provides row counts for its progress.
_MOST_BYTES = 1024**3


def plan_periods(periods: Periods) -> Steps[tuple[PeriodLoad, Periods] | None]:
    """Plan the insert: only new objects of a period if possible, else all.

    Returns:
        The load of all objects, and the periods, with their plans; None if several periods cannot be loaded together.
        Periods that turn out to need a whole load are left out.

    Raises:
        Chs3Error: As in `plan_objects`.
    """
    if len(periods.items) > 1:
        return (yield from _plan_several(periods))
    item = periods.first
    plan = yield from plan_objects(item)
    if item.increment and (reason := why_not_alone(item, item.before, plan.reading)):
        check_whole(item, item.facts(item.before), reason)
        yield from Log(name=f"Loading all objects: {reason}.")
        item = item.with_all_objects()
        plan = yield from plan_objects(item)
    load = yield from replace(item, plan=plan).end_step("plan")
    return load, periods_of(load)


def _plan_several(periods: Periods) -> Steps[tuple[PeriodLoad, Periods] | None]:
    context = periods.first.context
    if reason := (yield from why_not_granted(tuple(context.nodes), [privilege_of_filling(context.ledger)])):
        yield from Log(name=f"Loading {len(periods.items)} periods one by one: {reason}.")
        return None
    several = list(periods)
    load = _merge_loads(several)
    plan = yield from plan_objects(load)
    same = [item for item in several if not _differs(item, plan)]
    if len(same) < len(several):
        if len(same) < 2:
            return None
        load, several = _merge_loads(same), same
        plan = yield from plan_objects(load)
    planned = yield from plan_together(several, plan)
    if planned is None:
        return None
    load = yield from planned[0].end_step("plan")
    yield from Log(
        name=f"Loading {load.periods} together: {load.files.manifest.sizes}, {quantity(len(context.nodes), 'node')}."
    )
    return load, planned[1]


def plan_together(several: Sequence[PeriodLoad], plan: InsertPlan) -> Steps[tuple[PeriodLoad, Periods] | None]:
    """Plan periods as a single insert, and return its load; None if no column shows the period of a row."""
    load = _merge_loads(several)
    of_time = time_of_key(load.context)
    if of_time is None:
        return None
    column = next(
        (loaded_column for loaded_column in plan.reading.loaded if loaded_column.column.name == of_time.column.name),
        None,
    )
    if column is None:
        return None
    key = yield from parts_of_key(load.context, of_time)
    written = column.cast(null_as_default=False).value
    condition = is_of_period(of_time.column, key, written, _partition_values(several), load.request.source.kind.path)
    load = replace(load, plan=plan, group=_make_group(several, is_of_period=condition))
    return load, periods_of(*(replace(item, plan=plan_of(load, item)) for item in several))


def _merge_loads(periods: Sequence[PeriodLoad]) -> PeriodLoad:
    """Return a load of the objects of all periods."""
    objects = (unit for period in periods for unit in period.files.manifest.objects)
    first, attempt = periods[0], replace(periods[0].attempt, periods=tuple(period.period for period in periods))
    load = replace(first, attempt=attempt, increment=None, changes=None, group=_make_group(periods, is_of_period="1"))
    return load.with_objects(Manifest.of(objects))


def _make_group(periods: Sequence[PeriodLoad], *, is_of_period: str) -> GroupOfFiles:
    return GroupOfFiles(
        is_of_period=is_of_period,
        largest_bytes=max(period.files.manifest.size_bytes for period in periods),
    )


def _differs(period_load: PeriodLoad, plan: InsertPlan) -> bool:
    return period_load.increment is not None and bool(why_not_alone(period_load, period_load.before, plan.reading))


def _partition_values(periods: Sequence[PeriodLoad]) -> Mapping[str, str]:
    return {unit.path: period.period_partitions.value for period in periods for unit in period.files.manifest.objects}


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


def plan_objects(load: PeriodLoad) -> Steps[InsertPlan]:
    """Inspect the nodes and the objects of the load, and plan its insert.

    Raises:
        PreflightError: If the nodes have no room, or settings are forbidden.
        SourceError: If an object was cut off, lacks a column or contradicts the others.
        ConfigurationError: If columns, expressions, settings or node specs do not fit.
        TransientError: If the target has too many parts, or memory did not suffice before.
        ColumnsAddedError: If the target got columns that the files have.

    Returns:
        The plan. If it relies on expected files, they are inspected during the insert, which then raises their errors.
    """
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
    # The estimate of its rows proves nothing.
    return replace(plan, reading=reading.of_others or reading, is_expected=True) if is_expected else plan


def _read_files_or_history(load: PeriodLoad) -> Steps[tuple[TableHistory, Reading]]:
    """Look up earlier loads, and inspect the files unless they are as expected."""
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
