"""Which months are to be loaded: those that are not as published, each with the reason."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from airflow_provider_chs3.core.answers import passed_on
from airflow_provider_chs3.core.key_template import KeyTemplate, MonthKeys
from airflow_provider_chs3.core.ledger import (
    LEDGER_TABLE,
    STANDING_EVENTS,
    MonthOnNode,
    Standing,
    record_columns,
    record_of,
    standing,
)
from airflow_provider_chs3.core.models import Fingerprint, Month, Node, PartitionState, S3Object, TableName
from airflow_provider_chs3.core.planned import MonthObjects, PlannedMonth
from airflow_provider_chs3.core.preflight import check_target
from airflow_provider_chs3.core.reloading import ASKED_FOR, Reload
from airflow_provider_chs3.core.replication import with_records_of_replicas
from airflow_provider_chs3.core.sources import S3Source
from airflow_provider_chs3.core.sql import Sql, identifier, literal, literals, table
from airflow_provider_chs3.core.steps import Ask, AskNodes, Row, Say, Steps
from airflow_provider_chs3.core.target import Surroundings, look_around
from airflow_provider_chs3.exceptions import SourceError


@dataclass(frozen=True, kw_only=True)
class PlanRequest:
    """What is to be planned.

    Args:
        source: Where the objects are.
        target: A local table, or a Distributed one.
        cluster: The cluster that loads; None takes the Distributed table's, else the default.
        default_cluster: The connection's cluster; None is the single server that the connection leads to.
        staging_database: Where the ledger is; None takes the target's.
        months: The months to look at; None looks at all in the bucket.
        leave_out_empty: Whether a month that was never loaded and has no objects is nothing to load. Else the load
            decides what that means.
        definition: Of what is to be made of the objects; None does not compare it.
        reload: What is loaded again, though it is as published, and nothing else: `months` are its months.
    """

    source: S3Source
    target: TableName
    cluster: str | None
    default_cluster: str | None
    staging_database: str | None
    months: tuple[Month, ...] | None
    leave_out_empty: bool
    definition: str | None = None
    reload: Reload | None = None


def plan_months(request: PlanRequest) -> Steps[list[PlannedMonth]]:
    """Compare the months' objects with what was published.

    Returns:
        All months that were looked at, in their order.

    Raises:
        SourceError: If all months of a bucket were asked for, and it has none.
        PreflightError: If cluster or table are not there.
    """
    reload = request.reload
    if reload and (yield from reload.leaves_out_table(request.target, request.cluster)):
        yield Say(name=f"Nothing to load into {request.target}: this run reloads {reload}.")
        return []
    listed = yield from list_months(request.source, request.months)
    around = yield from look_around(
        target=request.target,
        cluster=request.cluster,
        default_cluster=request.default_cluster,
        ledger=TableName(request.staging_database or "", LEDGER_TABLE),
        settings=(),
    )
    check_target(around, required_settings=())
    published = yield from look_up_months(around, listed)
    planned = [_planned(request, around, month, listed[month], published[month]) for month in sorted(listed)]
    for each in planned:
        yield Say(name=f"{each}.")
    return planned


def _planned(
    request: PlanRequest, around: Surroundings, month: Month, objects: MonthObjects, nodes: Mapping[Node, MonthOnNode]
) -> PlannedMonth:
    found, _ = standing(
        nodes,
        fingerprint=objects.fingerprint,
        definition=request.definition,
        may_lose_all=around.shape.may_lose_all,
        keeps_every_row=around.shape.keeps_every_row,
    )
    if request.reload and found is Standing.UNCHANGED:
        return PlannedMonth(month, objects, ASKED_FOR, is_to_load=True, target=around.target)
    if found is Standing.NEW and not objects.count and request.leave_out_empty:
        return PlannedMonth(month, objects, "it has no objects yet", is_to_load=False, target=around.target)
    return PlannedMonth(
        month,
        objects,
        found.value,
        is_to_load=found is not Standing.UNCHANGED,
        target=around.target,
        has_changed_objects=found is Standing.OBJECTS_CHANGED,
        attempts=tuple(sorted({each.record.attempt for each in nodes.values() if each.record})),
    )


class _Folded:
    """A month's objects, folded into a fingerprint while they come: a bucket's keys may not fit into memory."""

    def __init__(self) -> None:
        self.count = self.size_bytes = 0
        self.is_sorted = True
        self._last_path = ""
        self._fingerprint = Fingerprint()

    def add(self, each: S3Object) -> None:
        self.count += 1
        self.size_bytes += each.size_bytes
        self.is_sorted = self.is_sorted and self._last_path < each.path
        self._last_path = each.path
        self._fingerprint.add(each)

    def objects(self) -> MonthObjects:
        return MonthObjects(self.count, self.size_bytes, str(self._fingerprint))


def list_months(source: S3Source, months: Collection[Month] | None) -> Steps[dict[Month, MonthObjects]]:
    """List months in one pass over each prefix that they have in common.

    S3 lists in the order of keys, other storages and ClickHouse may not: a month that did not come in order is listed
    once more, by itself.

    Args:
        source: Where the objects are.
        months: The months; None stands for all that are there.

    Returns:
        Each month that was asked for, or that is there.

    Raises:
        SourceError: If all were asked for, and there is none.
    """
    folded = {month: _Folded() for month in months or ()}
    for keys, wanted in _passes(source.template, months):
        listing, objects = yield from source.list_around(keys)
        for month, each in _sorted_out(source.template, objects, base=listing.base):
            if wanted is None or month in wanted:
                folded.setdefault(month, _Folded()).add(each)
    if months is None and not folded:
        raise SourceError(
            f"No object of any month under {source.bucket or source.credentials.named_collection}/"
            f"{source.template.text}: check bucket and key."
        )
    listed = {month: found.objects() for month, found in folded.items()}
    for month in (month for month, found in folded.items() if not found.is_sorted):
        _, manifest = yield from source.list_month(month)
        listed[month] = MonthObjects(len(manifest.objects), manifest.size_bytes, manifest.fingerprint)
    return listed


def _passes(template: KeyTemplate, months: Collection[Month] | None) -> list[tuple[MonthKeys, set[Month] | None]]:
    if months is None:
        return [(template.keys_of_all, None)]
    by_prefix: dict[str, set[Month]] = defaultdict(set)
    for month in months:
        by_prefix[template.keys_of(month).prefix].add(month)
    return [(template.keys_of(min(some)), some) for some in by_prefix.values()]


def _sorted_out(template: KeyTemplate, objects: Iterable[S3Object], *, base: str) -> Iterator[tuple[Month, S3Object]]:
    keys: dict[Month, MonthKeys] = {}
    for each in objects:
        key = each.path[len(base) :]
        month = template.month_of(key)
        if month is None:
            continue
        if month not in keys:
            keys[month] = template.keys_of(month)
        if keys[month].select(key, each.size_bytes):
            yield month, each


def look_up_months(around: Surroundings, months: Collection[Month]) -> Steps[dict[Month, dict[Node, MonthOnNode]]]:
    """Ask once for the newest record of each month on each node, and for the months' parts.

    Args:
        around: The nodes; those that have no ledger yet are not asked, as no month counts as published there.
        months: The months.
    """
    answers = yield from _ask_for_months(around, sorted(months))
    records = [record for row in answers for record in row[0]]
    parts = [part for row in answers for part in row[1]]
    own = [(number, month, *newest) for number, month, newest, is_own in records if is_own]
    newest = {(number, month): record_of(fields) for number, month, _, fields in own}
    partition_ids = {month: partition_id for _, month, partition_id, _ in own}
    known = {(number, month) for number, month, *_ in records}
    states = {(number, partition_id): PartitionState(*state) for number, partition_id, state in parts}
    found = {
        month: {
            node: MonthOnNode(
                newest.get((number, str(month))),
                states.get((number, partition_ids.get(str(month), "")), PartitionState()),
                has_history=(number, str(month)) in known,
            )
            for node, number in _numbers(around).items()
        }
        for month in months
    }
    return {month: with_records_of_replicas(around, nodes) for month, nodes in found.items()}


def _numbers(around: Surroundings) -> dict[Node, int]:
    """A number for each node: its shard's, as `_shard_num` gives it, unless shards have several nodes."""
    if len(around.publishers) == len(around.nodes):
        return {node: node.shard_num for node in around.nodes}
    return {node: number for number, node in enumerate(around.nodes)}


