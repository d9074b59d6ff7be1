"""List the versions of periods, restore one, and let loads replace it again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from airflow_provider_chs3.core.ledger.object_records import make_objects_table
from airflow_provider_chs3.core.ledger.partition_state import CONTENT, PartitionState
from airflow_provider_chs3.core.ledger.period_comparison import ComparisonStatus, ExpectedPeriod, compare_unpinned
from airflow_provider_chs3.core.ledger.queries import look_up_periods
from airflow_provider_chs3.core.ledger.recording import Renewal, Values, renew
from airflow_provider_chs3.core.ledger.records import PeriodOnNode, Restored, restored_of, rows_of_shards
from airflow_provider_chs3.core.ledger.table import LedgerKey, make_ledger
from airflow_provider_chs3.core.load.end_attempts import (
    check_not_superseded,
    clean_up,
    clean_up_published,
    end_earlier_attempts,
    take_over,
)
from airflow_provider_chs3.core.load.kept_versions import (
    BEFORE,
    Version,
    add_date,
    find_versions,
    link_partitions,
    objects_of,
)
from airflow_provider_chs3.core.load.load_request import Policies
from airflow_provider_chs3.core.load.publication import Publication, Staged, look_up_caught_up
from airflow_provider_chs3.core.load.publish import publish
from airflow_provider_chs3.core.load.staging_tables import Attempt, create_staging, ddl_settings
from airflow_provider_chs3.core.model.models import ADAPTIVE_BUFFERS, AsJson, Node, TableName
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.periods.status import LedgerRequest, look_at_table
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, in_table, is_table, literal, one_of, table
from airflow_provider_chs3.core.steps.driving import Batch
from airflow_provider_chs3.core.steps.operations import Log, QueryNodes, Steps
from airflow_provider_chs3.core.target.node_facts import Target, inspect_target
from airflow_provider_chs3.core.target.period_partitions import partitions_of
from airflow_provider_chs3.core.target.replication import find_replicas
from airflow_provider_chs3.core.target.table_facts import Column, differences, target_facts, target_query
from airflow_provider_chs3.core.target.target_checks import check_target
from airflow_provider_chs3.core.tuning.insert_settings import DDL_SETTINGS, EMPTY_SOURCE
from airflow_provider_chs3.exceptions import (
    Chs3Error,
    PreflightError,
    SupersededError,
    TargetChangedError,
    VerificationError,
)

#: Changes that a restore would undo.
_OF_OTHERS = (ComparisonStatus.ROWS_UNKNOWN, ComparisonStatus.TARGET_CHANGED, ComparisonStatus.FEWER_NODES)
#: The way out for such a period that is not pinned any more.
_TO_SETTLE = (
    "loads stop until you adopt it (chs3 adopt), or allow them to replace that, with "
    "policies={'on_target_changed': 'reload'}"
)


@dataclass(frozen=True, kw_only=True)
class RestoreRequest(LedgerRequest):
    """A request to restore periods of a table."""

    version: str | None
    by: str
    nonce: str
    now: datetime
    replaces_changed: bool = False


@dataclass(frozen=True, slots=True)
class RestoredPeriod(AsJson):
    """The result of restoring or unpinning a period."""

    period: Period
    status: str
    version: str
    rows: int
    reason: str


@dataclass(frozen=True, slots=True)
class ListedVersion(AsJson):
    """A version of a period."""

    period: Period
    attempt: str
    kept_at: str
    rows: int
    size_bytes: int
    why_broken: str
    table: str


def list_versions(request: LedgerRequest) -> Steps[list[ListedVersion]]:
    """List the versions of a table's periods, the newest of each first."""
    context = yield from look_at_table(request)
    parts = f"(SELECT groupUniqArray({CONTENT}) FROM system.parts WHERE active AND {in_table(context.target)})"
    versions, answers = yield from find_versions(context, beside=parts)
    known = {node: set(contents) for node, (contents,) in answers.items()}
    listed = list[ListedVersion]()
    for version in reversed(versions):
        size_bytes = 0
        for node, of_node in version.nodes.items():
            for state in of_node.states.values():
                of_parts = state.contents.of_parts
                size_bytes += state.size_bytes if of_parts is None else _alone(state, known[node])
                known[node].update(of_parts or ())
        if request.periods is None or version.period in request.periods:
            kept_at = f"{datetime.fromtimestamp(version.kept_at, UTC):%Y-%m-%d %H:%M:%S}"
            rows = yield from _visible_rows(context, version)
            values = (version.attempt, kept_at, rows, size_bytes, version.why_broken, version.table)
            listed.append(ListedVersion(version.period, *values))
    return sorted(listed, key=lambda version: version.period)


