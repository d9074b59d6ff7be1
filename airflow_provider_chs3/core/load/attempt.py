"""One attempt at periods: list → inspect → compare → plan → stage → insert → verify → publish → record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Event
from types import MappingProxyType

from airflow_provider_chs3.core.files.file_set import Reading
from airflow_provider_chs3.core.ledger.object_records import make_objects_table
from airflow_provider_chs3.core.ledger.partition_state import PartitionState
from airflow_provider_chs3.core.ledger.period_comparison import ComparisonStatus
from airflow_provider_chs3.core.ledger.table import make_ledger, make_loads_table
from airflow_provider_chs3.core.load.arrival_periods import find_periods, result_of_arrival, share_out
from airflow_provider_chs3.core.load.arrivals import drop_published_staging, find_changed, is_being_published
from airflow_provider_chs3.core.load.checks import try_checks
from airflow_provider_chs3.core.load.decision import LoadResult
from airflow_provider_chs3.core.load.discovery import list_and_inspect
from airflow_provider_chs3.core.load.end_attempts import (
    check_not_superseded,
    clean_up,
    drop_dead_groups,
    end_attempts_with,
    end_earlier_attempts,
    end_queries,
    rename_staging,
    take_over,
)
from airflow_provider_chs3.core.load.held_arrivals import as_approved, discard_all, find_held, judge_held
from airflow_provider_chs3.core.load.increment_completion import (
    begin_increments,
    check_bases,
    complete_increments,
    look_at_bases,
)
from airflow_provider_chs3.core.load.insert import Verified, await_insert, explain, insert, list_again, verify
from airflow_provider_chs3.core.load.kept_versions import drop_held_of
from airflow_provider_chs3.core.load.load_request import LoadRequest
from airflow_provider_chs3.core.load.outcome import record_arrival, record_loads, record_unchanged, result_of
from airflow_provider_chs3.core.load.period_check import check_periods, judge_without_objects, sizes_text
from airflow_provider_chs3.core.load.period_load import PeriodLoad, Periods, periods_of
from airflow_provider_chs3.core.load.planning import (
    plan_objects,
    plan_of,
    plan_periods,
    plan_together,
    read_files,
    settle_new_columns,
)
from airflow_provider_chs3.core.load.publication import PartitionStates, check_none_newer, count_partitions, look_up_all
from airflow_provider_chs3.core.load.publish import publish
from airflow_provider_chs3.core.load.resume import (
    DoneInsert,
    ResumableLoad,
    load_of_resumable,
    record_insert,
    seconds_of,
)
from airflow_provider_chs3.core.load.retry_policy import RetryState
from airflow_provider_chs3.core.load.shared_table import publish_from_shared_table
from airflow_provider_chs3.core.load.staging_tables import Attempt, create_staging
from airflow_provider_chs3.core.model.error_codes import QUERY_WAS_CANCELLED
from airflow_provider_chs3.core.model.models import Manifest, Node
from airflow_provider_chs3.core.model.period import Period, range_text
from airflow_provider_chs3.core.steps.driving import NO_STEPS, StepTimer, start_timer
from airflow_provider_chs3.core.steps.operations import Gather, Log, Sleep, Steps
from airflow_provider_chs3.core.target.node_facts import Target
from airflow_provider_chs3.core.target.period_partitions import part_of_time, partitions_of
from airflow_provider_chs3.core.target.replication import find_replicas
from airflow_provider_chs3.core.target.target_checks import check_target
from airflow_provider_chs3.core.tuning.insert_settings import REQUIRED_SETTINGS
from airflow_provider_chs3.exceptions import (
    Chs3Error,
    ClickHouseConnectionError,
    ClickHouseServerError,
    FilesDifferError,
    InsertLostError,
    SupersededError,
)


@dataclass(kw_only=True)
class Round:
    """Periods that an attempt loads, and what became of them."""

    periods: tuple[Period, ...]
    retry_state: RetryState = field(default_factory=RetryState)
    timer: StepTimer = NO_STEPS
    resumable: ResumableLoad | None = None
    context: Target | None = None
    partings: int = 0
    results: dict[Period, LoadResult] = field(default_factory=dict)
    refused: dict[Period, Chs3Error] = field(default_factory=dict)
    errors: dict[Period, Chs3Error] = field(default_factory=dict)
    loads: dict[Period, PeriodLoad] = field(default_factory=dict)
    error: Chs3Error | None = None

    def add(self, period: Period, outcome: LoadResult | Chs3Error | None) -> None:
        """Add the result or the error of a period that is not loaded, if there is one."""
        if isinstance(outcome, LoadResult):
            self.results[period] = outcome
        elif outcome:
            self.refused[period] = outcome

    def has(self, period: Period) -> bool:
        """Check whether a period has a result or an error."""
        return any(period in outcomes for outcomes in (self.results, self.refused, self.errors))


def attempt(request: LoadRequest, load_round: Round, nonce: str) -> Steps[None]:
    """Load the periods of a round."""
    if load_round.timer is NO_STEPS:
        load_round.timer = yield from start_timer()
    try:
        if load_round.resumable:
            yield from _resume_insert(request, load_round, load_round.resumable, nonce)
        else:
            yield from _load_round(request, load_round, nonce)
    except Chs3Error as error:
        load_round.error = error


def _load_round(request: LoadRequest, load_round: Round, nonce: str) -> Steps[None]:
    listed, context, timer = yield from list_and_inspect(
        request, load_round.periods, load_round.timer, load_round.context
    )
    load_round.refused.update(listed.failed)
    manifests = dict(listed.manifests)
    if not any(facts.target for facts in context.nodes.values()):
        for period, manifest in listed.manifests.items():
            load_round.add(period, judge_without_objects(request, period, len(manifest.objects), timer))
        manifests = {period: manifest for period, manifest in manifests.items() if not load_round.has(period)}
    if not manifests:
        return
    column = request.policies.object_column
    check_target(context, required_settings=REQUIRED_SETTINGS, object_column=column, settings=request.settings)
    context = yield from find_replicas(context)
    is_spread = request.policies.is_by_arrival
    if is_spread:
        partitions = dict.fromkeys(manifests, (yield from part_of_time(context)))
    else:
        partitions = yield from partitions_of(context, sorted(manifests))
    make = partial(
        PeriodLoad.of, request, context, nonce=nonce, retry_state=load_round.retry_state, source=listed.source
    )
    load_round.loads = {
        period: make(period=period, manifest=manifest, period_partitions=partitions[period], timer=timer)
        for period, manifest in manifests.items()
    }
    yield from (_load_arrival if is_spread else _load_changed)(load_round)


def _load_arrival(load_round: Round) -> Steps[None]:
    """Load the changed objects of an arrival into the periods that their rows belong to."""
    ((period, load),) = load_round.loads.items()
    timer, is_approval = (yield from load.timer.end("inspect")), load.request.is_approval
    load = yield from find_changed(replace(as_approved(load) if is_approval else load, timer=timer))
    held = (yield from find_held(load.context)).get(str(period), {})
    assert load.changes
    assert load.spread
    if not (load.manifest.objects or (load.spread.recorded and not load.changes.deleted)):
        load_round.add(period, judge_without_objects(load.request, period, 0, timer))
        if load_round.has(period):
            return
    if not (load.changes.counts or load.spread.unfinished or load.spread.changed):
        yield from drop_published_staging(load)
        yield from record_unchanged([load])
        yield from discard_all(load.context, held)
        unchanged = result_of(load, {}, status="unchanged", reason=ComparisonStatus.UNCHANGED.value)
        load_round.results[period] = replace(unchanged, of_periods=())
        return
    if waiting := judge_held(load, held, is_approval=is_approval):
        load_round.results[period] = replace(waiting, of_periods=())
        return
    again = ", ".join(map(str, sorted(load.spread.changed.union(load.spread.unfinished))))
    yield from Log(name=f"{period}: {str(load.changes) or f'{again} not as published'}. {sizes_text(load)}")
    load_round.loads[period] = load
    load = yield from plan_objects(load)
    load = yield from load.end_step("plan")
    yield from _load_planned(load, periods_of(load), load_round)
    if period in load_round.results:
        touched = {of.period for of in load_round.results[period].of_periods or ()}
        yield from discard_all(load.context, {other: nodes for other, nodes in held.items() if other not in touched})


def _load_changed(load_round: Round) -> Steps[None]:
    loads = Periods(load_round.loads)
    done, periods, attempts = yield from check_periods(loads)
    if len(load_round.loads) > 1:
        yield from drop_dead_groups(load_round.loads.values(), attempts)
    load_round.results.update(done)
    load_round.refused.update(loads.failed)
    if not periods.items:
        return
    planned = yield from plan_periods(periods)
    if planned:
        yield from _load_planned(*planned, load_round)


def _load_planned(load: PeriodLoad, periods: Periods, load_round: Round) -> Steps[None]:
    context = load.context
    yield from try_checks(load)
    attempts = dict.fromkeys((load.attempt, *(period.attempt for period in periods)))
    beginning = (_make_record_tables(context), end_earlier_attempts(context, *attempts))
    yield from Gather(name="Make the tables of records, and end earlier attempts", workflows=beginning)
    context = context.with_ledger(with_loads=True)
    load = replace(load, context=context)
    periods.update(lambda item: replace(item, context=context))
    try:
        yield from create_staging(context, load.attempt)
        yield from _stage_and_publish(load, periods, load_round)
    except Exception:
        if not (load.spread and (yield from is_being_published(load))):
            yield from clean_up(load)
        raise


def _make_record_tables(context: Target) -> Steps[None]:
    # One after the other, because separate connections would take longer.
    yield from make_ledger(context, context.nodes)
    yield from make_objects_table(context)
    yield from make_loads_table(context)


def _stage_and_publish(
    load: PeriodLoad,
    periods: Periods,
    load_round: Round,
    done: Sequence[DoneInsert] = (),
    late: Mapping[Period, Chs3Error] = MappingProxyType({}),
) -> Steps[None]:
    """Insert, verify and publish staged periods, record the outcome, and drop the staging."""
    attempts = [load.attempt]
    try:
        if load.group is None:
            yield from take_over(load.context, load.attempt)
            yield from begin_increments(periods)
            load = periods.unwrap()
        load = yield from load.end_step("stage")
        record = partial(record_insert, load, list(periods))
        if load.planned.is_expected:
            load, done = yield from _insert_as_expected(load, periods, record)
        else:
            done = yield from insert(load, record=record, done=done)
        load = yield from load.end_step("insert", at_least_seconds=seconds_of(done))
        looks = (list_again(load, periods), count_partitions(load, name="Count what is staged"), look_at_bases(periods))
        listed, staged, bases = yield from Gather(name="List again, and count what is staged", workflows=looks)
        verified = yield from verify(load, done, periods, listed, staged)
        for period, error in late.items():
            periods.set_aside(period, error)
        check_bases(periods, bases)
        if load.spread:
            periods.unwrap()
            periods = yield from find_periods(load, staged)
            verified = replace(verified, rows={item.period: item.planned.reading.rows or 0 for item in periods})
        load, states = yield from _publish_staged(load, periods, attempts)
    except SupersededError:
        raise
    except Chs3Error as error:
        yield from check_not_superseded(load.context, load.attempt, error)
        raise
    load = yield from load.end_step("publish")
    load_round.errors.update(periods.failed)
    recording = _record_results(load, periods, load_round, states, verified)
    drop = clean_up(load, done=() if periods.failed else attempts)
    yield from Gather(name="Record the load, and drop its staging", workflows=(recording, drop))


def _publish_staged(
    load: PeriodLoad, periods: Periods, attempts: list[Attempt]
) -> Steps[tuple[PeriodLoad, PartitionStates]]:
    """Publish verified periods: the one of its staging, or several from a table of their own."""
    if load.group is None and not load.spread:
        periods.unwrap()
        yield from complete_increments(periods)
        periods.unwrap()
        load = yield from load.end_step("verify")
        states = yield from publish(periods)
        periods.unwrap()
        return load, states
    load = yield from load.end_step("verify")
    yield from Log(name=f"The rows of {load.periods} are staged and verified: publishing period by period.")
    return load, (yield from publish_from_shared_table(load, periods, attempts))


def _record_results(
    load: PeriodLoad,
    periods: Periods,
    load_round: Round,
    states: Mapping[Period, Mapping[Node, PartitionState]],
    verified: Verified,
) -> Steps[None]:
    """Record the loads, with the seconds shared out among them."""
    shares = share_out(load, periods)
    periods.update(lambda item: replace(item, timer=load.timer.scaled(shares[item.period])))
    results = {
        item.period: result_of(
            item,
            states[item.period],
            status="held" if item.held_because else "published",
            reason=item.held_because or item.reason,
            verified=verified,
            share=shares[item.period],
        )
        for item in periods
    }
    together = (load.periods, round(seconds_of(verified.done), 3)) if load.group or load.spread else None
    recording = record_loads(results, periods, together=together)
    if not load.spread:
        yield from recording
    else:
        arrival = result_of_arrival(load, results, verified)
        also = record_arrival(load, is_held=arrival.status == "held")
        yield from Gather(name="Record the arrival and its periods", workflows=(recording, also))
        results = {load.period: arrival}
    load_round.results.update(results)
    replaced = [
        item
        for item in periods
        # A load that died before its claim left a table that no record names.
        if not item.held_because and (item.policies.may_hold or any(period.held for period in item.before.values()))
    ]
    yield from drop_held_of(*replaced)


def _resume_insert(request: LoadRequest, load_round: Round, resumable: ResumableLoad, nonce: str) -> Steps[None]:
    periods, context = list(resumable.periods), resumable.context
    yield from Log(name=f"{range_text(periods)}: resuming attempt {resumable.nonce}, which this task began earlier.")
    source, listed = yield from request.source.list_periods(periods)
    timer = yield from load_round.timer.after(resumable.seconds_by_step).end("list")
    partitions = yield from partitions_of(context, periods)
    make = partial(
        PeriodLoad.of, request, context, nonce=resumable.nonce, retry_state=resumable.retry_state, source=source
    )
    load_round.loads = {
        period: make(period=period, manifest=listed[period], period_partitions=partitions[period], timer=timer)
        for period in periods
    }
    load = load_round.loads[periods[0]]
    try:
        load, rebuilt = yield from _rebuild_plan(resumable, load_round.loads, listed)
        load, done = yield from _take_over_insert(load, resumable, nonce)
        load = yield from load.end_step("insert")
        late = yield from _restore_decisions(load, rebuilt, resumable)
        yield from record_insert(load, list(rebuilt), done, "")
        yield from _stage_and_publish(load, rebuilt, load_round, done, late)
    except Exception as error:
        # The insert may still run after a broken connection: the next try looks for it.
        if not isinstance(error, ClickHouseConnectionError):
            yield from clean_up(load)
        raise


def _rebuild_plan(
    resumable: ResumableLoad, loads: Mapping[Period, PeriodLoad], listed: Mapping[Period, Manifest]
) -> Steps[tuple[PeriodLoad, Periods]]:
    period_loads = list[PeriodLoad]()
    for period, recorded in resumable.periods.items():
        load = yield from load_of_resumable(loads[period], recorded, listed[period])
        period_loads.append(replace(load, plan=resumable.plan))
    if len(period_loads) == 1:
        return period_loads[0], periods_of(*period_loads)
    planned = yield from plan_together(period_loads, resumable.plan)
    assert planned  # Table and objects are unchanged.
    return planned


def _restore_decisions(load: PeriodLoad, periods: Periods, resumable: ResumableLoad) -> Steps[dict[Period, Chs3Error]]:
    """Restore the state by which the load decided; return the periods that other loads have published since."""
    current = dict(zip(periods.items, (yield from look_up_all(list(periods))), strict=True))
    recorded = resumable.periods
    periods.update(
        lambda item: replace(
            item,
            attempt=replace(item.attempt, nonce=load.attempt.nonce),
            timer=load.timer,
            before=recorded[item.period].restore_before(current[item.period]),
        )
    )
    judged = periods.subset(periods.items)
    judged.apply(lambda item: check_none_newer(item.period, recorded[item.period].records, current[item.period]))
    if not judged.items:
        raise next(iter(judged.failed.values()))
    return judged.failed


def _take_over_insert(
    load: PeriodLoad, resumable: ResumableLoad, nonce: str
) -> Steps[tuple[PeriodLoad, tuple[DoneInsert, ...]]]:
    """Wait for the insert to end, and take over its staging."""
    mine = replace(load, attempt=replace(load.attempt, nonce=nonce))
    try:
        done = yield from await_insert(load, resumable)
        yield from rename_staging(load.context, load.attempt.name, to=mine.attempt)
        if load.group:
            # If it died during publication, its table would look like that of a later load.
            yield from end_attempts_with(load.context, resumable.nonce)
    except (ClickHouseServerError, SupersededError) as error:
        was_ended = isinstance(error, SupersededError) or error.code == QUERY_WAS_CANCELLED
        # A cleared task may end only after its next try has begun.
        if was_ended and not load.request.resumes:
            raise InsertLostError(f"Attempt {resumable.nonce} was ended just as this one found it.") from error
        raise
    return mine, done


def _insert_as_expected(
    load: PeriodLoad, periods: Periods, record: Callable[[Sequence[DoneInsert], str], Steps[None]]
) -> Steps[tuple[PeriodLoad, tuple[DoneInsert, ...]]]:
    """Insert into staging by the expected plan, and inspect the files at the same time; their errors come first.

    The load and the periods get the plan of their files; if that is another one, the insert is ended with an error.
    """
    has_ended = Event()
    yield from Log(name="Expecting files like those of the last loads, and checking them during the insert.")
    both = (_read_files_beside(load, has_ended), _try_insert(load, record, has_ended))
    reading, done = yield from Gather(name="Look at the files, and insert", workflows=both)
    load = replace(load, plan=replace(load.planned, reading=reading, is_expected=False))
    periods.update(lambda item: replace(item, plan=plan_of(load, item)))
    if isinstance(done, ClickHouseServerError):
        yield from explain(load, done)
    if isinstance(done, Chs3Error):
        raise done
    return load, done


def _read_files_beside(load: PeriodLoad, has_ended: Event) -> Steps[Reading]:
    try:
        reading: Reading = yield from read_files(load)
        others = reading.of_others
        if others is None or others.as_text != load.planned.reading.as_text:
            raise FilesDifferError(
                f"The files of {load.periods} have other columns or types than those of the last loads."
            )
        yield from settle_new_columns(load, reading)
    except Chs3Error:
        yield from _end_insert(load, has_ended)
        raise
    return reading


def _end_insert(load: PeriodLoad, has_ended: Event) -> Steps[None]:
    """End the insert, even if it has not been sent yet."""
    try:
        while not has_ended.is_set():
            yield from end_queries(load.context, load.attempt)
            yield from Sleep(name="Wait for the insert to end", seconds=1)
    except Chs3Error as error:
        yield from Log(name=f"The insert could not be ended, so it is waited for. ({error})")


def _try_insert(
    load: PeriodLoad, record: Callable[[Sequence[DoneInsert], str], Steps[None]], has_ended: Event
) -> Steps[tuple[DoneInsert, ...] | Chs3Error]:
    """Insert, and return an error instead of raising it: it counts only if the files are as expected."""
    try:
        return (yield from insert(load, record=record, explains=False))
    except Chs3Error as error:
        return error
    finally:
        has_ended.set()
