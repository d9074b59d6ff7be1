"""The load of one month, written once. See docs/protocol.md for the reasons and the invariants.

list → inspect → compare with the ledger → plan → stage → insert → verify → publish → record
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count

from airflow_provider_chs3.core.attempt.discovery import inspect_target_for_load, list_and_inspect
from airflow_provider_chs3.core.attempt.insert_plan import InsertPlan
from airflow_provider_chs3.core.attempt.load_context import LoadContext
from airflow_provider_chs3.core.attempt.resume import (
    DoneInsert,
    InitialState,
    ResumableLoad,
    find_resumable_load,
    record_resumable_load,
)
from airflow_provider_chs3.core.attempt.retry_policy import RetryState, next_retry
from airflow_provider_chs3.core.cluster.node_facts import TargetContext
from airflow_provider_chs3.core.files.parse_errors import file_of
from airflow_provider_chs3.core.increment.completion import begin_increment, complete_increment
from airflow_provider_chs3.core.increment.decision import find_increment, load_of_resumable
from airflow_provider_chs3.core.insertion.insert import await_insert, check_objects, insert, verify
from airflow_provider_chs3.core.ledger.records import MonthOnNode
from airflow_provider_chs3.core.ledger.table import make_ledger
from airflow_provider_chs3.core.load.cleaning import clean_up
from airflow_provider_chs3.core.load.month_check import check_month
from airflow_provider_chs3.core.load.outcome import record_failure, record_load, result_of
from airflow_provider_chs3.core.load.planning import ComparedMonth, plan_load, plan_objects
from airflow_provider_chs3.core.new_table.creation import create_if_missing
from airflow_provider_chs3.core.object_history.table import make_objects_table
from airflow_provider_chs3.core.preflight.replicas import find_replicas
from airflow_provider_chs3.core.preflight.target_checks import check_target, partition_id_of
from airflow_provider_chs3.core.preflight.time_zones import check_zones
from airflow_provider_chs3.core.publication.publish import publish
from airflow_provider_chs3.core.request.load_request import LoadRequest
from airflow_provider_chs3.core.staging.ending import (
    check_not_superseded,
    end_earlier_attempts,
    rename_staging,
)
from airflow_provider_chs3.core.staging.rivals import take_over
from airflow_provider_chs3.core.staging.tables import create_staging
from airflow_provider_chs3.core.tuning.exact_settings import REQUIRED_SETTINGS
from airflow_provider_chs3.core.values.error_codes import QUERY_WAS_CANCELLED, is_terminal
from airflow_provider_chs3.core.values.load_result import LoadResult
from airflow_provider_chs3.core.values.models import Node
from airflow_provider_chs3.core.values.quantities import quantity
from airflow_provider_chs3.core.workflow.operations import Log, Sleep, Steps
from airflow_provider_chs3.core.workflow.step_timer import StepTimer, start_timer
from airflow_provider_chs3.exceptions import (
    Chs3Error,
    ClickHouseConnectionError,
    ClickHouseServerError,
    InsertLostError,
    SourceError,
    SupersededError,
)


def load_month(request: LoadRequest, compared: ComparedMonth | None = None) -> Steps[LoadResult]:
    """Make the month's partition hold exactly the rows of the month's objects.

    The load starts over by itself after errors that pass, or that other settings avoid: objects that change, too little
    memory, servers that are full (see `core.attempt.retry_policy`). If inserts outlive the process that started them,
    the same workflow resumes one that an earlier process of the task started (see `core.attempt.resume`).

    Args:
        request: The request.
        compared: The month, if it was compared with the ledger just now. Default: it is listed and compared first.

    Raises:
        Chs3Error: Any problem; unless it says otherwise, the target is unchanged.
    """
    if (yield from request.is_left_out()):
        why = f"this run reloads {request.reload}"
        return LoadResult(status="skipped", month=request.month, target=request.target, reason=why)
    timer = yield from start_timer()
    if request.new_table:
        yield from create_if_missing(request.new_table, [request.month])
    context = (yield from inspect_target_for_load(request)) if request.is_durable else None
    resumable = (yield from find_resumable_load(request, context)) if context else None
    timer = yield from timer.end("inspect")
    retry_state = resumable.retry_state if resumable else RetryState()
    for number in count():
        try:
            if resumable and not number:
                return (yield from _go_on(request, resumable, timer))
            attempt = replace(request, nonce=f"{request.nonce}{number or ''}")
            if compared and not number:
                load = replace(compared.load, request=attempt)
                return (yield from _recording_failure(load.whole(), _load_compared(replace(compared, load=load))))
            return (yield from _load(attempt, retry_state, timer, context))
        except Chs3Error as error:
            again = next_retry(error, retry_state) if request.policies.write_mode == "replace" else None
            if again is None:
                raise
            retry_state, context = again.retry_state, None
            yield from Log(name=f"{error} Starting over: {again.reason}.")
            if again.wait_seconds:
                yield from Sleep(name=f"Wait {again.wait_seconds} s", seconds=again.wait_seconds)
            timer = yield from timer.end("start_over")
    raise AssertionError("count() does not end")


def _load(
    request: LoadRequest, retry_state: RetryState, timer: StepTimer, context: TargetContext | None
) -> Steps[LoadResult]:
    source, manifest, context, timer = yield from list_and_inspect(request, timer, context)
    if not manifest.objects and request.policies.on_no_objects == "skip":
        return LoadResult(
            status="skipped",
            month=request.month,
            target=request.target,
            reason=f"no {source.kind.contents.name}",
            has_no_objects=True,
            seconds_by_step=timer.seconds,
        )
    check_target(context, required_settings=REQUIRED_SETTINGS, object_column=request.policies.object_column)
    check_zones(context, request.settings)
    if request.policies.write_mode == "append":
        return (
            yield from _append(
                LoadContext.of(request, context, retry_state, source=source, manifest=manifest, timer=timer)
            )
        )
    context = yield from find_replicas(context)
    partition_id = yield from partition_id_of(context, request.month)
    load = LoadContext.of(
        request, context, retry_state, source=source, manifest=manifest, partition_id=partition_id, timer=timer
    )
    return (yield from _recording_failure(load, _load_into(load)))


def _load_into(load: LoadContext) -> Steps[LoadResult]:
    """Compare the month with the ledger, and load it if it changed."""
    load, checked = yield from check_month(load)
    if isinstance(checked, LoadResult):
        return checked
    yield from Log(name=f"{load.request.month}: {checked.reason}. {_sizes(load)}")
    decision = yield from find_increment(load, checked.before, checked.found)
    if decision.text:
        yield from Log(name=decision.text)
    return (yield from _load_compared(ComparedMonth(load=decision.load, to_load=checked)))


def _load_compared(compared: ComparedMonth) -> Steps[LoadResult]:
    load, plan = yield from plan_load(compared)
    load = yield from load.end_step("plan")
    return (yield from _replace(load, plan, compared.to_load.before, compared.to_load.reason))


def _go_on(request: LoadRequest, resumable: ResumableLoad, timer: StepTimer) -> Steps[LoadResult]:
    """Resume the insert that an earlier process of the same task started."""
    yield from Log(name=f"{request.month}: resuming attempt {resumable.nonce}, which this task began earlier.")
    source, listed = yield from request.source.list_month(request.month)
    timer = yield from timer.after(resumable.seconds_by_step).end("list")
    partition_id = yield from partition_id_of(resumable.context, request.month)
    load = LoadContext.of(
        replace(request, nonce=resumable.nonce),
        resumable.context,
        resumable.retry_state,
        source=source,
        manifest=listed,
        partition_id=partition_id,
        timer=timer,
    )
    try:
        load = yield from load_of_resumable(load, resumable, listed)
        load, done = yield from _take_up(load, request, resumable)
        load = yield from load.end_step("insert")
        initial_state = resumable.initial_state(request.month, (yield from load.look_up()))
        yield from record_resumable_load(load, resumable.plan, initial_state, done=done, running="")
        result = yield from _stage_and_publish(load, resumable.plan, initial_state, done)
    except Exception as error:
        # After a broken connection the insert may continue: the next try looks for it again.
        if not isinstance(error, ClickHouseConnectionError):
            yield from clean_up(load)
        yield from _check_unchanged(load, error)
        yield from _record_failure(load, error)
        raise
    yield from clean_up(load, is_done=True)
    return result


def _take_up(
    load: LoadContext, request: LoadRequest, resumable: ResumableLoad
) -> Steps[tuple[LoadContext, tuple[DoneInsert, ...]]]:
    """Wait for the insert to end, and take over its staging."""
    mine = replace(load, request=request)
    try:
        done = yield from await_insert(load, resumable.plan, resumable)
        yield from rename_staging(load.context, load.attempt, to=mine.attempt)
    except (ClickHouseServerError, SupersededError) as error:
        was_ended = isinstance(error, SupersededError) or error.code == QUERY_WAS_CANCELLED
        # The end of a task that a person cleared may come later than its next try.
        if was_ended and not request.resumes:
            raise InsertLostError(f"Attempt {resumable.nonce} was ended just as this one found it.") from error
        raise
    return mine, done


def _sizes(load: LoadContext) -> str:
    sizes = load.request.source.kind.contents.sizes(load.files.manifest)
    return f"{sizes}, {quantity(len(load.context.nodes), 'node')}."


def _replace(load: LoadContext, plan: InsertPlan, before: Mapping[Node, MonthOnNode], reason: str) -> Steps[LoadResult]:
    context = load.context
    initial_state = InitialState(before=before, reason=reason)
    yield from make_ledger(context, context.nodes)
    yield from make_objects_table(context)
    load = load.with_ledger()
    yield from end_earlier_attempts(load.context, load.attempt)
    try:
        yield from create_staging(load.context, load.attempt, without_merges=load.increment is not None)
        result = yield from _stage_and_publish(load, plan, initial_state)
    except Exception:
        yield from clean_up(load)
        raise
    yield from clean_up(load, is_done=True)
    return result


def _stage_and_publish(
    load: LoadContext, plan: InsertPlan, initial_state: InitialState, done: Sequence[DoneInsert] = ()
) -> Steps[LoadResult]:
    try:
        yield from take_over(load.context, load.attempt)
        load = yield from begin_increment(load, initial_state.before)
        load = yield from load.end_step("stage")
        inserted = yield from insert(load, plan, into=load.staging, initial_state=initial_state, done=done)
        load = yield from load.end_step("insert", at_least_seconds=inserted.stats.seconds)
        verified = yield from verify(load, plan, inserted)
        load, staged = yield from complete_increment(load, initial_state.before, verified.staged)
        load = yield from load.end_step("verify")
        states = yield from publish(load, plan, initial_state.before, staged)
        load = yield from load.end_step("publish")
    except SupersededError:
        raise
    except Chs3Error as error:
        yield from check_not_superseded(load.context, load.attempt, error)
        raise
    reason = initial_state.reason
    result = result_of(load, states, status="published", reason=reason, plan=plan, inserted=inserted, verified=verified)
    yield from record_load(load, plan, result)
    return result


def _recording_failure(load: LoadContext, steps: Steps[LoadResult]) -> Steps[LoadResult]:
    try:
        return (yield from steps)
    except Exception as error:
        yield from _check_unchanged(load, error)
        yield from _record_failure(load, error)
        raise


def _check_unchanged(load: LoadContext, error: Exception) -> Steps[None]:
    """After an error about files, check that they are as listed: of one that is overwritten, half may be read.

    Raises:
        ObjectsChangedError: If objects changed.
    """
    is_of_server = isinstance(error, ClickHouseServerError) and bool(is_terminal(error) or file_of(error))
    if not is_of_server and not isinstance(error, SourceError):
        return
    try:
        _, now = yield from load.files.source.list_month(load.request.month)
    except Chs3Error:
        # What was wrong before says more.
        return
    check_objects(load, now, cause=error)


def _record_failure(load: LoadContext, error: Exception) -> Steps[None]:
    if not isinstance(error, Chs3Error) or next_retry(error, load.retry_state) is None:
        yield from record_failure(load, error)


def _append(load: LoadContext) -> Steps[LoadResult]:
    load = yield from load.end_step("inspect")
    plan = yield from plan_objects(load)
    load = yield from load.end_step("plan")
    yield from Log(name=f"{load.request.month}: appending: a retry would load these rows twice. {_sizes(load)}")
    try:
        inserted = yield from insert(load, plan, into=load.context.target)
        load = yield from load.end_step("insert")
    except Exception:
        yield from clean_up(load)
        raise
    return result_of(load, {}, status="appended", reason="write_mode='append'", plan=plan, inserted=inserted)