def _ask_for_months(around: Surroundings, months: Collection[Month]) -> Steps[list[Row]]:
    name = f"Look up {len(months)} months in the ledger"
    knowing = [node for node, facts in around.nodes.items() if facts.has_ledger]
    shapes = {facts.ledger_columns for facts in around.nodes.values()}
    if around.cluster and knowing and len(shapes) == 1 and len(around.publishers) == len(around.nodes):
        sql = _look_up_months(around, months, shapes.pop(), cluster=around.cluster, number="_shard_num")
        rows: list[Row] = yield Ask(name=f"{name} of every node", sql=sql)
        return rows
    # A table or a column that a node does not have fails the query for all of them; and nothing tells replicas apart.
    numbers = _numbers(around)
    each = {
        node: _look_up_months(
            around, months, around.nodes[node].ledger_columns, cluster=None, number=f"toUInt32({numbers[node]})"
        )
        for node in knowing
    }
    answers = yield AskNodes(name=name, sql=each)
    return [rows[0] for rows in answers.values()]


def _look_up_months(
    around: Surroundings, months: Iterable[Month], columns: Collection[str], *, cluster: str | None, number: str
) -> Sql:
    target = around.target
    # Each node's records tell of its own table, and no two tables share a UUID.
    uuids = sorted({facts.target.uuid for facts in around.nodes.values() if facts.target})
    is_own = f"target_uuid IN ({literals(uuids)})"
    newest = f"argMaxIf((partition_id, ({record_columns(columns)})), (sequence, recorded_at), {is_own})"
    records = (
        f"SELECT ({number}, month, {newest}, countIf({is_own}) > 0) AS record "
        f"FROM {_from(around.ledger, cluster)} "
        f"WHERE target_database = {literal(target.database)} AND target_table = {literal(target.table)} "
        f"AND month IN ({literals(map(str, months))}) AND event IN ({STANDING_EVENTS}) GROUP BY {number}, month"
    )
    # What counts, and why, says `core.ledger.look_up`.
    own = "NOT startsWith(partition_id, 'patch-') AND rows > 0"
    parts = (
        f"SELECT ({number}, replaceRegexpOne(partition_id, '^patch-[^-]*-', '') AS partition, (sumIf(rows, {own}), "
        f"countIf({own}), sumIf(bytes_on_disk, {own}), minIf(min_block_number, {own}), "
        f"maxIf(max_block_number, {own}), max(data_version))) AS part "
        f"FROM {_from(TableName('system', 'parts'), cluster)} WHERE database = {literal(target.database)} "
        f"AND table = {literal(target.table)} AND active GROUP BY {number}, partition"
    )
    sql = Sql(f"SELECT (SELECT groupArray(record) FROM ({records})), (SELECT groupArray(part) FROM ({parts}))")
    return passed_on(sql) if cluster else sql


def _from(name: TableName, cluster: str | None) -> str:
    if cluster is None:
        return table(name)
    return f"clusterAllReplicas({literal(cluster)}, {identifier(name.database)}, {identifier(name.table)})"
