"""Publish several months out of one staging table, each as a load of the month alone does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from airflow_provider_chs3.core.attempt.insert_plan import InsertPlan
from airflow_provider_chs3.core.attempt.load_context import LoadContext
from airflow_provider_chs3.core.attempt.months_together import SharedStaging
from airflow_provider_chs3.core.group.insertion import GroupStaged
from airflow_provider_chs3.core.increment.completion import begin_increment, complete_increment
from airflow_provider_chs3.core.insertion.insert import Inserted, Verified
from airflow_provider_chs3.core.insertion.staged_rows import Staged, StagedPartition, count_staged
from airflow_provider_chs3.core.load.outcome import record_load, result_of
from airflow_provider_chs3.core.load.planning import ComparedMonth
from airflow_provider_chs3.core.publication.publish import publish
from airflow_provider_chs3.core.sql.quoting import literal, table
from airflow_provider_chs3.core.staging.ending import check_not_superseded
from airflow_provider_chs3.core.staging.partitions import Command, alter_partition
from airflow_provider_chs3.core.staging.rivals import settle_with_rivals
from airflow_provider_chs3.core.staging.tables import Attempt, create_staging, ddl_settings, superseded
from airflow_provider_chs3.core.values.load_result import LoadResult
from airflow_provider_chs3.core.values.models import Month, Node, S3Object
from airflow_provider_chs3.core.values.month_group import MonthGroup
from airflow_provider_chs3.core.workflow.lockstep import in_lockstep
from airflow_provider_chs3.core.workflow.operations import Log, Steps
from airflow_provider_chs3.exceptions import (
    Chs3Error,
    ObjectsChangedError,
    SupersededError,
    TransientError,
    VerificationError,
)

#: Tables of which other loads may end one after the other; then each month is loaded by itself.
_MOST_TABLES = 5


class Published(NamedTuple):
    """The outcome of months that were published together.

    Args:
        outcomes: The result of each month, with its share of the seconds that all took, or its error.
        attempts: The attempts, each of which names a staging table that they were to be published from.
    """

    outcomes: dict[Month, LoadResult | Chs3Error]
    attempts: list[Attempt]


def publish_group(staged: GroupStaged) -> Steps[Published]:
    """Publish each month from a staging table of all, into which their rows come without a copy.

    A later load of one of the months finds that table and drops it. Then the others get another one: their rows are
    still in the table into which they were inserted.

    Args:
        staged: The rows of all months.

    Raises:
        SupersededError: If somebody ended the whole load.
        Chs3Error: If the rows could not be moved. Nothing more was published.
    """
    outcomes: dict[Month, LoadResult | Chs3Error] = {
        month: ObjectsChangedError(f"Objects of {month} changed while they were loaded. Nothing was published.")
        for month in staged.changed
    }
    remaining: Sequence[ComparedMonth] = [each for each in staged.group.months if each.month not in outcomes]
    load, attempts = staged.group.load, list[Attempt]()
    for number in range(1, _MOST_TABLES + 1):
        if not remaining:
            return Published(outcomes, attempts)
        months = MonthGroup(tuple(each.month for each in remaining))
        attempts.append(Attempt(load.context.target, months, load.request.nonce, number))
        found, rivals = yield from _publish_from_table(staged, remaining, attempts[-1])
        outcomes |= found
        lost = [month for month, each in found.items() if isinstance(each, SupersededError) and month not in rivals]
        if lost:
            yield from Log(name=f"Another load dropped the staging table of {len(lost)} months: creating another one.")
        remaining = [each for each in remaining if each.month in lost]
    often = TransientError(f"Other loads interrupted the publication {_MOST_TABLES} times. Nothing more was published.")
    return Published(outcomes | {each.month: often for each in remaining}, attempts)


def _publish_from_table(
    staged: GroupStaged, months: Sequence[ComparedMonth], attempt: Attempt
) -> Steps[tuple[dict[Month, LoadResult | Chs3Error], set[Month]]]:
    """Publish months from one staging table.

    Returns:
        The result or the error of each month, and the months that others are loading.
    """
    context, own = staged.group.load.context, {each.month: each.load.attempt for each in months}
    try:
        yield from create_staging(context, attempt, without_merges=True, months=own.values())
        held = yield from settle_with_rivals(context, attempt, own.values())
    except SupersededError as error:
        return dict.fromkeys(own, error), set()
    rivals = {month for month, each in own.items() if each in held}
    shared = SharedStaging(attempt, frozenset(each.load.key.partition_id for each in months))
    alone = [replace(each, load=replace(each.load, shared=shared)) for each in months if each.month not in rivals]
    published = yield from in_lockstep([_publish_month(staged, each) for each in alone], name=attempt.name)
    outcomes: dict[Month, LoadResult | Chs3Error] = {month: SupersededError(superseded(own[month])) for month in rivals}
    return outcomes | dict(zip((each.month for each in alone), published, strict=True)), rivals


def _publish_month(staged: GroupStaged, each: ComparedMonth) -> Steps[LoadResult]:
    """Take a month's rows into the table that it is published from, and publish them.

    Raises:
        SupersededError: If the table is gone.
        Chs3Error: Any other problem; unless it says otherwise, the month is unchanged.
    """
    try:
        return (yield from _fill_and_publish(staged, each))
    except SupersededError:
        raise
    except Chs3Error as error:
        yield from check_not_superseded(each.load.context, each.load.attempt, error)
        raise


def _fill_and_publish(staged: GroupStaged, each: ComparedMonth) -> Steps[LoadResult]:
    load, before, found = each.load, each.to_load.before, staged.of_month(each)
    load = yield from begin_increment(load, before)
    own = yield from _fill(staged, load, found)
    load, complete = yield from complete_increment(load, before, own)
    plan = _plan_of(staged.group.plan, staged.group.load.files.manifest.objects, load)
    states = yield from publish(load, plan, before, complete)
    rows = sum(found[node].rows for node in load.context.publishers)
    load = yield from _with_times(load, staged)
    result = result_of(
        load,
        states,
        status="published",
        reason=each.to_load.reason,
        plan=plan,
        inserted=Inserted(staged.inserts_of(each, rows)),
        verified=Verified(complete, rows, staged.counted_by),
    )
    yield from record_load(load, plan, result, together=staged.together)
    return result


def _fill(staged: GroupStaged, load: LoadContext, found: Mapping[Node, StagedPartition]) -> Steps[dict[Node, Staged]]:
    """Attach the month's partition, which is hard links, and return what staging must hold then.

    Right before it is published, all of it must be there. Beside published rows it is proved at once.
    """
    earlier = (yield from count_staged(load, name="Count what is attached")) if _attached(load) else {}
    attach = f"ATTACH PARTITION ID {literal(load.key.partition_id)} FROM {table(staged.group.load.staging)}"
    # Of replicas one attaches, and the others follow. A repeated ATTACH would double rows: staging is never reused.
    yield from alter_partition(
        load.staging,
        {node: Command(attach) for node in load.context.publishers if found[node].rows},
        name=f"Take the rows of {load.request.month} out of the group's",
        settings=ddl_settings(load.context),
        query_id=f"{load.attempt.name}_fill",
        is_repeatable=False,
    )
    if load.increment is None:
        return {node: Staged(each.rows, {}, each.contents) for node, each in found.items()}
    now = yield from count_staged(load, name="Count what is staged")
    for node, each in now.items():
        was = earlier.get(node, Staged(0, {}))
        _check_filled(load, node, (each.rows - was.rows, _parts(each) - _parts(was)), found[node])
    return now


def _attached(load: LoadContext) -> bool:
    return load.increment is not None and load.increment.attached_rows is not None


def _parts(staged: Staged) -> Counter[str]:
    return Counter(staged.contents.of_parts or ())


def _check_filled(load: LoadContext, node: Node, came: tuple[int, Counter[str]], found: StagedPartition) -> None:
    wanted = (found.rows, Counter(found.contents.of_parts or ()))
    if found.contents.of_parts is None or came != wanted:
        raise VerificationError(
            f"Staging {load.staging} on {node} got {came[0]} rows of the {found.rows} that were staged of "
            f"{load.request.month}, or other parts. Nothing was published."
        )


def _plan_of(plan: InsertPlan, objects: Sequence[S3Object], load: LoadContext) -> InsertPlan:
    """Return the plan with the rows of the month's own files."""
    if plan.reading.file_rows is None:
        return plan
    rows = {each.path: count for each, count in zip(objects, plan.reading.file_rows, strict=True)}
    own = tuple(rows[each.path] for each in load.files.manifest.objects)
    return replace(plan, reading=replace(plan.reading, rows=sum(own), file_rows=own))


def _with_times(load: LoadContext, staged: GroupStaged) -> Steps[LoadContext]:
    """Give the month its share of the time that all months take together, as of the insert."""
    timer = yield from staged.group.load.timer.end("publish")
    share = staged.share_of(load)
    shares = {name: seconds * share for name, seconds in timer.seconds.items()}
    return replace(load, timer=replace(timer, seconds=shares))
