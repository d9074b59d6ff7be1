"""The load of one month, written once. See docs/protocol.md for the reasons and the invariants.

list → look around → compare with the ledger → plan → stage → insert → verify → publish → record
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count

from airflow_provider_chs3.core.attempt.context import Load
from airflow_provider_chs3.core.attempt.discovery import list_and_look_around, look_around_for_load, needed_by
from airflow_provider_chs3.core.attempt.insert_plan import InsertPlan, plan_insert, read_files
from airflow_provider_chs3.core.attempt.resume import (
    PUBLISHED_BY_OWNER,
    Beginning,
    DoneInsert,
    Underway,
    find_underway,
    is_published_by_owner,
    record_underway,
)
from airflow_provider_chs3.core.attempt.retry_policy import Course, after
from airflow_provider_chs3.core.attempt.warnings import look_for_risks
from airflow_provider_chs3.core.cluster.node_capacity import ask_nodes_now
from airflow_provider_chs3.core.cluster.node_facts import Surroundings
from airflow_provider_chs3.core.insertion.insert import await_insert, insert, verify
from airflow_provider_chs3.core.ledger.comparison import Standing
from airflow_provider_chs3.core.ledger.records import MonthOnNode
from airflow_provider_chs3.core.ledger.replicas import look_up_caught_up
from airflow_provider_chs3.core.ledger.table import make_ledger
from airflow_provider_chs3.core.load.month_check import compare
from airflow_provider_chs3.core.load.outcome import record_failure, record_load, record_unchanged, result_of
from airflow_provider_chs3.core.preflight.profile_constraints import check_passed_on, check_taken
from airflow_provider_chs3.core.preflight.replicas import find_replicas
from airflow_provider_chs3.core.preflight.target_checks import check_target, partition_id_of
from airflow_provider_chs3.core.publication.evidence_renewal import renew_records
from airflow_provider_chs3.core.publication.publish import publish
from airflow_provider_chs3.core.request.load_request import LoadRequest
from airflow_provider_chs3.core.request.reload import ASKED_FOR
from airflow_provider_chs3.core.staging.tables import (
    check_not_superseded,
    create_staging,
    end_attempt,
    end_earlier_attempts,
    rename_staging,
    take_over,
)
from airflow_provider_chs3.core.tuning.insert_settings import REQUIRED_SETTINGS
from airflow_provider_chs3.core.values.error_codes import QUERY_WAS_CANCELLED
from airflow_provider_chs3.core.values.models import LoadResult, Node
from airflow_provider_chs3.core.workflow.operations import Pause, Say, Steps, Together
from airflow_provider_chs3.core.workflow.step_timer import Laps, begin_laps
from airflow_provider_chs3.exceptions import (
    Chs3Error,
    ClickHouseConnectionError,
    ClickHouseServerError,
    InsertLostError,
    SupersededError,
)


def load_month(request: LoadRequest) -> Steps[LoadResult]:
    """Make the month's partition hold exactly the rows of the month's objects.

    Args:
        request: What is asked for.

    What passes by itself, or with other settings, makes the load start over: objects that change, too little memory,
    servers that are full (see `core.attempt.retry_policy`). Where inserts go on without the process that started them
    (see `core.attempt.resume`), the same workflow goes on with one that an earlier process of the task has started.

    Raises:
        Chs3Error: Whatever stands in the way; unless it says otherwise, the target is as it was.
    """
    if (yield from request.is_left_out()):
        why = f"this run reloads {request.reload}"
        return LoadResult(status="skipped", month=request.month, target=request.target, reason=why)
    laps = yield from begin_laps()
    around = (yield from look_around_for_load(request)) if request.is_durable else None
    underway = (yield from find_underway(request, around)) if around else None
    laps = yield from laps.end("look_around")
    course = underway.course if underway else Course()
    for number in count():
        try:
            if underway and not number:
                return (yield from _go_on(request, underway, laps))
            attempt = replace(request, nonce=f"{request.nonce}{number or ''}")
            return (yield from _load(attempt, course, laps, around))
        except Chs3Error as error:
            again = after(error, course) if request.policies.write_mode == "replace" else None
            if again is None:
                raise
            course, around = again.course, None
            yield from Say(name=f"{error} Starting over: {again.reason}.")
            if again.wait_seconds:
                yield from Pause(name=f"Wait {again.wait_seconds} s", seconds=again.wait_seconds)
            laps = yield from laps.end("start_over")
    raise AssertionError("count() does not end")


def _load(request: LoadRequest, course: Course, laps: Laps, around: Surroundings | None) -> Steps[LoadResult]:
    source, manifest, around, laps = yield from list_and_look_around(request, laps, around)
    if not manifest.objects and request.policies.on_no_objects == "skip":
        return LoadResult(
            status="skipped",
            month=request.month,
            target=request.target,
            reason="no objects",
            seconds_by_step=laps.seconds,
        )
    check_target(around, required_settings=REQUIRED_SETTINGS)
    if request.policies.write_mode == "append":
        return (yield from _append(Load.of(request, around, course, source=source, manifest=manifest, laps=laps)))
    around = yield from find_replicas(around)
    partition_id = yield from partition_id_of(around, request.month)
    load = Load.of(request, around, course, source=source, manifest=manifest, partition_id=partition_id, laps=laps)
    try:
        return (yield from _load_into(load))
    except Exception as error:
        yield from _record_failure(load, error)
        raise


def _load_into(load: Load) -> Steps[LoadResult]:
    """Compare the month with its objects, and load them."""
    before = yield from look_up_caught_up(load.around, load.look_up)
    found, reason = yield from compare(load, before)
    load = yield from load.end_lap("look_around")
    if found is Standing.UNCHANGED:
        is_own = yield from is_published_by_owner(load, before)
        if is_own or not load.request.reload:
            yield from _clean_up_published(load, before)
            yield from record_unchanged(load)
            yield from renew_records(load, before)
            status, reason = ("published", PUBLISHED_BY_OWNER) if is_own else ("unchanged", reason)
            states = {node: month.state for node, month in before.items()}
            return result_of(load, states, status=status, reason=reason)
        reason = ASKED_FOR
    yield from Say(name=f"{load.request.month}: {reason}. {_sizes(load)}")
    plan = yield from _plan(load)
    load = yield from load.end_lap("plan")
    return (yield from _replace(load, plan, before, reason))


def _go_on(request: LoadRequest, underway: Underway, laps: Laps) -> Steps[LoadResult]:
    """Go on with an insert that an earlier process of the same task has started."""
    yield from Say(name=f"{request.month}: going on with attempt {underway.nonce}, which this task began before.")
    source, listed = yield from request.source.list_month(request.month)
    laps = yield from laps.after(underway.seconds_by_step).end("list")
    partition_id = yield from partition_id_of(underway.around, request.month)
    load = Load.of(
        replace(request, nonce=underway.nonce),
        underway.around,
        underway.course,
        source=source,
        manifest=listed,
        partition_id=partition_id,
        laps=laps,
    )
    try:
        load = load.of_objects(underway.manifest_in(listed))
        load, done = yield from _take_up(load, request, underway)
        load = yield from load.end_lap("insert")
        beginning = underway.beginning((yield from load.look_up()))
        yield from record_underway(load, underway.plan, beginning, done=done, running="")
        result = yield from _stage_and_publish(load, underway.plan, beginning, done)
    except Exception as error:
        # After a broken connection the insert may go on: the next try looks for it again.
        if not isinstance(error, ClickHouseConnectionError):
            yield from _clean_up(load)
        yield from _record_failure(load, error)
        raise
    yield from _clean_up(load)
    return result


def _take_up(load: Load, request: LoadRequest, underway: Underway) -> Steps[tuple[Load, tuple[DoneInsert, ...]]]:
    """See the insert to its end, and take its staging over."""
    mine = replace(load, request=request)
    try:
        done = yield from await_insert(load, underway.plan, underway)
        yield from rename_staging(load.around, load.attempt, to=mine.attempt)
    except (ClickHouseServerError, SupersededError) as error:
        was_ended = isinstance(error, SupersededError) or error.code == QUERY_WAS_CANCELLED
        # The end of a task that a person cleared may come later than its next try.
        if was_ended and not request.resumes:
            raise InsertLostError(f"Attempt {underway.nonce} was ended just when this one found it.") from error
        raise
    return mine, done


def _sizes(load: Load) -> str:
    manifest = load.files.manifest
    return f"{len(manifest.objects)} objects, {manifest.size_bytes:,} bytes, {len(load.around.nodes)} nodes."


def _plan(load: Load) -> Steps[InsertPlan]:
    own = {name: value for name, value in load.request.settings.items() if name in load.around.known_settings}
    looks = (
        check_taken(own),
        check_passed_on(load.around, {**load.files.neutral, **needed_by(load.request), **load.files.settings}),
        ask_nodes_now(load.around, partition_id=load.key.partition_id),
        read_files(load),
    )
    _, _, now, reading = yield from Together(name="Look at nodes and files", workflows=looks)
    yield from look_for_risks(load, now)
    return (yield from plan_insert(load, now, reading))


def _replace(load: Load, plan: InsertPlan, before: Mapping[Node, MonthOnNode], reason: str) -> Steps[LoadResult]:
    around = load.around
    beginning = Beginning(before=before, reason=reason)
    yield from make_ledger(around.ledger, {node: facts.ledger_columns for node, facts in around.nodes.items()})
    load = load.with_ledger()
    yield from end_earlier_attempts(load.around, load.attempt)
    try:
        yield from create_staging(load.around, load.attempt)
        result = yield from _stage_and_publish(load, plan, beginning)
    except Exception:
        yield from _clean_up(load)
        raise
    yield from _clean_up(load)
    return result


def _stage_and_publish(
    load: Load, plan: InsertPlan, beginning: Beginning, done: Sequence[DoneInsert] = ()
) -> Steps[LoadResult]:
    try:
        yield from take_over(load.around, load.attempt)
        load = yield from load.end_lap("stage")
        inserted = yield from insert(load, plan, into=load.staging, beginning=beginning, done=done)
        load = yield from load.end_lap("insert", at_least_seconds=inserted.stats.seconds)
        verified = yield from verify(load, plan, inserted)
        load = yield from load.end_lap("verify")
        states = yield from publish(load, plan, beginning.before, verified.staged)
        load = yield from load.end_lap("publish")
    except SupersededError:
        raise
    except Chs3Error as error:
        yield from check_not_superseded(load.around, load.attempt, error)
        raise
    reason = beginning.reason
    result = result_of(load, states, status="published", reason=reason, plan=plan, inserted=inserted, verified=verified)
    yield from record_load(load, plan, result)
    return result


def _record_failure(load: Load, error: Exception) -> Steps[None]:
    if not isinstance(error, Chs3Error) or after(error, load.course) is None:
        yield from record_failure(load, error)


def _clean_up(load: Load) -> Steps[None]:
    try:
        yield from end_attempt(load.around, load.attempt)
    except Chs3Error as error:
        yield from Say(
            name=f"Staging {load.staging} could not be removed; the next load of this month will do it. ({error})"
        )


def _clean_up_published(load: Load, before: Mapping[Node, MonthOnNode]) -> Steps[None]:
    """Remove the staging of the attempt that published, should it have died right after.

    No more than that: another attempt that is under way knows of newer objects.
    """
    for nonce in sorted({month.record.attempt for month in before.values() if month.record}):
        yield from _clean_up(replace(load, request=replace(load.request, nonce=nonce)))


def _append(load: Load) -> Steps[LoadResult]:
    load = yield from load.end_lap("look_around")
    plan = yield from _plan(load)
    load = yield from load.end_lap("plan")
    yield from Say(name=f"{load.request.month}: appending, so that a retry would load rows twice. {_sizes(load)}")
    try:
        inserted = yield from insert(load, plan, into=load.around.target)
        load = yield from load.end_lap("insert")
    except Exception:
        yield from _clean_up(load)
        raise
    return result_of(load, {}, status="appended", reason="write_mode='append'", plan=plan, inserted=inserted)
