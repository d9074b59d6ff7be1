"""Complete staging with what is published: hard links to its parts, which copy nothing and may be dropped again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from airflow_provider_chs3.core.attempt.load_context import LoadContext, node_key
from airflow_provider_chs3.core.cluster.replication import follow
from airflow_provider_chs3.core.increment.base import why_no_base
from airflow_provider_chs3.core.increment.removal import check_objects, remove_objects
from airflow_provider_chs3.core.insertion.staged_rows import Staged, count_staged
from airflow_provider_chs3.core.ledger.partition_state import PartitionState
from airflow_provider_chs3.core.ledger.records import MonthOnNode
from airflow_provider_chs3.core.sql.quoting import Sql, literal, table
from airflow_provider_chs3.core.staging.tables import ddl_settings
from airflow_provider_chs3.core.values.error_codes import QUERY_WAS_CANCELLED
from airflow_provider_chs3.core.values.models import Node
from airflow_provider_chs3.core.values.quantities import quantity
from airflow_provider_chs3.core.workflow.operations import Gather, Log, QueryNodes, Sleep, Steps, TryQueryNodes
from airflow_provider_chs3.exceptions import BaseChangedError, ClickHouseServerError, VerificationError

#: REPLACE PARTITION cancels the merges of its partition. With a load every few minutes no longer one would ever end.
_LONGEST_WAIT_FOR_MERGES_SECONDS = 600
#: Most merges of a night's parts end within a second: wait as long again as was waited, up to this.
_FIRST_WAIT_SECONDS, _LONGEST_POLL_SECONDS = 0.25, 5.0


def _check_base(load: LoadContext, before: Mapping[Node, MonthOnNode]) -> Steps[dict[Node, MonthOnNode]]:
    """Look the month up again, with all replicas in step."""
    yield from follow(load.context, load.context.target)
    now = yield from load.look_up()
    require_base(load, before, now)
    return now


def require_base(load: LoadContext, before: Mapping[Node, MonthOnNode], now: Mapping[Node, MonthOnNode]) -> None:
    """Check that the published month is still the one that the load has decided to add to.

    Args:
        load: The load.
        before: The month on each node when the load decided.
        now: The month on each node now.

    Raises:
        BaseChangedError: If anybody changed it.
    """
    why = why_no_base(now, load.context.table_facts)
    attempts = [{month.record.attempt for month in months.values() if month.record} for months in (before, now)]
    if not why and attempts[0] != attempts[1]:
        why = "another load published it"
    if why:
        raise BaseChangedError(f"{load.context.target}, {load.request.month}, changed while objects were added: {why}.")


def begin_increment(load: LoadContext, before: Mapping[Node, MonthOnNode]) -> Steps[LoadContext]:
    """Check what new objects are added to, now that no other load can publish; attach it if it must come first.

    Args:
        load: The load, whose staging is there; if it is not an increment, nothing happens.
        before: The month on each node when it decided what to load.

    Raises:
        BaseChangedError: If what is published changed.
    """
    increment = load.increment
    if increment is None or increment.attached_rows is not None:
        return load
    if not increment.attaches_first:
        yield from _check_base(load, before)
        return load
    staged = yield from count_staged(load, name="Count what is staged")
    load, _ = yield from _attach_published(load, before, staged)
    return load


def complete_increment(
    load: LoadContext, before: Mapping[Node, MonthOnNode], staged: Mapping[Node, Staged]
) -> Steps[tuple[LoadContext, Mapping[Node, Staged]]]:
    """Attach the published rows to new rows that are proved, unless they were attached first.

    Args:
        load: The load; if it is not an increment, nothing happens.
        before: The month on each node when it decided what to load.
        staged: What is staged on each node.

    Returns:
        The load, and what is staged on each node now.

    Raises:
        BaseChangedError: If what is published changed, or cannot be attached.
        VerificationError: If staging got rows of other months.
    """
    if load.increment and load.increment.removed:
        yield from check_objects(load, staged)
    if load.increment is None or load.increment.attached_rows is not None:
        return load, staged
    return (yield from _attach_published(load, before, staged))


def _attach_published(
    load: LoadContext, before: Mapping[Node, MonthOnNode], staged: Mapping[Node, Staged]
) -> Steps[tuple[LoadContext, dict[Node, Staged]]]:
    """Attach the published partition to staging on every node, once, and prove that all of it is there."""
    yield from _wait_for_merges(load)
    published = yield from _check_base(load, before)
    # Of replicas one attaches, and the others follow. A repeated ATTACH would double rows: staging is never reused.
    nodes = [node for node in load.context.publishers if published[node].state.rows]
    sql = Sql(
        f"ALTER TABLE {table(load.staging)} ATTACH PARTITION ID {literal(load.key.partition_id)} "
        f"FROM {table(load.context.target)}"
    )
    try:
        yield from QueryNodes(
            name=f"Attach the published rows of {load.request.month}",
            sql=dict.fromkeys(nodes, sql),
            settings=ddl_settings(load.context),
            query_id=f"{load.attempt.name}_attach",
        )
    except ClickHouseServerError as error:
        if error.code == QUERY_WAS_CANCELLED:
            raise
        raise BaseChangedError(f"The published rows of {load.request.month} cannot be attached: {error}") from error
    counting = count_staged(load, name="Count what is staged with the published rows")
    now, complete = yield from Gather(name="Check what was attached", workflows=(load.look_up(), counting))
    require_base(load, before, now)
    for node, each in complete.items():
        _check_attached(load, node, staged[node], each, (published[node].state, now[node].state))
    assert load.increment is not None
    if load.increment.removed:
        complete = yield from remove_objects(load)
    attached = {node_key(node): each.rows - staged[node].rows for node, each in complete.items()}
    return replace(load, increment=replace(load.increment, attached_rows=attached)), complete


def _check_attached(
    load: LoadContext, node: Node, before: Staged, after: Staged, published: tuple[PartitionState, PartitionState]
) -> None:
    """Staging must hold the very parts of the target, by the hashes of their contents, right before or right after."""
    attached = Counter(after.contents.of_parts or ())
    attached.subtract(before.contents.of_parts or ())
    rows = after.rows - before.rows
    expected = [(state.rows, Counter(state.contents.of_parts or ())) for state in published]
    if after.contents.of_parts is None or (rows, +attached) not in expected or min(attached.values(), default=0) < 0:
        raise BaseChangedError(
            f"Staging {load.staging} on {node} got {rows} rows of the {published[0].rows} that are published of "
            f"{load.request.month}, or other parts: somebody changed or merged them meanwhile."
        )
    if after.other_rows != before.other_rows:
        raise VerificationError(
            f"Staging {load.staging} on {node} got rows of other months: somebody else writes to it. Nothing was "
            "published."
        )


def _wait_for_merges(load: LoadContext) -> Steps[None]:
    """Wait until merges of the month end, for a bounded time. A user who may not see merges does not wait."""
    context, target = load.context, load.context.target
    sql = Sql(
        f"SELECT max(elapsed), min(progress) FROM system.merges WHERE database = {literal(target.database)} "
        f"AND table = {literal(target.table)} AND partition_id = {literal(load.key.partition_id)} HAVING count() > 0"
    )
    waited_seconds = 0.0
    while waited_seconds < _LONGEST_WAIT_FOR_MERGES_SECONDS:
        answers = yield from TryQueryNodes(name="Look for merges of the month", sql=dict.fromkeys(context.nodes, sql))
        running = list(_running(answers.values()))
        if not running:
            return
        if not waited_seconds:
            seconds, progress = max(running)
            yield from Log(
                name=f"Waiting for merges of {load.request.month} on {quantity(len(running), 'node')}, which "
                f"publishing would cancel: the longest has run for {seconds:.0f} s and is {progress:.0%} done."
            )
        pause_seconds = min(max(waited_seconds, _FIRST_WAIT_SECONDS), _LONGEST_POLL_SECONDS)
        yield from Sleep(name="Wait for merges of the month", seconds=pause_seconds)
        waited_seconds += pause_seconds
    yield from Log(
        name=f"Merges of {load.request.month} still run after {_LONGEST_WAIT_FOR_MERGES_SECONDS} s: not waiting "
        "any longer."
    )


def _running(answers: Iterable[object]) -> Iterable[tuple[float, float]]:
    return (tuple(row) for answer in answers if isinstance(answer, list) for row in answer)