def _alone(state: PartitionState, known: Collection[str]) -> int:
    """Return the bytes of parts that no other table has, as far as parts' rows tell their sizes."""
    rows = sum(part.rows for part in state.each_part or () if part.content not in known)
    return state.size_bytes * rows // state.rows if state.rows else 0


def restore_periods(request: RestoreRequest) -> Steps[list[RestoredPeriod]]:
    """Publish an earlier version of each period, and pin it: loads leave it until it is unpinned.

    The version is published as a load is, from a staging table that links to its parts. So a restore that was killed
    can be repeated, and if a load and a restore run at once, the later one wins. The replaced rows are kept as a
    version, too.
    """
    settings = (EMPTY_SOURCE, ADAPTIVE_BUFFERS, *DDL_SETTINGS)
    context = yield from look_at_table(request, settings=settings, needs_all=True)
    context = yield from find_replicas(context)
    periods = sorted(set(request.periods or ()))
    owns = yield from partitions_of(context, periods)
    yield from make_ledger(context, context.nodes)
    yield from make_objects_table(context)
    restored = []
    policies = Policies(keep_versions=1, on_target_changed="reload" if request.replaces_changed else "fail")
    for number, period in enumerate(periods):
        item = Publication(
            context=context.with_ledger(),
            period=period,
            period_partitions=owns[period],
            attempt=Attempt(context.target, (period,), f"{request.nonce}{number or ''}"),
            policies=policies,
        )
        restored.append((yield from _restore(request, item)))
        yield from Log(name=f"{context.target} {period} {restored[-1].status}: {restored[-1].reason}.")
    return restored


def unpin_periods(request: LedgerRequest) -> Steps[list[RestoredPeriod]]:
    """Let loads replace restored periods again: the next one does, whatever its objects are."""
    context = yield from inspect_target(request, needs_all=True)
    check_target(context)
    owns = yield from partitions_of(context, sorted(set(request.periods or ())))
    on_nodes = yield from look_up_periods(context, owns)
    unpinned = list[RestoredPeriod]()
    for period, nodes in on_nodes.items():
        restored = restored_of(nodes)
        rows = sum(rows_of_shards(nodes).values())
        if restored and restored.is_pinned:
            sql = _unpinned(context, period, nodes, replace(restored, is_pinned=False))
            once = {node: sql[node] for node in context.recorders if node in sql}
            yield from QueryNodes(name=f"Unpin {period}", sql=once, settings=context.record_settings)
            comparison = compare_unpinned(nodes, ExpectedPeriod(), context.table_facts)
            is_of_others = comparison.status in _OF_OTHERS
            reason = f"{comparison.reason}: {_TO_SETTLE}" if is_of_others else "loads may replace it again"
            unpinned.append(RestoredPeriod(period, "unpinned", restored.version, rows, reason))
        else:
            unpinned.append(RestoredPeriod(period, "unchanged", "", rows, "it is not pinned"))
    return unpinned


def _unpinned(
    context: Target, period: Period, nodes: Mapping[Node, PeriodOnNode], restored: Restored
) -> dict[Node, Sql]:
    """Return the statement for each node that adds the period's records again, as not pinned."""
    evidence, renewals = {"restored": restored.as_text()}, defaultdict[Node, list[Renewal]](list)
    for node, on_node in nodes.items():
        for record in (partition.record for partition in on_node.recorded if partition.record):
            key = LedgerKey.on(context, node, period, record.partition_id)
            renewals[node].append(Renewal(key, record.attempt, evidence, record.structure))
    return {node: renew(context.ledger, of_node) for node, of_node in renewals.items()}


