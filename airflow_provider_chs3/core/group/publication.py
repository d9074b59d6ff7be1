"""Publish one month out of a staging table of several, as a load of the month alone does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from airflow_provider_chs3.core.attempt.insert_plan import InsertPlan
from airflow_provider_chs3.core.attempt.load_context import LoadContext
from airflow_provider_chs3.core.group.insertion import GroupStaged
from airflow_provider_chs3.core.group.planning import MonthOfGroup
from airflow_provider_chs3.core.increment.completion import begin_increment, complete_increment
from airflow_provider_chs3.core.insertion.insert import Inserted, Verified
from airflow_provider_chs3.core.insertion.staged_rows import Staged, StagedPartition, count_staged
from airflow_provider_chs3.core.ledger.records import MonthOnNode
from airflow_provider_chs3.core.load.outcome import record_load, result_of
from airflow_provider_chs3.core.publication.publish import publish
from airflow_provider_chs3.core.sql.quoting import Sql, literal, table
from airflow_provider_chs3.core.staging.ending import check_alone, check_not_superseded
from airflow_provider_chs3.core.staging.tables import create_staging, ddl_settings
from airflow_provider_chs3.core.values.load_result import LoadResult
from airflow_provider_chs3.core.values.models import Node, S3Object
from airflow_provider_chs3.core.workflow.operations import QueryNodes, Steps
from airflow_provider_chs3.exceptions import (
    BaseChangedError,
    Chs3Error,
    ObjectsChangedError,
    SupersededError,
    VerificationError,
)


def publish_month(staged: GroupStaged, each: MonthOfGroup) -> Steps[LoadResult]:
    """Move a month's rows into a staging table of its own, without a copy, and publish them from there.

    A later load of the month ends this alone: it finds this staging, as that of any load, and drops it. What is not
    dropped so stays until all months are published.

    Args:
        staged: The rows of all months.
        each: The month.

    Returns:
        The month's result, with its share of the seconds that all months took.

    Raises:
        SupersededError: If another load of the month began after the group did.
        Chs3Error: Any other problem; unless it says otherwise, the month is unchanged.
    """
    load = each.load
    if each.month in staged.changed:
        raise ObjectsChangedError(f"Objects of {each.month} changed while they were loaded. Nothing was published.")
    yield from create_staging(load.context, load.attempt, without_merges=True)
    try:
        result = yield from _fill_and_publish(staged, each)
    except SupersededError:
        raise
    except Chs3Error as error:
        yield from check_not_superseded(load.context, load.attempt, error)
        raise
    return result


def _fill_and_publish(staged: GroupStaged, each: MonthOfGroup) -> Steps[LoadResult]:
    load, before, found = each.load, each.to_load.before, staged.of_month(each)
    yield from check_alone(load.context, load.attempt)
    yield from _check_unpublished(load, before)
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
    yield from record_load(load, plan, result)
    return result


def _check_unpublished(load: LoadContext, before: Mapping[Node, MonthOnNode]) -> Steps[None]:
    """Check that no other load has published the month since this one compared it with the ledger."""
    now = yield from load.look_up()
    was, is_now = ({month.record.attempt for month in some.values() if month.record} for some in (before, now))
    if was != is_now:
        raise BaseChangedError(f"Another load published {load.request.month} meanwhile.")


def _fill(staged: GroupStaged, load: LoadContext, found: Mapping[Node, StagedPartition]) -> Steps[dict[Node, Staged]]:
    """Attach the month's partition, which is hard links, and prove that all of it came."""
    earlier = (yield from count_staged(load, name="Count what is attached")) if _attached(load) else {}
    sql = Sql(
        f"ALTER TABLE {table(load.staging)} ATTACH PARTITION ID {literal(load.key.partition_id)} "
        f"FROM {table(staged.group.load.staging)}"
    )
    # Of replicas one attaches, and the others follow. A repeated ATTACH would double rows: staging is never reused.
    yield from QueryNodes(
        name=f"Take the rows of {load.request.month} out of the group's",
        sql={node: sql for node in load.context.publishers if found[node].rows},
        settings=ddl_settings(load.context),
        query_id=f"{load.attempt.name}_fill",
    )
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
    """Give the month its share of the time that all months take together."""
    timer = yield from staged.group.load.timer.end("publish")
    months = len(staged.group.months)
    shares = {name: seconds / months for name, seconds in timer.seconds.items()}
    return replace(load, timer=replace(timer, seconds=shares))