def _restore(request: RestoreRequest, item: Publication) -> Steps[RestoredPeriod]:
    context, period = item.context, item.period
    versions, _ = yield from find_versions(context)
    (before,) = yield from look_up_caught_up([item])
    item = replace(item, before=before)
    comparison, restored = compare_unpinned(before, ExpectedPeriod(), context.table_facts), restored_of(before)
    is_asked_for = restored and restored.is_pinned and request.version in (None, restored.version)
    if restored and is_asked_for and comparison.status is ComparisonStatus.UNCHANGED:
        # It may have died right after it had published it.
        yield from clean_up_published([item])
        rows = yield from _count_rows(
            context,
            context.target,
            {partition.partition_id for on_node in before.values() for partition in on_node.each},
        )
        return RestoredPeriod(period, "unchanged", restored.version, rows, str(restored))
    version = _chosen(request, [version for version in versions if version.period == period], before, item)
    if comparison.status in _OF_OTHERS and not request.replaces_changed:
        raise TargetChangedError(
            f"{context.target}, {item.period_partitions}, on {', '.join(map(str, comparison.nodes))}: "
            f"{comparison.reason}. Restoring a version would undo that (rows erased on request would come back): "
            "if you want it, restore with --replace-changed."
        )
    yield from _follow_structure(context, version)
    restored = Restored(version.attempt, request.by, f"{request.now:%Y-%m-%d %H:%M} UTC")
    yield from _publish(item, version, restored)
    rows = yield from _count_rows(
        context, context.target, {key for node in version.nodes.values() for key in node.states}
    )
    of_others = version.attempt.removeprefix(BEFORE)
    held = "what attempt {} had published" if of_others == version.attempt else "the rows that attempt {} had replaced"
    reason = f"it holds {held.format(of_others)}, and is pinned"
    return RestoredPeriod(period, "restored", version.attempt, rows, reason)


def _publish(item: Publication, version: Version, restored: Restored) -> Steps[None]:
    """Publish a version as a load publishes what it has staged."""
    context = item.context
    claims: Values = {"source_bytes": version.source_bytes, "restored": restored.as_text()}
    yield from end_earlier_attempts(context, item.attempt)
    try:
        yield from create_staging(context, item.attempt)
        yield from take_over(context, item.attempt)
        staged = yield from _stage(item, version)
        periods = Batch({item.period: replace(item, staged=staged, claims=claims)})
        yield from publish(periods)
        periods.unwrap()
    except Exception as error:
        if isinstance(error, Chs3Error) and not isinstance(error, SupersededError):
            yield from check_not_superseded(context, item.attempt, error)
        yield from clean_up(item)
        raise
    yield from clean_up(item, done=[item.attempt])


def _count_rows(context: Target, name: TableName, ids: Collection[str]) -> Steps[int]:
    """Return the rows of partitions on all shards, without those that a lightweight DELETE hides: parts count these."""
    of_shards = {node.shard_num: node for node in sorted(context.nodes, reverse=True)}
    sql = Sql(f"SELECT count() FROM {table(name)} WHERE {one_of('_partition_id', sorted(ids))}")
    answers = yield from QueryNodes(name=f"Count rows of {name}", sql=dict.fromkeys(of_shards.values(), sql))
    return sum(rows[0][0] for rows in answers.values())


def _visible_rows(context: Target, version: Version) -> Steps[int]:
    states = [state for of_node in version.nodes.values() for state in of_node.states.values()]
    if not any(part.hides_rows for state in states for part in state.each_part or ()):
        return version.rows
    name = TableName(context.staging_database, version.table)
    return (yield from _count_rows(context, name, {state.partition_id for state in states}))


def _chosen(
    request: RestoreRequest, versions: Sequence[Version], before: Mapping[Node, PeriodOnNode], item: Publication
) -> Version:
    """Return the version to restore."""
    records = [on_node.record for on_node in before.values() if on_node.record]
    dead = next((record.restored for record in records if record.event == "intent" and record.restored), "")
    wanted = request.version or (dead and Restored.of_text(dead).version)
    current = {record.attempt for record in records if record.event == "published"}
    current |= {Restored.of_text(record.restored).version for record in records if record.restored}
    same = {objects_of(record) for record in records if record.event == "published"} - {""}
    fitting = [
        version
        for version in versions
        if (version.attempt == wanted if wanted else version.attempt not in current and version.objects not in same)
    ]
    if not fitting:
        of, target = item.period, item.context.target
        known = ", ".join(dict.fromkeys(version.attempt for version in versions))
        if not known:
            reason = f"{target} has no versions of {of}: loads keep them with policies={{'keep_versions': 1}}."
        elif wanted:
            reason = f"{target} has no version {wanted} of {of}; chs3 versions lists those that it has: {known}."
        else:
            reason = (
                f"{target} has no earlier version of {of}: {known} came from the same objects as its rows. Name one to "
                "restore it."
            )
        raise PreflightError(reason)
    version = fitting[-1]
    shards = sorted({node.shard_num for node in item.context.nodes})
    reason = version.why_broken
    if not reason and sorted(version.shards) != shards:
        reason = f"the period was spread over shards {', '.join(map(str, version.shards))}"
    if reason:
        raise PreflightError(
            f"Version {version.attempt} of {item.period} cannot be restored into {item.context.target}: "
            f"{reason}. Nothing was changed. Choose another version (chs3 versions), or load the period."
        )
    return version


def _follow_structure(context: Target, version: Version) -> Steps[None]:
    """Add the columns to a version that the table got since; its partitions fit only a table of the same structure."""
    name, target = TableName(context.staging_database, version.table), context.table_facts
    comment = f"SELECT comment FROM system.tables WHERE {is_table(name)}"
    sql = Sql(f"SELECT {target_query(name)}, ({comment})")
    answers = yield from QueryNodes(name=f"Look at {name}", sql=dict.fromkeys(version.nodes, sql))
    added = dict[Node, Sql]()
    for node, ((*row, comment),) in answers.items():
        was = target_facts(row)
        assert was  # It was there a moment ago.
        if altered := differences(was, target):
            raise PreflightError(
                f"Version {version.attempt} of {version.period} cannot be restored: {context.target} was altered "
                f"since ({'; '.join(altered)}), and only added columns can be followed. Nothing was changed. "
                "Undo the ALTER, or load the period."
            )
        if new := [column for column in target.stored if column.name not in {column.name for column in was.stored}]:
            commands = (*map(_add, new), f"MODIFY COMMENT {literal(add_date(comment, version.kept_at))}")
            added[node] = Sql(f"ALTER TABLE {table(name)} {', '.join(commands)}")
    if added:
        settings = {**ddl_settings(context), **context.permissions, **context.ddl_settings_of(name.database)}
        yield from QueryNodes(name=f"Add columns to {name}", sql=added, settings=settings)


def _add(column: Column) -> str:
    default = f" {column.default_kind} {column.default_expression}" if column.default_kind else ""
    return f"ADD COLUMN IF NOT EXISTS {identifier(column.name)} {column.type}{default}"


def _stage(item: Publication, version: Version) -> Steps[dict[Node, Staged]]:
    """Link the version into staging, and prove that it is there."""
    wanted = {
        node: Staged({key: state.contents for key, state in of_node.states.items()})
        for node, of_node in version.nodes.items()
    }
    source = TableName(item.context.staging_database, version.table)
    staged = yield from link_partitions(item, source, item.attempt, wanted)
    for node, stored in wanted.items():
        if not all(
            contents.of_parts is None or contents.has_parts_of(staged[node].at(key))
            for key, contents in stored.partitions.items()
        ):
            raise VerificationError(
                f"Staging {item.staging} on {node} does not hold what was kept of {version.period} in version "
                f"{version.attempt}: somebody else writes to one of them. Nothing was published; restore it again."
            )
    return staged
